"""The default store: one SQLite file, through apsw, durable at every commit.

WAL, `synchronous=FULL`: with NORMAL a power cut loses acknowledged records. Statements only; every
rule is in `ledger`. Beside `runs.db` lies `runs.db-side/` with the turnstile and the wake pipes.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import apsw

from pullcord.errors import JournalClosed, StorageFailed
from pullcord.journal.clock import Clock, SystemClock
from pullcord.journal.evidence.anchor import Anchor
from pullcord.journal.one_commit import in_one_commit
from pullcord.journal.sqlite.file import (
    PRAGMAS,
    explained,
    make_private,
    make_ready,
    refuse_unfit,
    unusable,
)
from pullcord.journal.sqlite.rows import Connection
from pullcord.journal.sqlite.schema import MIGRATIONS
from pullcord.journal.sqlite.turnstile import POLL_S, Turnstile, TurnTimeout
from pullcord.journal.sqlite.wake_pipe import WakeAll, WakePipe
from pullcord.journal.store import Job, Named, Outcome, Scrubbed, Transaction, View
from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    from pullcord.journal.sqlite import lock_holder
else:
    lock_holder = lazy_import("pullcord.journal.sqlite.lock_holder")  # a write that waits in vain

T = TypeVar("T")
_CUT_S: Final = 5.0  # how long to wait for readers; longer ones are told of
REWRITE_MAX_BYTES: Final = 64 * 1024 * 1024  # more than that would hold up writers for too long


class SqliteStore:
    """One file. Safe for any number of threads and processes on one machine."""

    readers = 2  # they use the processor; more would only stand in each other's way

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        migrations: Sequence[str] = MIGRATIONS,
        busy_timeout_s: float = 30.0,
    ) -> None:
        self._path = _followed(path)
        self._busy_timeout_s = busy_timeout_s
        self._closed = False
        self.clock: Clock = SystemClock()  # one machine: its own clock, for as long as it is up
        self._anchor = Anchor(self._path)
        self._readers: list[Connection] = []
        self._readers_lock = threading.Lock()
        self._writing = threading.Lock()
        self._side = refuse_unfit(self._path, known=len(migrations))
        try:
            self._turnstile = Turnstile(self._side / "turn")
            self._wake_all = WakeAll(self._side)
        except OSError as error:
            raise unusable(self._path, error) from error
        try:
            self._writer = Connection(self._first_connection(migrations))
        except BaseException:
            self._turnstile.close()
            self._wake_all.close()
            raise

    @property
    def name(self) -> str:
        return str(self._path)

    @property
    def beside(self) -> str:
        return str(self._path)

    def write(self, job: Callable[[Transaction], T]) -> T:
        with self._writing:
            if self._closed:
                raise JournalClosed
            try:
                self._begin()
                try:
                    self._writer.begun()
                    result = job(self._writer)
                    self._writer.run("COMMIT")
                except BaseException:
                    self._roll_back()
                    raise
            except apsw.Error as error:
                raise explained(error, "Writing to", self._path) from error
            if stop := self._writer.stopped:
                self._anchor.note(stop)  # behind the commit: it may lag, never lead
            return result

    def write_each(self, jobs: Sequence[Job]) -> list[Outcome]:
        return in_one_commit(self.write, jobs)

    def read(self, job: Callable[[View], T]) -> T:
        try:
            reader = self._reader()
            try:
                reader.run("BEGIN")
                return job(reader)
            finally:
                if reader.db.in_transaction:
                    reader.run("COMMIT")
                self._give_back(reader)
        except apsw.Error as error:
            raise explained(error, "Reading", self._path) from error

    def scrub(self, *, rewrite: bool = False) -> Scrubbed:
        """Deleting overwrites the bytes where they stand. But SQLite leaves copies in the unused
        parts of pages that it splits, so the file is written anew if it is small, or `rewrite`;
        and the pages as they were stand in the write-ahead log, until that is cut off."""
        with self._writing:
            if self._closed:
                raise JournalClosed
            try:
                traces = self._writer.traces()
                if rewrite or (traces and self._writer.size() <= REWRITE_MAX_BYTES):
                    self._in_turn(lambda: self._writer.run("VACUUM"))
                    # None that somebody has left since: another process may forget, too.
                    self._in_turn(lambda: self._writer.drop_traces(traces))
                    traces = []
                is_cut = self._cut_log()
            except apsw.Error as error:
                raise explained(error, "Writing to", self._path) from error
            return "held" if not is_cut else "traces" if traces else "gone"

    def _cut_log(self) -> bool:
        until_s = time.monotonic() + _CUT_S
        while True:
            busy = self._writer.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
            if busy is None or busy[0] == 0:
                return True
            if time.monotonic() > until_s:
                return False
            time.sleep(POLL_S)

    def listen(self) -> "_SqliteListener":
        try:
            return _SqliteListener(self._side, self._connect())
        except apsw.Error as error:
            raise explained(error, "Listening to", self._path) from error

    def poke(self) -> None:
        self._wake_all()

    def close(self) -> None:
        with self._writing:
            if self._closed:
                return
            self._closed = True
            self._wake_all()
            self._wake_all.close()
            with self._readers_lock:
                for reader in self._readers:
                    reader.db.close()
            self._writer.db.close()
            self._turnstile.close()

    # --- connections and locks ---

    def _connect(self) -> apsw.Connection:
        db = apsw.Connection(str(self._path), statementcachesize=64)
        # First of all: already the first look may meet another process that closes the file.
        db.set_busy_timeout(round(self._busy_timeout_s * 1000))
        for pragma, value in PRAGMAS:
            db.pragma(pragma, value)
        # Stable plans: otherwise SQLite prepares a statement anew for each value bound to it,
        # which made finding a run's last record cost 26 µs in place of 3.
        db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)
        return db

    def _first_connection(self, migrations: Sequence[str]) -> apsw.Connection:
        """Open and prepare the file in turn: of two processes, one makes it."""
        try:
            self._turnstile.enter(until_s=time.monotonic() + self._busy_timeout_s)
        except TurnTimeout:
            raise self._locked_out() from None
        try:
            make_private(self._path)
            db = self._connect()
            make_ready(db, self._path, migrations)
            db.set_busy_timeout(0)  # from here on the turnstile orders the writers
            return db
        except apsw.Error as error:
            raise explained(error, "Opening", self._path) from error
        finally:
            self._turnstile.leave()

    def _reader(self) -> "Connection":
        with self._readers_lock:
            if self._closed:
                raise JournalClosed
            if self._readers:
                return self._readers.pop()
        return Connection(self._connect())

    def _give_back(self, reader: "Connection") -> None:
        with self._readers_lock:
            if self._closed:
                reader.db.close()
            else:
                self._readers.append(reader)

    def _begin(self) -> None:
        """Enter a write transaction in turn. The turnstile is free again once the lock is ours."""
        self._in_turn(lambda: self._writer.run("BEGIN IMMEDIATE"))

    def _in_turn(self, work: Callable[[], None]) -> None:
        until_s = time.monotonic() + self._busy_timeout_s
        try:
            self._turnstile.enter(until_s=until_s)
            try:
                while True:
                    try:
                        return work()
                    except apsw.BusyError:
                        if time.monotonic() > until_s:
                            raise
                    time.sleep(POLL_S)
            finally:
                self._turnstile.leave()
        except (TurnTimeout, apsw.BusyError):
            raise self._locked_out() from None

    def _roll_back(self) -> None:
        self._writer.rolled_back()
        # After some errors (a full disk, a failed read) SQLite has rolled back by itself.
        with contextlib.suppress(apsw.Error):
            if self._writer.db.in_transaction:
                self._writer.run("ROLLBACK")

    def _locked_out(self) -> StorageFailed:
        held = Path(f"{self._path}-shm"), self._path, self._side / "turn"
        who, instead = lock_holder.said_of(lock_holder.lock_holder(held))
        why = f"another process has held the file for {self._busy_timeout_s:g} s{who}"
        return StorageFailed("Writing to", path=self.name, why=why, instead=instead)


class _SqliteListener:
    """A wake pipe, and a look at `data_version` in case a poke was lost or no pipe can be made."""

    def __init__(self, side: Path, db: apsw.Connection) -> None:
        self._pipe: WakePipe | _Nudge
        try:
            self._pipe, self._look_every_s = WakePipe(side), 0.25
        except OSError:  # a full disk, a read-only folder: hear a little later, not never
            self._pipe, self._look_every_s = _Nudge(), 0.02
        self._db = db
        self._version = self._data_version()

    def wait(self, timeout_s: float) -> bool:
        until = time.monotonic() + timeout_s
        while True:
            left = until - time.monotonic()
            poked = self._pipe.wait(min(max(left, 0.0), self._look_every_s))
            before, self._version = self._version, self._data_version()
            if poked or self._version != before:
                return True
            if left <= 0:
                return False

    def named(self) -> Named:
        return Named()

    def _data_version(self) -> object:
        return self._db.pragma("data_version")

    def wake(self) -> None:
        self._pipe.wake()

    def close(self) -> None:
        self._pipe.close()
        self._db.close()


class _Nudge(threading.Event):
    """Stands in for a wake pipe within this process."""

    def wake(self) -> None:
        self.set()

    def close(self) -> None:
        pass


def _followed(path: str | os.PathLike[str]) -> Path:
    """The file behind a link: its locks and its side folder must be the same for everybody."""
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError, ValueError):  # to be refused in words, a little later
        return Path(path).absolute()
