"""The default store: one SQLite file, through apsw, durable at every commit.

WAL, `synchronous=FULL`: with NORMAL a power cut loses acknowledged records. Statements only; every
rule is in `ledger`. Beside `runs.db` lies `runs.db-side/` with the turnstile and the wake pipes.
"""

import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar, cast

import apsw

from pullcord.core.states import NEEDS_OWNER, RunState
from pullcord.errors import JournalClosed, StorageFailed
from pullcord.journal.chain import GENESIS, Row
from pullcord.journal.schema import MIGRATIONS
from pullcord.journal.sqlite_file import (
    PRAGMAS,
    damaged,
    explained,
    make_ready,
    refuse_unfit,
    unusable,
)
from pullcord.journal.store import (
    INLINE_MAX_BYTES,
    Head,
    Holder,
    LiveText,
    Snapshot,
    StoredAck,
    Transaction,
    View,
)
from pullcord.journal.turnstile import POLL_S, Turnstile, TurnTimeout
from pullcord.journal.wake import WakeAll, WakePipe

T = TypeVar("T")
_NUM: Final = "SELECT num FROM runs WHERE run_id = ?"
_RUN: Final = (
    "SELECT run_id, agent, thread, parent, created_at_ms, state, epoch, owner, lease_boot, "
    "lease_until_s, num FROM runs"
)
_LAST: Final = "SELECT seq, hash, at_ms FROM records WHERE run = ? ORDER BY seq DESC LIMIT 1"


class SqliteStore:
    """One file. Safe for any number of threads and processes on one machine."""

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
        self._readers: list[_Connection] = []
        self._readers_lock = threading.Lock()
        self._writing = threading.Lock()
        self._side = refuse_unfit(self._path, known=len(migrations))
        try:
            self._turnstile = Turnstile(self._side / "turn")
            self._wake_all = WakeAll(self._side)
        except OSError as error:
            raise unusable(self._path, error) from error
        try:
            self._writer = _Connection(self._first_connection(migrations))
        except BaseException:
            self._turnstile.close()
            self._wake_all.close()
            raise

    @property
    def name(self) -> str:
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
            return result

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

    def listen(self) -> "_Listener":
        try:
            return _Listener(self._side, self._connect())
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
            db = self._connect()
            make_ready(db, self._path, migrations)
            db.set_busy_timeout(0)  # from here on the turnstile orders the writers
            return db
        except apsw.Error as error:
            raise explained(error, "Opening", self._path) from error
        finally:
            self._turnstile.leave()

    def _reader(self) -> "_Connection":
        with self._readers_lock:
            if self._closed:
                raise JournalClosed
            if self._readers:
                return self._readers.pop()
        return _Connection(self._connect())

    def _give_back(self, reader: "_Connection") -> None:
        with self._readers_lock:
            if self._closed:
                reader.db.close()
            else:
                self._readers.append(reader)

    def _begin(self) -> None:
        """Enter a write transaction in turn. The turnstile is free again once the lock is ours."""
        until_s = time.monotonic() + self._busy_timeout_s
        try:
            self._turnstile.enter(until_s=until_s)
            try:
                while True:
                    try:
                        return self._writer.run("BEGIN IMMEDIATE")
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
        return StorageFailed(
            "Writing to",
            path=self.name,
            why=f"another process has held the file for {self._busy_timeout_s:g} s",
            instead="Find who holds it (fuser, lsof), then send it again.",
        )


class _Listener:
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


class _Connection:
    """The statements, on one connection. Used by one thread at a time."""

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self._others, self._number = 0, 0

    def begun(self) -> None:
        """At the start of a transaction: has anyone else committed since the last one?"""
        before, self._others = self._others, cast("int", self.db.pragma("data_version"))
        self._number += 1 if before == self._others else 2

    def rolled_back(self) -> None:
        self._number += 1

    def number(self) -> int:
        return self._number

    def written(self) -> int:
        return self.db.total_changes()

    def run(self, statement: str, bindings: Sequence[Any] = ()) -> None:
        self.db.execute(statement, bindings)

    def _one(self, statement: str, bindings: Sequence[Any]) -> tuple[Any, ...] | None:
        return cast("tuple[Any, ...] | None", self.db.execute(statement, bindings).fetchone())

    def _all(self, statement: str, bindings: Sequence[Any]) -> list[tuple[Any, ...]]:
        return cast("list[tuple[Any, ...]]", self.db.execute(statement, bindings).fetchall())

    # --- View ---

    def head(self, run_id: str) -> Head | None:
        row = self._one(f"{_RUN} WHERE run_id = ?", (run_id,))
        return self._head(row) if row else None

    def heads(
        self, *, states: Iterable[RunState], thread: str | None, before: str | None, limit: int
    ) -> list[Head]:
        wanted = [str(state) for state in states]
        row = self._one(_NUM, (before,)) if before is not None else None
        bound = row[0] if row else 2**62
        if thread is not None:
            found = f"SELECT num FROM runs WHERE thread = ? AND state IN ({_marks(wanted)}) "
            bindings = [thread, *wanted, bound, limit]
            found += "AND num < ? ORDER BY num DESC LIMIT ?"
        else:  # one index walk per state, each at most `limit` long, then the newest of them all
            walk = "SELECT num FROM runs WHERE state = ? AND num < ? ORDER BY num DESC LIMIT ?"
            found = " UNION ALL ".join([f"SELECT num FROM ({walk})"] * len(wanted))
            bindings = [value for name in wanted for value in (name, bound, limit)]
        if not wanted:
            return []
        rows = self._all(
            f"{_RUN} WHERE num IN ({found}) ORDER BY num DESC LIMIT ?", [*bindings, limit]
        )
        return [self._head(row) for row in rows]

    def _head(self, row: Sequence[Any]) -> Head:
        """A run's row, with the last record's."""
        try:
            return self._head_of(row)
        except (ValueError, TypeError) as error:  # pages that are not what they were
            raise damaged(Path(self.db.filename), f"run {row[0]!r}: {error}") from error

    def _head_of(self, row: Sequence[Any]) -> Head:
        run_id, agent, thread, parent, created_at_ms, state, epoch, owner, boot, until_s, num = row
        seq, digest, at_ms = self._one(_LAST, (num,)) or (0, GENESIS, 0)
        return Head(
            run_id,
            agent,
            thread,
            parent,
            created_at_ms,
            RunState(state),
            epoch,
            Holder(owner, boot, until_s),
            seq,
            digest,
            at_ms,
        )

    def claimable(self, *, boot: str, now_s: float, agents: Iterable[str], limit: int) -> list[str]:
        known = list(agents)
        states = [str(state) for state in NEEDS_OWNER]
        rows = self._all(
            f"SELECT run_id FROM runs WHERE state IN ({_marks(states)}) "
            f"AND agent IN ({_marks(known)}) "
            "AND (lease_boot <> ? OR lease_until_s <= ?) ORDER BY num LIMIT ?",
            [*states, *known, boot, now_s, limit],
        )
        return [row[0] for row in rows]

    def rows(self, run_id: str, *, after_seq: int, limit: int) -> list[Row]:
        found = self._all(
            "SELECT seq, at_ms, epoch, coalesce(payload, (SELECT data FROM blobs b "
            "WHERE b.digest = r.digest)), digest, hash FROM records r "
            f"WHERE run = ({_NUM}) AND seq > ? ORDER BY seq LIMIT ?",
            (run_id, after_seq, limit),
        )
        return list(map(Row._make, found))

    def snapshot(self, run_id: str) -> Snapshot | None:
        row = self._one(
            f"SELECT seq, hash, format, data FROM snapshots WHERE run = ({_NUM})", (run_id,)
        )
        return Snapshot(*row) if row else None

    def ack(self, run_id: str, key: str) -> StoredAck | None:
        row = self._one(
            f"SELECT digest, ack FROM acks WHERE run = ({_NUM}) AND key = ?", (run_id, key)
        )
        return StoredAck(*row) if row else None

    def blob(self, digest: bytes) -> bytes | None:
        row = self._one("SELECT data FROM blobs WHERE digest = ?", (digest,))
        return row[0] if row else None

    def live(self, run_id: str, *, after_pos: int) -> list[LiveText]:
        rows = self._all(
            "SELECT pos, part, offset, text, after_seq FROM live "
            f"WHERE run = ({_NUM}) AND pos > ? ORDER BY pos",
            (run_id, after_pos),
        )
        try:
            return [LiveText(p, part, off, text.decode(), seq) for p, part, off, text, seq in rows]
        except (ValueError, AttributeError) as error:
            raise damaged(Path(self.db.filename), f"text of {run_id}: {error}") from error

    def live_end(self, run_id: str, part: str) -> int:
        row = self._one(
            f"SELECT offset, text FROM live WHERE run = ({_NUM}) AND part = ? "
            "ORDER BY offset DESC LIMIT 1",
            (run_id, part),
        )
        return row[0] + len(row[1].decode()) if row else 0

    def position(self) -> tuple[int, int]:
        row = self._one(
            "SELECT coalesce((SELECT max(pos) FROM records), 0), "
            "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'live'), 0)",
            (),
        )
        return (row[0], row[1]) if row else (0, 0)

    def changed(self, since: tuple[int, int]) -> tuple[tuple[int, int], set[str]]:
        rows = self._all(
            "SELECT run_id FROM runs WHERE num IN (SELECT run FROM records WHERE pos > ? "
            "UNION SELECT run FROM live WHERE pos > ?)",
            since,
        )
        return self.position(), {row[0] for row in rows}

    # --- Transaction ---

    def put_head(self, head: Head) -> None:
        kept = (head.state.value, head.epoch, *head.holder)
        self.run(
            "INSERT INTO runs (run_id, agent, thread, parent, created_at_ms, state, epoch, owner, "
            "lease_boot, lease_until_s) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (run_id) DO UPDATE SET state = excluded.state, epoch = excluded.epoch, "
            "owner = excluded.owner, lease_boot = excluded.lease_boot, "
            "lease_until_s = excluded.lease_until_s",
            (head.run_id, head.agent, head.thread, head.parent, head.created_at_ms, *kept),
        )

    def add_rows(self, run_id: str, rows: Sequence[Row]) -> None:
        for row in rows:
            inline = row.payload is not None and len(row.payload) <= INLINE_MAX_BYTES
            if row.payload is not None and row.digest is not None and not inline:
                self.put_blob(row.digest, row.payload)
            self.run(
                "INSERT INTO records (run, seq, at_ms, epoch, payload, digest, hash) "
                f"VALUES (({_NUM}), ?, ?, ?, ?, ?, ?)",
                (
                    run_id,
                    row.seq,
                    row.at_ms,
                    row.epoch,
                    row.payload if inline else None,
                    None if inline else row.digest,
                    row.hash,
                ),
            )

    def put_snapshot(self, run_id: str, snapshot: Snapshot) -> None:
        self.run(
            f"INSERT OR REPLACE INTO snapshots VALUES (({_NUM}), ?, ?, ?, ?)", (run_id, *snapshot)
        )

    def put_ack(self, run_id: str, key: str, stored: StoredAck) -> None:
        self.run(f"INSERT INTO acks VALUES (({_NUM}), ?, ?, ?)", (run_id, key, *stored))

    def put_blob(self, digest: bytes, data: bytes) -> None:
        self.run("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (digest, data))

    def add_live(self, run_id: str, part: str, *, offset: int, text: str, after_seq: int) -> None:
        self.run(
            f"INSERT INTO live (run, part, offset, text, after_seq) VALUES (({_NUM}), ?, ?, ?, ?)",
            (run_id, part, offset, text.encode(), after_seq),
        )

    def drop_live(self, run_id: str, part: str) -> None:
        self.run(f"DELETE FROM live WHERE run = ({_NUM}) AND part = ?", (run_id, part))


def _followed(path: str | os.PathLike[str]) -> Path:
    """The file behind a link: its locks and its side folder must be the same for everybody."""
    try:
        return Path(path).resolve()
    except (OSError, RuntimeError, ValueError):  # to be refused in words, a little later
        return Path(path).absolute()


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
