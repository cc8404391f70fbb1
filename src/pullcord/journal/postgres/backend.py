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
from typing import Any, Final, TypeVar, cast

import psycopg
from psycopg.pq import TransactionStatus

from pullcord.errors import JournalClosed, JournalError, StoreRefused
from pullcord.journal.clock import Clock
from pullcord.journal.evidence.anchor import Anchor
from pullcord.journal.postgres.address import parsed
from pullcord.journal.postgres.clock import KEEP, SHOWN, DatabaseClock
from pullcord.journal.postgres.connection import Db, Link, Statement, ask, tell
from pullcord.journal.postgres.listener import PostgresListener
from pullcord.journal.postgres.migration import make_ready
from pullcord.journal.postgres.rows import Ends, PostgresTransaction, PostgresView
from pullcord.journal.postgres.schema import MIGRATIONS, REWRITTEN
from pullcord.journal.store import Scrubbed, Transaction, View

T = TypeVar("T")
_ENDS: Final = f"SELECT commits, records, texts, {SHOWN}"
_SINCE: Final = (  # what others have committed since: which runs, and whether all of them say so
    "ARRAY(SELECT unnest(c.runs) FROM commits c WHERE c.n > {0}), "
    "(SELECT count(*) FROM commits c WHERE c.n > {0} AND c.runs IS NOT NULL)"
)
_HELD_S: Final = 5.0  # how long to wait for readers of what was before; longer ones are told of
_AGAIN_S: Final = 0.05
_STILL_S: Final = 10  # a writer that is silent for so long is stopped, suspended or gone
COMMITS_KEPT: Final = 10_000  # so many are known by their tokens
REWRITE_MAX_BYTES: Final = 64 * 1024 * 1024  # more than that would hold up writers for too long


class PostgresStore:
    """One schema of one database. Safe for any number of threads, processes and machines."""

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
        self._readers: list[PostgresView] = []
        self._readers_lock = threading.Lock()
        self._writing = threading.Lock()
        self._pen: PostgresTransaction | None = None
        self._number = 0
        self._make_side()
        try:
            self._pen = PostgresTransaction(self._link.connect(), number=self._number)
            self._clock.begin(make_ready(self._pen.db, self._link, migrations, make=make))
            self._heard(ask(self._pen.db, f"{_ENDS} FROM store"))
        except psycopg.Error as error:
            self._drop_pen()
            raise self._link.explained(error, "Opening") from error
        except BaseException:
            self._drop_pen()
            raise

    @property
    def clock(self) -> Clock:
        return self._clock

    def write(self, job: Callable[[Transaction], T]) -> T:
        with self._writing:
            if self._closed:
                raise JournalClosed
            try:
                pen = self._begin()
                try:
                    result = job(pen)
                except BaseException:
                    self._roll_back(pen)
                    raise
                if pen.written():
                    self._commit(pen)
                else:
                    ask(pen.db, "ROLLBACK")  # nobody is to be told, and nothing is to be flushed
            except psycopg.Error as error:
                self._drop_pen()
                raise self._link.explained(error, "Writing to") from error
            if pen.stopped:
                self._anchor.note(pen.stopped)  # behind the commit: it may lag, never lead
            return result

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
                self._end(look)
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
        """Nothing to do: every commit notifies by itself, and nobody is told before it."""

    def close(self) -> None:
        with self._writing:
            if self._closed:
                return
            self._closed = True
            with self._readers_lock:
                for reader in self._readers:
                    reader.db.close()
            self._drop_pen()

    # --- a transaction ---

    def _begin(self) -> PostgresTransaction:
        """Enter a write transaction, alone. A connection that was lost while nobody used it is
        replaced: nothing of the job was sent yet."""
        if self._pen is not None:
            try:
                return self._begin_on(self._pen)
            except psycopg.Error:
                if not self._pen.db.broken:
                    raise
                self._drop_pen()
        pen = self._pen = PostgresTransaction(self._link.connect(), number=self._number)
        return self._begin_on(pen)

    def _begin_on(self, pen: PostgresTransaction) -> PostgresTransaction:
        # The ledger's rules read first and write then, so a writer has to be alone from its first
        # look on, over all machines. Who asks for the lock first has it first. READ COMMITTED,
        # because each statement then sees what was committed before the lock was ours; a stricter
        # level would look at the store as it was when we began to wait.
        begin = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
        # Only its own server can end one whose machine is gone: others would wait for hours.
        still = f"SET LOCAL idle_in_transaction_session_timeout TO '{_STILL_S}s'"
        lock = f"SELECT pg_advisory_xact_lock({self._link.lock})"
        ends = f"{_ENDS}, {_SINCE.format(pen.left_at)} FROM store"
        row = ask(pen.db, f"{begin}; {still}; {lock}; {ends}")
        pen.begun(self._heard(row), *(row or ())[4:])
        return pen

    def _heard(self, row: tuple[Any, ...] | None) -> Ends:
        if row is None:
            raise StoreRefused(
                self.name,
                why=f"its schema {self._link.address.schema} is damaged (the table store is empty)",
                instead="Keep it as evidence and restore a copy, or use another schema.",
            )
        *ends, shown_s = row[:4]
        self._clock.hear(shown_s)
        return Ends(*ends)

    def _commit(self, pen: PostgresTransaction) -> None:
        """Send what was written and the commit, in one exchange."""
        # Everything that says "something has happened" is part of the transaction: where it ends,
        # what the clock has shown, and the notification, which the server delivers at the commit.
        number, token = pen.ends.commits + 1, secrets.token_hex(8)
        ends: list[Statement] = [
            (
                f"UPDATE store SET commits = %s, records = %s, texts = %s, {KEEP}",
                (number, *pen.position()),
            ),
            ("INSERT INTO commits VALUES (%s, %s, %s)", (number, token, pen.runs_written())),
            ("DELETE FROM commits WHERE n = %s", (number - COMMITS_KEPT,)),
            ("SELECT pg_notify(%s, '')", (self._link.channel,)),
            ("COMMIT", ()),
        ]
        try:
            tell(pen.db, [*pen.staged(), *ends])
            pen.done()
        except psycopg.Error as lost:  # (not every last word of a server is an OperationalError)
            if pen.db.info.transaction_status is TransactionStatus.INERROR:
                raise  # the server has said no
            # Anything else may have come behind the commit: the last word of a server that ends
            # between the commit and its answer, on a connection that still seems to be there.
            self._drop_pen()
            if not self._is_committed(number, token, lost):
                raise

    def _is_committed(self, number: int, token: str, lost: psycopg.Error) -> bool:
        """Whether a commit was carried out whose answer was lost: whether the one of its number is
        it. (The server's own name for it will not do: after a crash it may be another's.) Asked
        behind the lock, which its transaction held to its end; and asked for as long as anybody
        would wait for that lock, because a server that starts again is soon back, and nobody can go
        on without it anyhow.

        Raises:
            StorageFailed: nobody can say.
        """
        until_s = time.monotonic() + self._busy_timeout_s
        while True:
            try:
                pen = self._begin()
                found = ask(pen.db, f"SELECT token FROM commits WHERE n = {number}")
                self._roll_back(pen)
                break
            except (psycopg.Error, JournalError):
                self._drop_pen()
                if time.monotonic() > until_s:
                    raise self._link.in_doubt(lost) from lost
                time.sleep(_AGAIN_S)
        if found is None and pen.ends.commits >= number:
            raise self._link.in_doubt(lost)  # so many came after it that it was tidied up
        return found == (token,)

    def _roll_back(self, pen: PostgresTransaction) -> None:
        pen.rolled_back()
        with contextlib.suppress(psycopg.Error):
            ask(pen.db, "ROLLBACK")

    def _drop_pen(self) -> None:
        """What the next one writes does not follow on this one's: somebody may come in between."""
        if self._pen is not None:
            self._number = self._pen.number() + 1
            self._pen.db.close()
            self._pen = None

    # --- readers ---

    def _reader(self) -> PostgresView:
        while True:
            with self._readers_lock:
                if self._closed:
                    raise JournalClosed
                look = self._readers.pop() if self._readers else None
            if look is None:
                return self._look_at(PostgresView(self._link.connect()))
            try:
                return self._look_at(look)
            except psycopg.OperationalError:  # lost while nobody used it
                look.db.close()

    def _look_at(self, look: PostgresView) -> PostgresView:
        begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
        look.ends = self._heard(ask(look.db, f"{begin}; {_ENDS} FROM store"))
        return look

    def _end(self, look: PostgresView) -> None:
        """Also if the job has raised: that is no trouble of the connection's."""
        try:
            ask(look.db, "COMMIT")
        except BaseException:
            look.db.close()
            raise
        self._give_back(look)

    def _give_back(self, look: PostgresView) -> None:
        with self._readers_lock:
            if self._closed:
                look.db.close()
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
