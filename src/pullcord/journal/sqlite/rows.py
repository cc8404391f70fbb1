"""The statements of the SQLite store: rows in, rows out. Every rule is in `ledger`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Final, cast

import apsw
import msgspec

from pullcord.core.states import LIVING, NEEDS_OWNER, RunState
from pullcord.journal.chain import GENESIS, Row
from pullcord.journal.evidence.stoplog import behind
from pullcord.journal.sqlite.file import damaged
from pullcord.journal.store import (
    INLINE_MAX_BYTES,
    Head,
    Holder,
    HookPlace,
    Kept,
    LiveText,
    NewStop,
    Snapshot,
    StopRow,
    StoredAck,
    Tail,
)

_NUM: Final = "SELECT num FROM runs WHERE run_id = ?"
_RUN: Final = (
    "SELECT run_id, agent, thread, parent, created_at_ms, state, epoch, owner, lease_boot, "
    "lease_until_s, lease_from_s, due_ms, num FROM runs"
)
_LAST: Final = (
    "SELECT seq, hash, at_ms, at_ms - coalesce(drift_ms, 0) FROM records "
    "WHERE run = ? ORDER BY seq DESC LIMIT 1"
)
_EACH: Final = (
    "FROM json_each(?) w LEFT JOIN runs u ON u.run_id = w.value ->> 0 "
    "LEFT JOIN records r ON r.run = u.num AND r.seq = w.value ->> 1 ORDER BY w.key"
)
_HASHES: Final = f"SELECT r.hash {_EACH}"
_PLACES: Final = f"SELECT coalesce(r.pos, 0) {_EACH}"
_STRAYS: Final = (  # from one run to the next by the index: not every record is looked at
    "WITH RECURSIVE named(run) AS (SELECT min(run) FROM records UNION ALL "
    "SELECT (SELECT min(run) FROM records r WHERE r.run > n.run) FROM named n "
    "WHERE n.run IS NOT NULL) SELECT run FROM named "
    "WHERE run IS NOT NULL AND run NOT IN (SELECT num FROM runs) LIMIT ?"
)
_LIVING: Final = tuple(str(state) for state in LIVING)


class Connection:
    """One connection. Used by one thread at a time."""

    def __init__(self, db: apsw.Connection) -> None:
        self.db = db
        self._others, self._number = 0, 0
        self.stopped: StopRow | None = None  # the last that this transaction has added to the log

    def begun(self) -> None:
        """At the start of a transaction: has anyone else committed since the last one?"""
        before, self._others = self._others, cast("int", self.db.pragma("data_version"))
        self._number += 1 if before == self._others else 2
        self.stopped = None

    def rolled_back(self) -> None:
        self._number += 1

    def hold(self, *run_ids: str, key: str | None = None) -> None:
        """Nothing to do: this transaction is alone in the file."""

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

    def traces(self) -> list[tuple[int]]:
        """Of which runs payloads were deleted since the file was last written anew."""
        return cast("list[tuple[int]]", self._all("SELECT run FROM traces", ()))

    def drop_traces(self, runs: Sequence[tuple[int]]) -> None:
        self.db.executemany("DELETE FROM traces WHERE run = ?", runs)

    def size(self) -> int:
        return cast("int", self.db.pragma("page_count")) * cast("int", self.db.pragma("page_size"))

    # --- View ---

    def head(self, run_id: str) -> Head | None:
        row = self._one(f"{_RUN} WHERE run_id = ?", (run_id,))
        return self._head(row) if row else None

    def beginning_with(self, prefix: str, *, limit: int) -> list[str]:
        rows = self._all(
            "SELECT run_id FROM runs WHERE run_id >= ? AND run_id < ? ORDER BY run_id LIMIT ?",
            (prefix, prefix + "\x7f", limit),  # ids are ASCII
        )
        return [row[0] for row in rows]

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
        run_id, agent, thread, parent, created_at_ms, state, epoch, *holder, due_ms, num = row
        seq, digest, at_ms, steady_ms = self._one(_LAST, (num,)) or (0, GENESIS, 0, 0)
        return Head(
            run_id,
            agent,
            thread,
            parent,
            created_at_ms,
            RunState(state),
            epoch,
            Holder(*holder),
            seq,
            digest,
            at_ms,
            due_ms,
            steady_ms,
        )

    def kept(self, *, since: int, limit: int, run: str | None = None) -> list[Kept]:
        about = "" if run is None else "AND run_id = ?3 "
        found = self._all(
            "SELECT num, run_id, agent, thread, parent, state, epoch FROM runs "
            f"WHERE num >= ?1 {about}ORDER BY num LIMIT ?2",
            (since, limit) if run is None else (since, limit, run),
        )
        return list(map(Kept._make, found))

    def strays(self, *, limit: int) -> list[str]:
        return [f"number {row[0]}" for row in self._all(_STRAYS, (limit,))]

    def claimable(self, *, boot: str, now_s: float, agents: Iterable[str], limit: int) -> list[str]:
        known = list(agents)
        states = [str(state) for state in NEEDS_OWNER]
        rows = self._all(
            f"SELECT run_id FROM runs r WHERE state IN ({_marks(states)}) "
            f"AND agent IN ({_marks(known)}) AND (lease_boot <> ? OR lease_until_s <= ?) "
            "AND (parent IS NOT NULL OR NOT EXISTS (SELECT 1 FROM runs e WHERE e.thread = r.thread "
            f"AND e.num < r.num AND e.parent IS NULL AND e.state IN ({_marks(_LIVING)}))) "
            "ORDER BY num LIMIT ?",
            [*states, *known, boot, now_s, *_LIVING, limit],
        )
        return [row[0] for row in rows]

    def eldest(self, thread: str) -> str | None:
        row = self._one(
            "SELECT run_id FROM runs WHERE thread = ? AND parent IS NULL "
            f"AND state IN ({_marks(_LIVING)}) ORDER BY num LIMIT 1",
            (thread, *_LIVING),
        )
        return row[0] if row else None

    def due(self, *, agents: Iterable[str], limit: int) -> list[tuple[str, int]]:
        known = list(agents)
        rows = self._all(
            f"SELECT run_id, due_ms FROM runs WHERE due_ms > 0 AND agent IN ({_marks(known)}) "
            "ORDER BY due_ms LIMIT ?",
            (*known, limit),
        )
        return [(row[0], row[1]) for row in rows]

    def owners(self) -> list[str]:
        return [row[0] for row in self._all("SELECT DISTINCT owner FROM runs WHERE owner > ''", ())]

    def rows(self, run_id: str, *, after_seq: int, limit: int) -> list[Row]:
        found = self._all(
            "SELECT seq, at_ms, epoch, coalesce(payload, (SELECT data FROM blobs b "
            "WHERE b.digest = r.digest)), coalesce(digest, covered), hash, drift_ms FROM records r "
            f"WHERE run = ({_NUM}) AND seq > ? ORDER BY seq LIMIT ?",
            (run_id, after_seq, limit),
        )
        return list(map(Row._make, found))

    def tail(
        self, run_id: str, *, after_seq: int, limit: int, after_pos: int | None = None
    ) -> Tail:
        live = [] if after_pos is None else self.live(run_id, after_pos=after_pos)
        return Tail(self.head(run_id), self.rows(run_id, after_seq=after_seq, limit=limit), live)

    def hashes_of(self, records: Sequence[tuple[str, int]]) -> list[bytes | None]:
        wanted = msgspec.json.encode(records).decode()
        return [row[0] for row in self._all(_HASHES, (wanted,))]

    def places(self, records: Sequence[tuple[str, int]]) -> list[int]:
        wanted = msgspec.json.encode(records).decode()
        return [row[0] for row in self._all(_PLACES, (wanted,))]

    def weight(self, run_id: str) -> int:
        row = self._one(
            "SELECT sum(length(coalesce(payload, (SELECT data FROM blobs b "
            f"WHERE b.digest = r.digest)))) FROM records r WHERE run = ({_NUM})",
            (run_id,),
        )
        return (row[0] if row else None) or 0

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

    def live_said(self, run_id: str, part: str) -> str:
        rows = self._all(
            f"SELECT text FROM live WHERE run = ({_NUM}) AND part = ? ORDER BY offset",
            (run_id, part),
        )
        try:
            return b"".join(text for (text,) in rows).decode()
        except (ValueError, TypeError) as error:
            raise damaged(Path(self.db.filename), f"text of {run_id}: {error}") from error

    def live_end(self, run_id: str, part: str) -> int:
        row = self._one(
            f"SELECT offset, text FROM live WHERE run = ({_NUM}) AND part = ? "
            "ORDER BY offset DESC LIMIT 1",
            (run_id, part),
        )
        return row[0] + len(row[1].decode()) if row else 0

    def stops(self, *, after: int, limit: int, run: str | None = None) -> list[StopRow]:
        about = "" if run is None else "AND run = ?3 "
        found = self._all(
            "SELECT n, run, at_ms, payload, digest, hash FROM stops "
            f"WHERE n > ?1 {about}ORDER BY n LIMIT ?2",
            (after, limit) if run is None else (after, limit, run),
        )
        return list(map(StopRow._make, found))

    def stop_head(self) -> tuple[int, bytes] | None:
        row = self._one("SELECT n, hash FROM stops ORDER BY n DESC LIMIT 1", ())
        return (row[0], row[1]) if row else None

    def boot_base(self, boot: str) -> int | None:
        row = self._one("SELECT base_ms FROM boots WHERE boot = ?", (boot,))
        return row[0] if row else None

    def latest_ms(self) -> int:
        row = self._one("SELECT max(at_ms - coalesce(drift_ms, 0)) FROM records", ())
        return (row[0] if row else None) or 0

    def hook(self, name: str) -> HookPlace | None:
        row = self._one(
            "SELECT pos, owner, lease_boot, lease_until_s, lease_from_s FROM hooks WHERE name = ?",
            (name,),
        )
        return HookPlace(row[0], Holder(*row[1:])) if row else None

    def committed(self, *, after_pos: int, limit: int) -> list[tuple[int, str, int]]:
        rows = self._all(
            "SELECT pos, run_id, seq FROM records JOIN runs ON num = run WHERE pos > ? "
            "ORDER BY pos LIMIT ?",
            (after_pos, limit),
        )
        return [(pos, run_id, seq) for pos, run_id, seq in rows]

    def position(self) -> tuple[int, int]:
        row = self._one(
            "SELECT coalesce((SELECT max(pos) FROM records), 0), "
            "coalesce((SELECT seq FROM sqlite_sequence WHERE name = 'live'), 0)",
            (),
        )
        return (row[0], row[1]) if row else (0, 0)

    def changed(self, since: tuple[int, int]) -> tuple[tuple[int, int], dict[str, int]]:
        rows = self._all(
            "SELECT run_id, (SELECT MAX(seq) FROM records WHERE run = num) FROM runs "
            "WHERE num IN (SELECT run FROM records WHERE pos > ? "
            "UNION SELECT run FROM live WHERE pos > ?)",
            since,
        )
        return self.position(), dict(rows)

    # --- Transaction ---

    def put_head(self, head: Head) -> None:
        kept = (head.state.value, head.epoch, *head.holder, head.due_ms)
        self.run(
            "INSERT INTO runs (run_id, agent, thread, parent, created_at_ms, state, epoch, owner, "
            "lease_boot, lease_until_s, lease_from_s, due_ms) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT (run_id) DO UPDATE SET state = excluded.state, epoch = excluded.epoch, "
            "owner = excluded.owner, lease_boot = excluded.lease_boot, "
            "lease_until_s = excluded.lease_until_s, lease_from_s = excluded.lease_from_s, "
            "due_ms = excluded.due_ms",
            (head.run_id, head.agent, head.thread, head.parent, head.created_at_ms, *kept),
        )

    def free(self, owner: str) -> None:
        self.run(
            "UPDATE runs SET owner = '', lease_until_s = 0 WHERE owner = ?",
            (owner,),
        )

    def add_rows(self, run_id: str, rows: Sequence[Row]) -> None:
        for row in rows:
            inline = row.payload is not None and len(row.payload) <= INLINE_MAX_BYTES
            if row.payload is not None and row.digest is not None and not inline:
                self._put_blob(row.digest, row.payload)
            self.run(
                "INSERT INTO records (run, seq, at_ms, epoch, payload, digest, hash, drift_ms) "
                f"VALUES (({_NUM}), ?, ?, ?, ?, ?, ?, ?)",
                (
                    run_id,
                    row.seq,
                    row.at_ms,
                    row.epoch,
                    row.payload if inline else None,
                    None if inline else row.digest,
                    row.hash,
                    row.drift_ms,
                ),
            )

    def add_stop(self, new: NewStop) -> None:
        row = behind(self.stop_head(), new)
        self.run("INSERT INTO stops VALUES (?, ?, ?, ?, ?, ?)", row)
        self.stopped = row

    def erase(self, run_id: str, digests: Sequence[bytes], *, thread: str) -> None:
        [[num]] = self._all(_NUM, (run_id,))
        blobs = self._all("SELECT digest FROM records WHERE run = ? AND digest IS NOT NULL", (num,))
        for seq, digest in enumerate(digests, start=1):
            self.run(
                "UPDATE records SET payload = NULL, digest = NULL, covered = ? "
                "WHERE run = ? AND seq = ?",
                (digest, num, seq),
            )
        for (digest,) in blobs:
            self.run(
                "DELETE FROM blobs WHERE digest = ?1 "
                "AND NOT EXISTS (SELECT 1 FROM records WHERE digest = ?1)",
                (digest,),
            )
        for table in ("snapshots", "acks", "live"):
            self.run(f"DELETE FROM {table} WHERE run = ?", (num,))
        self.run("UPDATE stops SET payload = NULL WHERE run = ?", (run_id,))
        self.run("INSERT OR IGNORE INTO traces VALUES (?)", (num,))
        self.run("UPDATE runs SET thread = ? WHERE num = ? AND thread <> ?1", (thread, num))

    def put_boot_base(self, boot: str, base_ms: int) -> None:
        self.run("INSERT INTO boots VALUES (?, ?)", (boot, base_ms))

    def put_hook(self, name: str, place: HookPlace) -> None:
        self.run(
            "INSERT OR REPLACE INTO hooks (name, pos, owner, lease_boot, lease_until_s, "
            "lease_from_s) VALUES (?, ?, ?, ?, ?, ?)",
            (name, place.pos, *place.holder),
        )

    def drop_hook(self, name: str) -> None:
        self.run("DELETE FROM hooks WHERE name = ?", (name,))

    def put_snapshot(self, run_id: str, snapshot: Snapshot) -> None:
        self.run(
            f"INSERT OR REPLACE INTO snapshots VALUES (({_NUM}), ?, ?, ?, ?)", (run_id, *snapshot)
        )

    def put_ack(self, run_id: str, key: str, stored: StoredAck) -> None:
        self.run(f"INSERT INTO acks VALUES (({_NUM}), ?, ?, ?)", (run_id, key, *stored))

    def _put_blob(self, digest: bytes, data: bytes) -> None:
        self.run("INSERT OR IGNORE INTO blobs VALUES (?, ?)", (digest, data))

    def add_live(self, run_id: str, part: str, *, offset: int, text: str, after_seq: int) -> None:
        self.run(
            f"INSERT INTO live (run, part, offset, text, after_seq) VALUES (({_NUM}), ?, ?, ?, ?)",
            (run_id, part, offset, text.encode(), after_seq),
        )

    def drop_live(self, run_id: str, part: str) -> None:
        self.run(f"DELETE FROM live WHERE run = ({_NUM}) AND part = ?", (run_id, part))


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
