"""A connection to the server of a PostgreSQL store: what every one of them is asked to keep to, and
what it means to a caller that one fails."""

from hashlib import sha256
from typing import Any, Final, LiteralString, TypeAlias, cast

import psycopg
from psycopg import errors
from psycopg.conninfo import conninfo_to_dict

from pullcord.errors import JournalError, StorageFailed, StoreRefused
from pullcord.journal.postgres.address import DatabaseAddress

Db: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
_MANNERS: Final = {
    "application_name": "pullcord",
    # A server that is gone without a word is noticed, and not waited for until a router gives up.
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}


class Link:
    """How to reach one store's schema."""

    def __init__(self, address: DatabaseAddress, *, busy_timeout_s: float) -> None:
        self.address = address
        self._busy_timeout_s = busy_timeout_s
        # One number per schema: advisory locks are kept apart by database already.
        name = f"pullcord {address.schema}".encode()
        digest = sha256(name).digest()
        self.lock = int.from_bytes(digest[:8], "big", signed=True)
        self.places = int.from_bytes(digest[8:12], "big") >> 1  # locks of places have this first
        self.writers = int.from_bytes(digest[12:16], "big") >> 1  # locks of living writers
        self.channel = f"pullcord_{address.schema}"

    def connect(self) -> Db:
        """A new connection, in our schema, whose commits are durable.

        Raises:
            psycopg.Error: there is none to be had.
            StoreRefused: the server would lose what it has acknowledged.
        """
        timeout = {"connect_timeout": str(max(2, round(min(self._busy_timeout_s, 10))))}
        params: dict[str, Any] = {**_MANNERS, **timeout, **self._given()}
        db = psycopg.connect(**params, autocommit=True)  # transactions are ours to begin and end
        try:
            self._prepare(db)
        except BaseException:
            db.close()
            raise
        return db

    def connect_writer(self, number: int, *, still_s: float) -> Db:
        """A connection that writes, by the number under which its commits are counted.

        It holds a lock with that number: who has it, knows that the connection is no more. If its
        process stands still in a transaction for so long, the server ends it: only that can.
        """
        db = self.connect()
        try:
            ask(
                db,
                f"SET idle_in_transaction_session_timeout TO {round(still_s * 1000)}; "
                # Everything is found by its key, whatever the statistics of the tables say.
                "SET plan_cache_mode TO force_generic_plan; SET enable_seqscan TO off; "
                f"SET jit TO off; SELECT pg_advisory_lock({self.writers}, {number})",
            )
        except BaseException:
            db.close()
            raise
        return db

    def _given(self) -> dict[str, Any]:
        try:
            return dict(conninfo_to_dict(self.address.url))
        except psycopg.Error:  # (its message may repeat any part of the URL)
            raise StoreRefused(
                self.address.name,
                why="PostgreSQL's library cannot read its URL",
                instead="Write it as postgresql://USER@HOST:PORT/DATABASE.",
            ) from None

    def _prepare(self, db: Db) -> None:
        """`synchronous_commit` may have been turned off for this user; stronger may stay."""
        found = ask(
            db,
            f'SET search_path TO "{self.address.schema}"; '
            f"SET lock_timeout TO {round(self._busy_timeout_s * 1000)}; "
            "SET client_encoding TO 'UTF8'; "
            "SELECT set_config('synchronous_commit', 'on', false) "
            "WHERE current_setting('synchronous_commit') NOT IN ('on', 'remote_apply'); "
            "SELECT current_setting('fsync'), current_setting('server_encoding'), "
            "pg_is_in_recovery()",
        )
        fsync, encoding, is_standby = cast("tuple[str, str, bool]", found)
        if encoding != "UTF8":
            raise StoreRefused(
                self.address.name,
                why=f"its database keeps text as {encoding}, which has no room for all of it",
                instead="Make one that does: createdb --encoding=UTF8 --template=template0 NAME",
            )
        if fsync != "on":
            raise StoreRefused(
                self.address.name,
                why="its server runs with fsync=off, and would lose acknowledged stops in a crash",
                instead="Set fsync = on in postgresql.conf, and open it again.",
            )
        if is_standby:
            raise StorageFailed(
                "Opening",
                path=self.address.name,
                why="the server that answers is a standby, which only reads",
                instead="Name the primary, or add target_session_attrs=read-write to the URL.",
            )

    def explained(self, error: psycopg.Error, what: str) -> JournalError:
        """Return what an error of the server or of the connection means to the caller."""
        said = self.address.said(str(error)) or type(error).__name__
        why, instead = said, "Look at the server and its log, and send it again."
        match error:
            case errors.DiskFull():
                why, instead = "the server's disk is full", "Make room there and send it again."
            case errors.LockNotAvailable():
                why = f"another process has held the run for {self._busy_timeout_s:g} s"
                instead = "Find who does (pg_stat_activity, pg_locks), then send it again."
            case errors.InsufficientPrivilege():
                instead = f"Give this user the schema {self.address.schema}, and send it again."
            case errors.ReadOnlySqlTransaction():
                why, instead = "the server only reads (a standby?)", "Name the primary."
            case psycopg.OperationalError() | errors.IdleInTransactionSessionTimeout():
                instead = "Nothing of it was written. See that the server runs, and send it again."
            case _:
                pass
        return StorageFailed(what, path=self.address.name, why=why, instead=instead)

    def contended(self) -> StorageFailed:
        """Return what it means that others came between, again and again."""
        return StorageFailed(
            "Writing to",
            path=self.address.name,
            why="others came first, again and again",
            instead="Nothing of it was written. Send it again.",
        )

    def in_doubt(self, error: psycopg.Error) -> StorageFailed:
        """Return what it means that nobody has heard what became of a commit."""
        said = self.address.said(str(error))
        return StorageFailed(
            "Writing to",
            path=self.address.name,
            why=f"the connection was lost in the middle of the commit ({said})",
            instead="It is written as a whole, or not at all: which of the two is not known. "
            "Sending it again with the same key is always right; without one, look first.",
        )


def ask(db: Db, statements: str) -> tuple[Any, ...] | None:
    """Carry out statements in one way to the server and back; return the last one's first row."""
    cursor = db.execute(cast("LiteralString", statements))
    while cursor.nextset():
        pass
    return cursor.fetchone() if cursor.description else None
