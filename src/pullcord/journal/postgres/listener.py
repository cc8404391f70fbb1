"""Hearing from a PostgreSQL server that something was committed, by whatever machine."""

import contextlib
import os
import select
import time
from typing import Final

import psycopg

from pullcord.errors import JournalError
from pullcord.journal.postgres.clock import KEEP, NOW
from pullcord.journal.postgres.connection import Db, Link, ask

_LOOK_S: Final = 1.0  # how often it looks for itself: a pooler, say, may swallow notifications
_AGAIN_S: Final = (0.05, 1.0)  # between attempts to reach a server that is away: at first, at most

_COMMITS: Final = (  # if its clock was set back and nobody writes, the store's would stand still
    f"UPDATE store SET {KEEP} WHERE seen_s > {NOW} + ahead_s; SELECT commits FROM store"
)


class PostgresListener:
    """A connection that listens, and a number that is looked at in case nobody says anything. After
    the server was away it reports a change: nobody knows what has happened meanwhile."""

    def __init__(self, link: Link, *, look_s: float = _LOOK_S) -> None:
        self._link, self._look_s = link, look_s
        self._nudge = os.eventfd(0, os.EFD_NONBLOCK | os.EFD_CLOEXEC)
        self._commits, self._is_said = -1, False
        self._away_s = _AGAIN_S[0]
        self._db: Db | None = None
        try:
            self._connect()
        except BaseException:
            os.close(self._nudge)
            raise

    def wait(self, timeout_s: float) -> bool:
        until = time.monotonic() + timeout_s
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

    def wake(self) -> None:
        os.eventfd_write(self._nudge, 1)

    def close(self) -> None:
        self._lose()
        os.close(self._nudge)

    def _connect(self) -> None:
        db = self._link.connect()
        try:
            db.add_notify_handler(self._say)
            ask(db, f'LISTEN "{self._link.channel}"')
            self._commits = _commits(db)
        except BaseException:
            db.close()
            raise
        self._db, self._away_s = db, _AGAIN_S[0]

    def _listen(self, left_s: float) -> bool:
        """Whether something was said, or has happened unsaid."""
        assert self._db
        if self._sleep(min(left_s, self._look_s), self._db.fileno()):
            return True
        self._db.pgconn.consume_input()
        while self._db.pgconn.notifies():
            self._is_said = True
        if not self._is_said:
            before, self._commits = self._commits, _commits(self._db)
            return self._commits != before or self._is_said
        self._is_said = False
        return True

    def _say(self, _: psycopg.Notify) -> None:
        """A notification that came along with an answer."""
        self._is_said = True

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
        if self._db:
            self._db.close()
            self._db = None


def _commits(db: Db) -> int:
    row = ask(db, _COMMITS)
    return row[0] if row else -1
