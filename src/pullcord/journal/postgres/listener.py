"""Hearing from a PostgreSQL server that something was committed, by whatever machine."""

import contextlib
import os
import select
import time
from collections.abc import Iterable
from typing import Final

import psycopg

from pullcord.errors import JournalError
from pullcord.journal.postgres.clock import KEEP_UP
from pullcord.journal.postgres.connection import Db, Link, ask
from pullcord.journal.store import Named

_LOOK_S: Final = 2.0  # how often it looks for itself: a notification may get lost
_AGAIN_S: Final = (0.05, 1.0)  # between attempts to reach a server that is away: at first, at most

# By the last place it is known that something was committed unheard. And nobody else may be there
# to see that the server's clock was set back.
_LOOK: Final = f"{KEEP_UP}; SELECT last_value FROM places"
_TIDY: Final = (  # what is left of the connections that ended
    "DELETE FROM writers WHERE since < now() - interval '1 day' AND id NOT IN "
    "(SELECT objid::int8 FROM pg_locks WHERE locktype = 'advisory' AND classid = {} "
    "AND objsubid = 2)"
)


class PostgresListener:
    """A connection that listens, and a number that is looked at in case nobody says anything. After
    the server was away it reports a change: nobody knows what has happened meanwhile."""

    def __init__(self, link: Link, *, look_s: float = _LOOK_S) -> None:
        self._link, self._look_s = link, look_s
        self._nudge = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._place, self._looked_at = -1, 0.0
        self._said: list[str] = []  # what was notified, and not handed on yet
        self._named = Named()
        self._away_s = _AGAIN_S[0]
        self._db: Db | None = None
        try:
            self._connect()
        except BaseException:
            os.close(self._nudge)
            raise

    def wait(self, timeout_s: float) -> bool:
        until = time.monotonic() + timeout_s
        self._named = Named()
        while True:
            left = max(until - time.monotonic(), 0.0)
            try:
                heard = self._listen(left) if self._db else self._return(left)
            except (psycopg.Error, JournalError):
                self._lose()
                heard = False
            if heard:
                return True
            if time.monotonic() >= until:
                return False

    def named(self) -> Named:
        return self._named

    def wake(self) -> None:
        os.eventfd_write(self._nudge, 1)

    def close(self) -> None:
        self._lose()
        os.close(self._nudge)

    def _connect(self) -> None:
        db = self._link.connect()
        try:
            db.add_notify_handler(lambda said: self._said.append(said.payload))
            ask(db, f'LISTEN "{self._link.channel}"')
            ask(db, _TIDY.format(self._link.writers))
            self._place = _last_place(db)
        except BaseException:
            db.close()
            raise
        self._db, self._away_s, self._looked_at = db, _AGAIN_S[0], time.monotonic()

    def _listen(self, left_s: float) -> bool:
        """Whether something was said, or has happened unsaid."""
        assert self._db
        due_s = max(self._looked_at + self._look_s - time.monotonic(), 0.0)
        if not self._said and self._sleep(min(left_s, due_s), self._db.fileno()):
            return True
        self._db.pgconn.consume_input()
        while notified := self._db.pgconn.notifies():
            self._said.append(notified.extra.decode())
        if time.monotonic() >= self._looked_at + self._look_s:
            before, self._place = self._place, _last_place(self._db)
            self._looked_at = time.monotonic()
            if self._place != before:
                self._said.clear()  # they are found with the rest
                return True
        if not self._said:
            return False
        self._named = _named(self._said)
        self._said.clear()
        return True

    def _return(self, left_s: float) -> bool:
        """Wait a little and try to reach the server. Whether it is back, or somebody calls."""
        if self._sleep(min(left_s, self._away_s)):
            return True
        self._away_s = min(self._away_s * 2, _AGAIN_S[1])
        self._connect()
        return True

    def _sleep(self, seconds: float, *also: int) -> bool:
        """Until one of these files has something, or the time is over. Whether we were nudged."""
        poll = select.poll()
        for fd in (self._nudge, *also):
            poll.register(fd, select.POLLIN)
        poll.poll(seconds * 1000)
        with contextlib.suppress(BlockingIOError):
            os.eventfd_read(self._nudge)
            return True
        return False

    def _lose(self) -> None:
        self._said.clear()
        if self._db:
            self._db.close()
            self._db = None


def _named(said: Iterable[str]) -> Named:
    """The runs that notifications name, see `tables.told`. Empty: one of them has named none."""
    named, waiting = Named(), set[str]()
    for words in said:
        if not words:
            return Named()
        for word in words.split():
            run_id, _, seq = word.rstrip("!").rpartition(":")
            named[run_id] = max(int(seq), named.get(run_id, 0))
            if word.endswith("!"):
                waiting.add(run_id)
    named.going_on = frozenset(named.keys() - waiting)
    return named


def _last_place(db: Db) -> int:
    row = ask(db, _LOOK)
    return row[0] if row else -1
