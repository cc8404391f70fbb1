"""The store for many machines: a schema of its own in a PostgreSQL database, through psycopg.

Statements only; every rule is in `ledger`. What lies beside a file (the kill switch, the anchor,
who drives runs here) lies in a folder of this machine: see `address`.
"""

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Generator, Sequence
from pathlib import Path
from typing import Final, TypeVar, cast

import psycopg

from pullcord.errors import JournalClosed, JournalError, StoreRefused
from pullcord.journal.clock import Clock
from pullcord.journal.evidence.anchor import Anchor
from pullcord.journal.one_commit import Trouble, alone
from pullcord.journal.optimistic import Contended, OptimisticTransaction
from pullcord.journal.postgres.address import parsed
from pullcord.journal.postgres.clock import KEEP_UP, SHOWN, DatabaseClock
from pullcord.journal.postgres.connection import Db, Link, ask
from pullcord.journal.postgres.exchange import Exchanger
from pullcord.journal.postgres.listener import PostgresListener
from pullcord.journal.postgres.migration import make_ready
from pullcord.journal.postgres.rows import PostgresLook
from pullcord.journal.postgres.schema import MIGRATIONS, REWRITTEN
from pullcord.journal.postgres.tables import PostgresTables
from pullcord.journal.store import Job, Outcome, Scrubbed, Transaction, View

T = TypeVar("T")
_HELD_S: Final = 5.0  # how long to wait for readers of what was before; longer ones are told of
_AGAIN_S: Final = 0.05
_STILL_S: Final = 10  # a writer that is silent for so long is stopped, suspended or gone
REWRITE_MAX_BYTES: Final = 64 * 1024 * 1024  # more than that would hold up writers for too long


class PostgresStore:
    """One schema of one database. Safe for any number of threads, processes and machines."""

    readers = 6  # they wait for the network; each has a connection

    def __init__(
        self,
        url: str,
        *,
        migrations: Sequence[str] = MIGRATIONS,
        busy_timeout_s: float = 30.0,
        machine: Clock | None = None,
        make: bool = True,
    ) -> None:
        address = parsed(url)
        self.name, self.beside = address.name, address.beside
        self._link = Link(address, busy_timeout_s=busy_timeout_s)
        self._busy_timeout_s = busy_timeout_s
        self._clock = DatabaseClock(machine)
        self._closed = False
        self._anchor = Anchor(Path(self.beside))
        self._readers: list[PostgresLook] = []
        self._readers_lock = threading.Lock()
        self._writing = threading.Lock()
        self._tables: PostgresTables | None = None
        self._transaction: OptimisticTransaction | None = None
        self._number = 0
        self._make_side()
        try:
            db = self._link.connect()
            try:
                self._clock.begin(make_ready(db, self._link, migrations, make=make))
                self._clock.hear(self._shown(db))
            except BaseException:
                db.close()
                raise
        except psycopg.Error as error:
            raise self._link.explained(error, "Opening") from error
        self._readers.append(self._look_along(db))

    def _shown(self, db: Db) -> float:
        shown = ask(db, f"{KEEP_UP}; SELECT {SHOWN} FROM store")
        if shown is None:
            raise StoreRefused(
                self.name,
                why=f"its schema {self._link.address.schema} is damaged (the table store is empty)",
                instead="Keep it as evidence and restore a copy, or use another schema.",
            )
        return shown[0]

    @property
    def clock(self) -> Clock:
        return self._clock

    def write(self, job: Callable[[Transaction], T]) -> T:
        [outcome] = self._carried_out([job])
        if outcome.error is not None:
            raise outcome.error
        return cast("T", outcome.result)

    def write_each(self, jobs: Sequence[Job]) -> list[Outcome]:
        if len(jobs) == 1:
            return [alone(self.write, jobs[0])]
        try:
            return self._carried_out(jobs)
        except Trouble:
            return [alone(self.write, job) for job in jobs]
        except BaseException as error:  # not known to be durable: nobody may be told otherwise
            return [Outcome(error=error) for _ in jobs]

    def _carried_out(self, jobs: Sequence[Job]) -> list[Outcome]:
        with self._writing:
            if self._closed:
                raise JournalClosed
            try:
                try:
                    outcomes = self._attempted(jobs)
                except psycopg.Error:
                    if not (self._tables and self._tables.line.db.closed):
                        raise
                    # It was lost while nobody used it, perhaps. Nothing is written: once more.
                    outcomes = self._attempted(jobs)
            except psycopg.Error as error:
                self._drop()
                raise self._link.explained(error, "Writing to") from error
            except Contended as error:
                raise self._link.contended() from error
            tables = self._tables
            if tables and (stopped := tables.stopped):
                self._anchor.note(stopped)  # behind the commit: it may lag, never lead
                tables.stopped = None
            return outcomes

    def read(self, job: Callable[[View], T]) -> T:
        with self.looking() as view:
            return job(view)

    @contextlib.contextmanager
    def looking(self) -> Generator[View]:
        """One consistent look at the store, for as long as it is open."""
        try:
            look = self._reader()
            try:
                yield look
            finally:
                self._give_back(look)
        except psycopg.Error as error:
            raise self._link.explained(error, "Reading") from error

    def scrub(self, *, rewrite: bool = False) -> Scrubbed:
        """Deleted rows stay in the tables' files until those are written anew, which is done if
        they are small, or `rewrite`. What the server has logged, copied to standbys or saved
        elsewhere is out of our reach: `logged` says so."""
        try:
            with contextlib.closing(self._link.connect()) as db:
                traces = db.execute("SELECT run FROM traces").fetchall()
                sizes = " + ".join(f"pg_total_relation_size('{name}')" for name in REWRITTEN)
                size = cast("tuple[int]", ask(db, f"SELECT ({sizes})::bigint"))[0]
                if not rewrite and not traces:
                    return "logged"
                if not rewrite and size > REWRITE_MAX_BYTES:
                    return "traces"
                if not self._is_unobserved(db):
                    return "held"
                for table in REWRITTEN:
                    file = f"SELECT pg_relation_filenode('{table}')"
                    before = ask(db, file)
                    ask(db, f"VACUUM FULL {table}")
                    if ask(db, file) == before:
                        return "traces"  # another user's: the server has only warned, and passed on
                for run in traces:  # and none that somebody has left meanwhile
                    db.execute("DELETE FROM traces WHERE run = %s", run)
                return "logged"
        except psycopg.Error as error:
            raise self._link.explained(error, "Rewriting") from error

    def listen(self) -> PostgresListener:
        try:
            return PostgresListener(self._link)
        except psycopg.Error as error:
            raise self._link.explained(error, "Listening to") from error

    def poke(self) -> None:
        """Nothing to do: whoever commits tells the others right behind it, on the same way."""

    def close(self) -> None:
        with self._writing:
            if self._closed:
                return
            self._closed = True
            with self._readers_lock:
                for reader in self._readers:
                    reader.line.db.close()
            self._drop()

    # --- a transaction ---

    def _attempted(self, jobs: Sequence[Job]) -> list[Outcome]:
        attempts = self._begun().attempts(jobs)
        while True:
            try:
                next(attempts)
            except StopIteration as done:
                return done.value

    def _begun(self) -> OptimisticTransaction:
        """The transaction of this process. A connection that was lost while nobody used it is
        replaced, and what was known along with it is asked for again."""
        if self._tables is not None and self._tables.line.db.closed:
            self._drop()
        if self._transaction is None:
            number = secrets.randbits(31)
            line = Exchanger(self._link.connect_writer(number, still_s=_STILL_S))
            self._tables = PostgresTables(
                line,
                self._clock,
                tag=self._link.places,
                channel=self._link.channel,
                writer=number,
                is_kept=self._is_kept,
            )
            self._transaction = OptimisticTransaction(self._tables, number=self._number)
        return self._transaction

    def _is_kept(self, writer: int, commits: int, lost: psycopg.Error) -> bool:
        """Whether a commit was carried out whose answer got lost: whether its writer has made so
        many. That is known for good when its connection is no more, and with it its lock. It is
        asked for as long as anybody would wait: a server that starts again is soon back.

        Raises:
            StorageFailed: nobody can say.
        """
        until_s = time.monotonic() + self._busy_timeout_s
        lock = f"{self._link.writers}, {writer}"
        while True:
            try:
                with contextlib.closing(self._link.connect()) as db:
                    ask(
                        db,
                        "SELECT pg_terminate_backend(pid) FROM pg_locks "
                        f"WHERE locktype = 'advisory' AND classid = {self._link.writers} "
                        f"AND objid = {writer} AND objsubid = 2",
                    )
                    ask(db, f"SELECT pg_advisory_lock({lock})")
                    found = ask(db, f"SELECT commits FROM writers WHERE id = {writer}")
                return found is not None and found[0] >= commits
            except (psycopg.Error, JournalError):
                if time.monotonic() > until_s:
                    raise self._link.in_doubt(lost) from lost
                time.sleep(_AGAIN_S)

    def _drop(self) -> None:
        if self._transaction is not None:
            self._number = self._transaction.number()
        if self._tables is not None:
            self._tables.line.db.close()
        self._tables = self._transaction = None

    # --- readers ---

    def _reader(self) -> PostgresLook:
        while True:
            with self._readers_lock:
                if self._closed:
                    raise JournalClosed
                look = self._readers.pop() if self._readers else None
            if look is not None and look.line.is_lost:
                look.line.db.close()
                continue
            return look or self._look_along(self._link.connect())

    def _look_along(self, db: Db) -> PostgresLook:
        again = lambda: Exchanger(self._link.connect())  # noqa: E731
        return PostgresLook(Exchanger(db), self._link.places, self._clock, again=again)

    def _give_back(self, look: PostgresLook) -> None:
        """Also if the job has raised: that is no trouble of the connection's."""
        with contextlib.suppress(psycopg.Error):
            look.is_over()
        with self._readers_lock:
            if self._closed or look.line.db.closed:
                look.line.db.close()
            else:
                self._readers.append(look)

    # --- what is outside of the tables ---

    def _make_side(self) -> None:
        try:
            os.makedirs(f"{self.beside}-side", mode=0o700, exist_ok=True)
        except OSError as error:
            raise StoreRefused(
                self.name,
                why=f"the folder of its kill switch cannot be made: {error.filename}, "
                f"{error.strerror}",
                instead="Name one that can be written: PULLCORD_STATE.",
            ) from error

    def _is_unobserved(self, db: Db) -> bool:
        """Whether nobody, that we may know of, still looks at the store as it was before."""
        until_s = time.monotonic() + _HELD_S
        while True:
            row = ask(
                db,
                "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() "
                "AND pid <> pg_backend_pid() AND backend_xmin IS NOT NULL",
            )
            if row == (0,):
                return True
            if time.monotonic() > until_s:
                return False
            time.sleep(_AGAIN_S)
