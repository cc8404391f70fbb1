"""The statements of the PostgreSQL store: rows in, rows out. Every rule is in `ledger`."""

from collections.abc import Iterable, Sequence
from typing import Any, Final, LiteralString, NamedTuple, cast

import msgspec

from pullcord.core.states import LIVING, NEEDS_OWNER, RunState
from pullcord.journal.chain import GENESIS, Row
from pullcord.journal.postgres.connection import Db, Statement
from pullcord.journal.store import (
    INLINE_MAX_BYTES,
    Head,
    Holder,
    HookPlace,
    Kept,
    LiveText,
    Snapshot,
    StopRow,
    StoredAck,
)

_NUM: Final = "SELECT num FROM runs WHERE run_id = %s"
_RUN: Final = (  # with the run's last record, so that a look at a run is one way to the server
    "SELECT run_id, agent, thread, parent, created_at_ms, state, epoch, owner, lease_boot, "
    "lease_until_s, lease_from_s, due_ms, "
    "l.seq, l.hash, l.at_ms, l.at_ms - coalesce(l.drift_ms, 0) "
    "FROM runs LEFT JOIN LATERAL (SELECT seq, hash, at_ms, drift_ms FROM records WHERE run = num "
    "ORDER BY seq DESC LIMIT 1) l ON true"
)
_EACH: Final = (
    "FROM unnest(%s::text[], %s::bigint[]) WITH ORDINALITY w (run_id, seq, n) "
    "LEFT JOIN runs u ON u.run_id = w.run_id "
    "LEFT JOIN records r ON r.run = u.num AND r.seq = w.seq ORDER BY w.n"
)
_HASHES: Final = f"SELECT r.hash {_EACH}"
_PLACES: Final = f"SELECT coalesce(r.pos, 0) {_EACH}"
_STRAYS: Final = (  # from one run to the next by the index: not every record is looked at
    "WITH RECURSIVE named(run) AS (SELECT min(run) FROM records UNION ALL "
    "SELECT (SELECT min(run) FROM records r WHERE r.run > n.run) FROM named n "
    "WHERE n.run IS NOT NULL) SELECT run FROM named "
    "WHERE run IS NOT NULL AND run NOT IN (SELECT num FROM runs) LIMIT %s"
)
_OF_STATE: Final = (  # one index walk per state, each at most `limit` long
    "SELECT num FROM unnest(%s::text[]) s (state), LATERAL (SELECT num FROM runs "
    "WHERE runs.state = s.state AND num < %s ORDER BY num DESC LIMIT %s) f"
)
_OF_THREAD: Final = (
    "SELECT num FROM runs WHERE thread = %s AND state = ANY(%s) AND num < %s "
    "ORDER BY num DESC LIMIT %s"
)
_PAYLOAD: Final = "coalesce(payload, (SELECT data FROM blobs b WHERE b.digest = r.digest))"
_REMEMBERED: Final = 1024  # ends of runs
_LIVING: Final = [str(state) for state in LIVING]
_NEEDS_OWNER: Final = [str(state) for state in NEEDS_OWNER]


class Ends(NamedTuple):
    """Where the store ends, in one transaction: its row in the table `store`."""

    commits: int
    records: int  # the last place in the order of commit
    texts: int  # the last place of live text that was ever given


class PostgresView:
    """A view through one connection, in one transaction. Used by one thread at a time."""

    def __init__(self, db: Db) -> None:
        self.db = db
        self.ends = Ends(0, 0, 0)

    def _run(self, statement: str, bindings: Sequence[Any] = ()) -> Any:
        # Binary: bytes come as they are, and not as twice as many digits.
        return self.db.execute(cast("LiteralString", statement), bindings, binary=True)

    def _one(self, statement: str, bindings: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        return self._run(statement, bindings).fetchone()

    def _all(self, statement: str, bindings: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self._run(statement, bindings).fetchall()

    def head(self, run_id: str) -> Head | None:
        row = self._one(f"{_RUN} WHERE run_id = %s", (run_id,))
        return _head(row) if row else None

    def beginning_with(self, prefix: str, *, limit: int) -> list[str]:
        rows = self._all(
            "SELECT run_id FROM runs WHERE run_id >= %s AND run_id < %s ORDER BY run_id LIMIT %s",
            (prefix, prefix + "\x7f", limit),  # ids are ASCII
        )
        return [row[0] for row in rows]

    def heads(
        self, *, states: Iterable[RunState], thread: str | None, before: str | None, limit: int
    ) -> list[Head]:
        wanted = [str(state) for state in states]
        row = self._one(_NUM, (before,)) if before is not None else None
        bound = row[0] if row else 2**62
        found, bindings = _OF_STATE, [wanted, bound, limit]
        if thread is not None:
            found, bindings = _OF_THREAD, [thread, wanted, bound, limit]
        rows = self._all(
            f"{_RUN} WHERE num IN ({found}) ORDER BY num DESC LIMIT %s", [*bindings, limit]
        )
        return [_head(row) for row in rows]

    def kept(self, *, since: int, limit: int, run: str | None = None) -> list[Kept]:
        found = self._all(
            "SELECT num, run_id, agent, thread, parent, state, epoch FROM runs "
            "WHERE num >= %s AND (%s::text IS NULL OR run_id = %s) ORDER BY num LIMIT %s",
            (since, run, run, limit),
        )
        return list(map(Kept._make, found))

    def strays(self, *, limit: int) -> list[str]:
        return [f"number {row[0]}" for row in self._all(_STRAYS, (limit,))]

    def claimable(self, *, boot: str, now_s: float, agents: Iterable[str], limit: int) -> list[str]:
        rows = self._all(
            "SELECT run_id FROM runs r WHERE state = ANY(%s) AND agent = ANY(%s) "
            "AND (lease_boot <> %s OR lease_until_s <= %s) "
            "AND (parent IS NOT NULL OR NOT EXISTS (SELECT 1 FROM runs e WHERE e.thread = r.thread "
            "AND e.num < r.num AND e.parent IS NULL AND e.state = ANY(%s))) ORDER BY num LIMIT %s",
            (_NEEDS_OWNER, list(agents), boot, now_s, _LIVING, limit),
        )
        return [row[0] for row in rows]

    def eldest(self, thread: str) -> str | None:
        row = self._one(
            "SELECT run_id FROM runs WHERE thread = %s AND parent IS NULL AND state = ANY(%s) "
            "ORDER BY num LIMIT 1",
            (thread, _LIVING),
        )
        return row[0] if row else None

    def due(self, *, agents: Iterable[str], limit: int) -> list[tuple[str, int]]:
        rows = self._all(
            "SELECT run_id, due_ms FROM runs WHERE due_ms > 0 AND agent = ANY(%s) "
            "ORDER BY due_ms LIMIT %s",
            (list(agents), limit),
        )
        return [(row[0], row[1]) for row in rows]

    def owners(self) -> list[str]:
        return [row[0] for row in self._all("SELECT DISTINCT owner FROM runs WHERE owner > ''")]

    def rows(self, run_id: str, *, after_seq: int, limit: int) -> list[Row]:
        found = self._all(
            f"SELECT seq, at_ms, epoch, {_PAYLOAD}, coalesce(digest, covered), hash, drift_ms "
            f"FROM records r WHERE run = ({_NUM}) AND seq > %s ORDER BY seq LIMIT %s",
            (run_id, after_seq, limit),
        )
        return list(map(Row._make, found))

    def hashes_of(self, records: Sequence[tuple[str, int]]) -> list[bytes | None]:
        wanted = [run for run, _ in records], [seq for _, seq in records]
        return [row[0] for row in self._all(_HASHES, wanted)]

    def places(self, records: Sequence[tuple[str, int]]) -> list[int]:
        wanted = [run for run, _ in records], [seq for _, seq in records]
        return [row[0] for row in self._all(_PLACES, wanted)]

    def weight(self, run_id: str) -> int:
        row = self._one(
            f"SELECT sum(length({_PAYLOAD}))::bigint FROM records r WHERE run = ({_NUM})",
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
            f"SELECT digest, ack FROM acks WHERE run = ({_NUM}) AND key = %s", (run_id, key)
        )
        return StoredAck(*row) if row else None

    def live(self, run_id: str, *, after_pos: int) -> list[LiveText]:
        rows = self._all(
            "SELECT pos, part, start, said, after_seq FROM live "
            f"WHERE run = ({_NUM}) AND pos > %s ORDER BY pos",
            (run_id, after_pos),
        )
        return [LiveText(p, part, at, said.decode(), seq) for p, part, at, said, seq in rows]

    def live_said(self, run_id: str, part: str) -> str:
        rows = self._all(
            f"SELECT said FROM live WHERE run = ({_NUM}) AND part = %s ORDER BY start",
            (run_id, part),
        )
        return b"".join(said for (said,) in rows).decode()

    def live_end(self, run_id: str, part: str) -> int:
        row = self._one(
            f"SELECT start, said FROM live WHERE run = ({_NUM}) AND part = %s "
            "ORDER BY start DESC LIMIT 1",
            (run_id, part),
        )
        return row[0] + len(row[1].decode()) if row else 0

    def stops(self, *, after: int, limit: int, run: str | None = None) -> list[StopRow]:
        about = "" if run is None else "AND run = %s "
        found = self._all(
            "SELECT n, run, at_ms, payload, digest, hash FROM stops "
            f"WHERE n > %s {about}ORDER BY n LIMIT %s",
            (after, limit) if run is None else (after, run, limit),
        )
        return list(map(StopRow._make, found))

    def stop_head(self) -> tuple[int, bytes] | None:
        row = self._one("SELECT n, hash FROM stops ORDER BY n DESC LIMIT 1")
        return (row[0], row[1]) if row else None

    def boot_base(self, boot: str) -> int | None:
        row = self._one("SELECT base_ms FROM boots WHERE boot = %s", (boot,))
        return row[0] if row else None

    def latest_ms(self) -> int:
        row = self._one("SELECT max(at_ms - coalesce(drift_ms, 0)) FROM records")
        return (row[0] if row else None) or 0

    def hook(self, name: str) -> HookPlace | None:
        row = self._one(
            "SELECT pos, owner, lease_boot, lease_until_s, lease_from_s FROM hooks WHERE name = %s",
            (name,),
        )
        return HookPlace(row[0], Holder(*row[1:])) if row else None

    def committed(self, *, after_pos: int, limit: int) -> list[tuple[int, str, int]]:
        rows = self._all(
            "SELECT pos, run_id, seq FROM records JOIN runs ON num = run WHERE pos > %s "
            "ORDER BY pos LIMIT %s",
            (after_pos, limit),
        )
        return [(pos, run_id, seq) for pos, run_id, seq in rows]

    def position(self) -> tuple[int, int]:
        return self.ends.records, self.ends.texts

    def changed(self, since: tuple[int, int]) -> tuple[tuple[int, int], dict[str, int]]:
        rows = self._all(
            "SELECT run_id, (SELECT max(seq) FROM records WHERE run = num) FROM runs "
            "WHERE num IN (SELECT run FROM records WHERE pos > %s "
            "UNION SELECT run FROM live WHERE pos > %s)",
            since,
        )
        return self.position(), dict(rows)


class PostgresTransaction(PostgresView):
    """A look that can change the store. Places are counted here, and kept in the table `store` by
    the same commit: a transaction that is rolled back has used up none, and none can be seen before
    a smaller one, because whoever counts is alone.

    What it writes waits until it reads or commits. So the server never waits in the middle of a
    statement for a writer that stands still: it would not end that one.

    It remembers where runs end from one transaction to the next. Each commit names the runs that it
    has written to, so only the runs that others have written to meanwhile are read anew."""

    def __init__(self, db: Db, *, number: int) -> None:
        super().__init__(db)
        self.stopped: StopRow | None = None  # the last that this transaction has added to the log
        self.left_at = -1  # the last commit that it knows of (-1: nothing is known)
        self._number = number
        self._written = 0
        self._heads: dict[str, Head] = {}
        self._runs: set[str] | None = set()  # those that it has written to; None: too many to name
        self._staged: list[Statement] = []

    def begun(self, ends: Ends, runs: Sequence[str], known: int) -> None:
        """At the start of a transaction. `runs`: those that others have written to since the last
        one, as `known` of their commits tell."""
        is_told_all = self.left_at >= 0 and known == ends.commits - self.left_at
        if not is_told_all or len(self._heads) > _REMEMBERED:
            self._heads.clear()
        self._forget(runs)
        self._number += 1 if ends.commits == self.left_at else 2
        self.ends, self.stopped, self.left_at = ends, None, ends.commits
        self._written, self._runs, self._staged = 0, set(), []

    def done(self) -> None:
        """It is committed, and was alone."""
        self.left_at += 1

    def rolled_back(self) -> None:
        self._number += 1
        if self._runs is None:
            self._heads.clear()
        self._forget(self._runs or ())

    def _forget(self, runs: Iterable[str]) -> None:
        for run_id in runs:
            self._heads.pop(run_id, None)

    def runs_written(self) -> list[str] | None:
        """Return the runs that it has written to, for others that remember them."""
        return None if self._runs is None else sorted(self._runs)

    def number(self) -> int:
        return self._number

    def written(self) -> int:
        return self._written

    def staged(self) -> list[Statement]:
        """Return what is written and not sent yet. It goes to the server along with the commit."""
        return self._staged

    def _run(self, statement: str, bindings: Sequence[Any] = ()) -> Any:
        """Read. What was written before goes along."""
        if not self._staged:
            return super()._run(statement, bindings)
        with self.db.pipeline():
            for staged, given in self._staged:
                super()._run(staged, given)
            cursor = super()._run(statement, bindings)
        self._staged = []
        return cursor

    def _write(self, run_id: str | None, statement: str, bindings: Sequence[Any]) -> None:
        """Write, to a run or (None) beside all of them."""
        self._staged.append((statement, bindings))
        self._written += 1
        if run_id is not None and self._runs is not None:
            self._runs.add(run_id)

    def head(self, run_id: str) -> Head | None:
        if (head := self._heads.get(run_id)) is None and (head := super().head(run_id)):
            self._heads[run_id] = head
        return head

    def put_head(self, head: Head) -> None:
        kept = (head.state.value, head.epoch, *head.holder, head.due_ms)
        self._heads[head.run_id] = head
        self._write(
            head.run_id,
            "INSERT INTO runs (num, run_id, agent, thread, parent, created_at_ms, state, epoch, "
            "owner, lease_boot, lease_until_s, lease_from_s, due_ms) "
            "VALUES ((SELECT coalesce(max(num), 0) + 1 FROM runs), "
            "%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s) "
            "ON CONFLICT (run_id) DO UPDATE SET state = excluded.state, epoch = excluded.epoch, "
            "owner = excluded.owner, lease_boot = excluded.lease_boot, "
            "lease_until_s = excluded.lease_until_s, lease_from_s = excluded.lease_from_s, "
            "due_ms = excluded.due_ms",
            (head.run_id, head.agent, head.thread, head.parent, head.created_at_ms, *kept),
        )

    def free(self, owner: str) -> None:
        free = "UPDATE runs SET owner = '', lease_until_s = 0 WHERE owner = %s"
        self._write(None, free, (owner,))
        self._runs = None
        self._heads.clear()

    def add_rows(self, run_id: str, rows: Sequence[Row]) -> None:
        for row in rows:
            inline = row.payload is not None and len(row.payload) <= INLINE_MAX_BYTES
            if row.payload is not None and row.digest is not None and not inline:
                self._put_blob(row.digest, row.payload)
            self.ends = self.ends._replace(records=self.ends.records + 1)
            self._write(
                run_id,
                "INSERT INTO records "
                "(pos, run, seq, at_ms, epoch, payload, digest, hash, drift_ms) "
                f"VALUES (%s, ({_NUM}), %s, %s, %s, %s, %s, %s, %s)",
                (
                    self.ends.records,
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
        if rows and (head := self._heads.get(run_id)):
            last = rows[-1]
            self._heads[run_id] = msgspec.structs.replace(
                head,
                seq=last.seq,
                hash=last.hash,
                updated_at_ms=last.at_ms,
                steady_ms=last.at_ms - (last.drift_ms or 0),
            )

    def add_stop(self, row: StopRow) -> None:
        self._write(None, "INSERT INTO stops VALUES (%s, %s, %s, %s, %s, %s)", row)
        self.stopped = row

    def erase(self, run_id: str, digests: Sequence[bytes], *, thread: str) -> None:
        self._heads.pop(run_id, None)
        [[num]] = self._all(_NUM, (run_id,))
        blobs = self._all(
            "SELECT digest FROM records WHERE run = %s AND digest IS NOT NULL", (num,)
        )
        self._write(
            run_id,
            "UPDATE records SET payload = NULL, digest = NULL, covered = w.covered "
            "FROM unnest(%s::bytea[]) WITH ORDINALITY w (covered, seq) "
            "WHERE run = %s AND records.seq = w.seq",
            (list(digests), num),
        )
        self._write(
            run_id,
            "DELETE FROM blobs WHERE digest = ANY(%s::bytea[]) "
            "AND NOT EXISTS (SELECT 1 FROM records r WHERE r.digest = blobs.digest)",
            ([digest for (digest,) in blobs],),
        )
        for table in ("snapshots", "acks", "live"):
            self._write(run_id, f"DELETE FROM {table} WHERE run = %s", (num,))
        self._write(run_id, "UPDATE stops SET payload = NULL WHERE run = %s", (run_id,))
        self._write(run_id, "INSERT INTO traces VALUES (%s) ON CONFLICT DO NOTHING", (num,))
        self._write(run_id, "UPDATE runs SET thread = %s WHERE num = %s", (thread, num))

    def put_boot_base(self, boot: str, base_ms: int) -> None:
        self._write(None, "INSERT INTO boots VALUES (%s, %s)", (boot, base_ms))

    def put_hook(self, name: str, place: HookPlace) -> None:
        self._write(
            None,
            "INSERT INTO hooks (name, pos, owner, lease_boot, lease_until_s, lease_from_s) "
            "VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (name) DO UPDATE SET "
            "pos = excluded.pos, owner = excluded.owner, lease_boot = excluded.lease_boot, "
            "lease_until_s = excluded.lease_until_s, lease_from_s = excluded.lease_from_s",
            (name, place.pos, *place.holder),
        )

    def drop_hook(self, name: str) -> None:
        self._write(None, "DELETE FROM hooks WHERE name = %s", (name,))

    def put_snapshot(self, run_id: str, snapshot: Snapshot) -> None:
        self._write(
            run_id,
            f"INSERT INTO snapshots VALUES (({_NUM}), %s, %s, %s, %s) "
            "ON CONFLICT (run) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, "
            "format = excluded.format, data = excluded.data",
            (run_id, *snapshot),
        )

    def put_ack(self, run_id: str, key: str, stored: StoredAck) -> None:
        self._write(
            run_id, f"INSERT INTO acks VALUES (({_NUM}), %s, %s, %s)", (run_id, key, *stored)
        )

    def _put_blob(self, digest: bytes, data: bytes) -> None:
        self._write(
            None, "INSERT INTO blobs VALUES (%s, %s) ON CONFLICT DO NOTHING", (digest, data)
        )

    def add_live(self, run_id: str, part: str, *, offset: int, text: str, after_seq: int) -> None:
        self.ends = self.ends._replace(texts=self.ends.texts + 1)
        self._write(
            run_id,
            "INSERT INTO live (pos, run, part, start, said, after_seq) "
            f"VALUES (%s, ({_NUM}), %s, %s, %s, %s)",
            (self.ends.texts, run_id, part, offset, text.encode(), after_seq),
        )

    def drop_live(self, run_id: str, part: str) -> None:
        self._write(run_id, f"DELETE FROM live WHERE run = ({_NUM}) AND part = %s", (run_id, part))


def _head(row: Sequence[Any]) -> Head:
    run_id, agent, thread, parent, created_at_ms, state, epoch, *rest = row
    *holder, due_ms, seq, digest, at_ms, steady_ms = rest
    return Head(
        run_id,
        agent,
        thread,
        parent,
        created_at_ms,
        RunState(state),
        epoch,
        Holder(*holder),
        seq or 0,
        digest or GENESIS,
        at_ms or 0,
        due_ms,
        steady_ms or 0,
    )
