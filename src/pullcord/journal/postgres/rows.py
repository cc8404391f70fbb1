"""Reading the tables of the PostgreSQL store: rows out. Every rule is in `ledger`."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import psycopg

from pullcord.core.states import LIVING, NEEDS_OWNER, RunState
from pullcord.journal.chain import GENESIS, Row
from pullcord.journal.postgres.clock import SHOWN, DatabaseClock
from pullcord.journal.postgres.exchange import SYNC, Exchanger, Prepared, Rows, Said
from pullcord.journal.store import (
    Head,
    Holder,
    HookPlace,
    Kept,
    LiveText,
    Snapshot,
    StopRow,
    StoredAck,
    Tail,
)

PLACES: Final = 2**31
"""Places are locked by number, modulo this: a lock has no room for more."""
_NUM: Final = "SELECT num FROM runs WHERE run_id = $1"
RUN: Final = (  # with the run's last record, so that a look at a run is one way to the server
    "SELECT run_id, agent, thread, parent, created_at_ms, state, epoch, owner, lease_boot, "
    "lease_until_s, lease_from_s, due_ms, "
    "l.seq, l.hash, l.at_ms, l.at_ms - coalesce(l.drift_ms, 0), version "
    "FROM runs LEFT JOIN LATERAL (SELECT seq, hash, at_ms, drift_ms FROM records WHERE run = num "
    "ORDER BY seq DESC LIMIT 1) l ON true"
)
FIND: Final = Prepared(f"{RUN} WHERE run_id = $1", "text")
_EACH: Final = (
    "FROM unnest($1, $2) WITH ORDINALITY w (run_id, seq, n) "
    "LEFT JOIN runs u ON u.run_id = w.run_id "
    "LEFT JOIN records r ON r.run = u.num AND r.seq = w.seq ORDER BY w.n"
)
_HASHES: Final = Prepared(f"SELECT r.hash {_EACH}", "text[] int8[]")
_PLACES_OF: Final = Prepared(f"SELECT coalesce(r.pos, 0) {_EACH}", "text[] int8[]")
_STRAYS: Final = Prepared(  # from one run to the next by the index: not every record is looked at
    "WITH RECURSIVE named(run) AS (SELECT min(run) FROM records UNION ALL "
    "SELECT (SELECT min(run) FROM records r WHERE r.run > n.run) FROM named n "
    "WHERE n.run IS NOT NULL) SELECT run FROM named "
    "WHERE run IS NOT NULL AND run NOT IN (SELECT num FROM runs) LIMIT $1",
    "int8",
)
_OF_STATE: Final = Prepared(  # one index walk per state, each at most as long as the answer
    f"{RUN} WHERE num IN (SELECT num FROM unnest($1) s (state), LATERAL (SELECT num FROM runs "
    "WHERE runs.state = s.state AND num < $2 ORDER BY num DESC LIMIT $3) f) "
    "ORDER BY num DESC LIMIT $3",
    "text[] int8 int8",
)
_OF_THREAD: Final = Prepared(
    f"{RUN} WHERE thread = $4 AND state = ANY($1) AND num < $2 ORDER BY num DESC LIMIT $3",
    "text[] int8 int8 text",
)
PAYLOAD: Final = "coalesce(r.payload, (SELECT data FROM blobs b WHERE b.digest = r.digest))"
ROW: Final = (
    f"r.seq, r.at_ms, r.epoch, {PAYLOAD}, coalesce(r.digest, r.covered), r.hash, r.drift_ms"
)
_ROWS: Final = Prepared(
    f"SELECT {ROW} FROM records r WHERE run = ({_NUM}) AND seq > $2 ORDER BY seq LIMIT $3",
    "text int8 int8",
)
_CLAIMABLE: Final = Prepared(
    "SELECT run_id FROM runs r WHERE state = ANY($1) AND agent = ANY($2) "
    "AND (lease_boot <> $3 OR lease_until_s <= $4) "
    "AND (parent IS NOT NULL OR NOT EXISTS (SELECT 1 FROM runs e WHERE e.thread = r.thread "
    "AND e.num < r.num AND e.parent IS NULL AND e.state = ANY($5))) ORDER BY num LIMIT $6",
    "text[] text[] text float8 text[] int8",
)
_ELDEST: Final = Prepared(
    "SELECT run_id FROM runs WHERE thread = $1 AND parent IS NULL AND state = ANY($2) "
    "AND run_id <> ALL($3) ORDER BY num LIMIT 1",
    "text text[] text[]",
)
_KEPT: Final = Prepared(
    "SELECT num, run_id, agent, thread, parent, state, epoch FROM runs "
    "WHERE num >= $1 AND ($2 = '' OR run_id = $2) ORDER BY num LIMIT $3",
    "int8 text int8",
)
_STOPS: Final = "SELECT n, run, at_ms, payload, digest, hash FROM stops"
_LIVE: Final = f"FROM live WHERE run = ({_NUM})"
_LIVE_AFTER: Final = Prepared(
    f"SELECT pos, part, start, said, after_seq {_LIVE} AND pos > $2 ORDER BY pos", "text int8"
)
_CHANGED: Final = Prepared(
    "SELECT run_id, (SELECT max(seq) FROM records WHERE run = num) FROM runs "
    "WHERE num IN (SELECT run FROM records WHERE pos > $1 "
    "UNION SELECT run FROM live WHERE pos > $2)",
    "int8 int8",
)
_COMMITTED: Final = Prepared(
    "SELECT pos, run_id, seq FROM records JOIN runs ON num = run WHERE pos > $1 "
    "ORDER BY pos LIMIT $2",
    "int8 int8",
)
LAST_PLACE: Final = Prepared("SELECT last_value FROM places")
TAKEN: Final = Prepared(  # the places behind which somebody may still commit: see PLACE in `tables`
    "SELECT objid::int8 FROM pg_locks WHERE locktype = 'advisory' AND classid = $1::text::oid "
    "AND objsubid = 2 AND database = (SELECT oid FROM pg_database "
    "WHERE datname = current_database())",
    "text",
)
CLOCK: Final = Prepared(f"SELECT {SHOWN} FROM store")
_BEGIN: Final = Prepared("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
_COMMIT: Final = Prepared("COMMIT")
LIVING_STATES: Final = sorted(LIVING)
_NEED_OWNER: Final = sorted(NEEDS_OWNER)


def settled(last: Rows, taken: Rows) -> int:
    """Return the place up to which everything is committed that ever will be.

    `last` was asked for before `taken`, and both before the look that relies on it.
    """
    [[end]] = last
    return min([end, *(end - (end - place) % PLACES for (place,) in taken)])


class PostgresView:
    """A view through one connection. Each question is answered by what is committed when it comes,
    unless the connection is in a transaction. Used by one thread at a time."""

    def __init__(self, line: Exchanger, tag: int) -> None:
        """`tag`: by which the locks of this store's places are known."""
        self.line = line
        self._tag = str(tag)

    def ask(self, statement: Prepared, *values: Any) -> Rows:
        """Return the rows that answer a question."""
        [found] = self.ask_each((statement, values))
        return found

    def ask_each(self, *said: Said) -> list[Rows]:
        """Return the rows that answer several questions."""
        return self.line.exchange(*said)

    def _ask_from_the_end(self, statement: Prepared, *values: Any) -> tuple[int, Rows]:
        """The same, and where the store had ended before."""
        last, taken, found = self.line.exchange(*self._where_it_ends(), (statement, values))
        return settled(last, taken), found

    def _where_it_ends(self) -> tuple[Said, Said]:
        return (LAST_PLACE, ()), (TAKEN, (self._tag,))

    def _one(self, sql: str, types: str, *values: Any) -> tuple[Any, ...] | None:
        found = self.ask(Prepared(sql, types), *values)
        return found[0] if found else None

    def head(self, run_id: str) -> Head | None:
        found = self.ask(FIND, run_id)
        return head_of(found[0]) if found else None

    def beginning_with(self, prefix: str, *, limit: int) -> list[str]:
        between = Prepared(
            "SELECT run_id FROM runs WHERE run_id >= $1 AND run_id < $2 ORDER BY run_id LIMIT $3",
            "text text int8",
        )
        found = self.ask(between, prefix, prefix + "\x7f", limit)  # ids are ASCII
        return [run_id for (run_id,) in found]

    def heads(
        self, *, states: Iterable[RunState], thread: str | None, before: str | None, limit: int
    ) -> list[Head]:
        wanted = [str(state) for state in states]
        row = self._one(_NUM, "text", before) if before is not None else None
        bound = row[0] if row else 2**62
        if thread is None:
            found = self.ask(_OF_STATE, wanted, bound, limit)
        else:
            found = self.ask(_OF_THREAD, wanted, bound, limit, thread)
        return [head_of(row) for row in found]

    def kept(self, *, since: int, limit: int, run: str | None = None) -> list[Kept]:
        return [Kept(*row) for row in self.ask(_KEPT, since, run or "", limit)]

    def strays(self, *, limit: int) -> list[str]:
        return [f"number {run}" for (run,) in self.ask(_STRAYS, limit)]

    def claimable(self, *, boot: str, now_s: float, agents: Iterable[str], limit: int) -> list[str]:
        found = self.ask(_CLAIMABLE, _NEED_OWNER, list(agents), boot, now_s, LIVING_STATES, limit)
        return [run_id for (run_id,) in found]

    def eldest(self, thread: str) -> str | None:
        return self.eldest_besides(thread, ())

    def eldest_besides(self, thread: str, others: Iterable[str]) -> str | None:
        """Return the eldest run of a thread that is none of those."""
        found = self.ask(_ELDEST, thread, LIVING_STATES, list(others))
        return found[0][0] if found else None

    def due(self, *, agents: Iterable[str], limit: int) -> list[tuple[str, int]]:
        timed = Prepared(
            "SELECT run_id, due_ms FROM runs WHERE due_ms > 0 AND agent = ANY($1) "
            "ORDER BY due_ms LIMIT $2",
            "text[] int8",
        )
        return [(run_id, due_ms) for run_id, due_ms in self.ask(timed, list(agents), limit)]

    def owners(self) -> list[str]:
        held = Prepared("SELECT DISTINCT owner FROM runs WHERE owner > ''")
        return [owner for (owner,) in self.ask(held)]

    def rows(self, run_id: str, *, after_seq: int, limit: int) -> list[Row]:
        return [Row(*row) for row in self.ask(_ROWS, run_id, after_seq, limit)]

    def tail(
        self, run_id: str, *, after_seq: int, limit: int, after_pos: int | None = None
    ) -> Tail:
        live = [] if after_pos is None else [(_LIVE_AFTER, (run_id, after_pos))]
        found, rows, *texts = self.ask_each(
            (FIND, (run_id,)), (_ROWS, (run_id, after_seq, limit)), *live
        )
        head = head_of(found[0]) if found else None
        return Tail(
            head,
            [Row(*row) for row in rows],
            [live_of(text) for text in (texts[0] if texts else [])],
        )

    def hashes_of(self, records: Sequence[tuple[str, int]]) -> list[bytes | None]:
        found = self.ask(_HASHES, [run for run, _ in records], [seq for _, seq in records])
        return [digest for (digest,) in found]

    def places(self, records: Sequence[tuple[str, int]]) -> list[int]:
        found = self.ask(_PLACES_OF, [run for run, _ in records], [seq for _, seq in records])
        return [place for (place,) in found]

    def weight(self, run_id: str) -> int:
        sql = f"SELECT sum(length({PAYLOAD}))::int8 FROM records r WHERE run = ({_NUM})"
        row = self._one(sql, "text", run_id)
        return (row[0] if row else None) or 0

    def snapshot(self, run_id: str) -> Snapshot | None:
        sql = f"SELECT seq, hash, format, data FROM snapshots WHERE run = ({_NUM})"
        row = self._one(sql, "text", run_id)
        return Snapshot(*row) if row else None

    def ack(self, run_id: str, key: str) -> StoredAck | None:
        sql = f"SELECT digest, ack FROM acks WHERE run = ({_NUM}) AND key = $2"
        row = self._one(sql, "text text", run_id, key)
        return StoredAck(*row) if row else None

    def live(self, run_id: str, *, after_pos: int) -> list[LiveText]:
        return [live_of(row) for row in self.ask(_LIVE_AFTER, run_id, after_pos)]

    def live_said(self, run_id: str, part: str) -> str:
        said = Prepared(f"SELECT said {_LIVE} AND part = $2 ORDER BY start", "text text")
        return b"".join(text for (text,) in self.ask(said, run_id, part)).decode()

    def live_end(self, run_id: str, part: str) -> int:
        sql = f"SELECT start, said {_LIVE} AND part = $2 ORDER BY start DESC LIMIT 1"
        row = self._one(sql, "text text", run_id, part)
        return row[0] + len(row[1].decode()) if row else 0

    def stops(self, *, after: int, limit: int, run: str | None = None) -> list[StopRow]:
        if run is None:
            all_of_them = Prepared(f"{_STOPS} WHERE n > $1 ORDER BY n LIMIT $2", "int8 int8")
            return [StopRow(*row) for row in self.ask(all_of_them, after, limit)]
        about = Prepared(
            f"{_STOPS} WHERE n > $1 AND run = $3 ORDER BY n LIMIT $2", "int8 int8 text"
        )
        return [StopRow(*row) for row in self.ask(about, after, limit, run)]

    def stop_head(self) -> tuple[int, bytes] | None:
        row = self._one("SELECT n, hash FROM stops ORDER BY n DESC LIMIT 1", "")
        return (row[0], row[1]) if row else None

    def boot_base(self, boot: str) -> int | None:
        row = self._one("SELECT base_ms FROM boots WHERE boot = $1", "text", boot)
        return row[0] if row else None

    def latest_ms(self) -> int:
        row = self._one("SELECT max(at_ms - coalesce(drift_ms, 0)) FROM records", "")
        return (row[0] if row else None) or 0

    def hook(self, name: str, *, lock: str = "") -> HookPlace | None:
        sql = f"SELECT {HOOK} FROM hooks WHERE name = $1 {lock}"
        row = self._one(sql, "text", name)
        return HookPlace(row[0], Holder(*row[1:])) if row else None

    def position(self) -> tuple[int, int]:
        end = settled(*self.line.exchange(*self._where_it_ends()))
        return end, end

    def committed(self, *, after_pos: int, limit: int) -> list[tuple[int, str, int]]:
        end, found = self._ask_from_the_end(_COMMITTED, after_pos, limit)
        return [(pos, run_id, seq) for pos, run_id, seq in found if pos <= end]

    def changed(self, since: tuple[int, int]) -> tuple[tuple[int, int], dict[str, int]]:
        """The mark is the place behind which somebody may still commit. What has been committed
        beyond it is told at once, and then once more."""
        end, found = self._ask_from_the_end(_CHANGED, *since)
        return (end, end), dict(found)


HOOK: Final = "pos, owner, lease_boot, lease_until_s, lease_from_s"


class PostgresLook(PostgresView):
    """One consistent look. Its first question begins it, on the same way to the server.

    Where the store ends has to be asked first, and is the same from then on: a writer that has
    drawn an earlier place and commits later would be missed by whoever went on from there.
    """

    def __init__(
        self, line: Exchanger, tag: int, clock: DatabaseClock, *, again: Callable[[], Exchanger]
    ) -> None:
        """`again`: makes another connection, if this one was lost while nobody used it."""
        super().__init__(line, tag)
        self._clock, self._again = clock, again
        self._is_begun = False
        self._end: int | None = None

    def is_over(self) -> None:
        """Leave the look. Nobody waits for the server's answer to that."""
        if self._is_begun:
            self.line.leave(_COMMIT)
        self._is_begun, self._end = False, None

    def ask_each(self, *said: Said) -> list[Rows]:
        if self._is_begun:
            return super().ask_each(*said)
        return self._begun_with(*said)[-len(said) :]

    def _begun_with(self, *said: Said, before: Sequence[Said] = ()) -> list[Rows]:
        begin: list[Said] = [*before, (_BEGIN, ()), (CLOCK, ()), *said]
        try:
            answers = self.line.exchange(*begin)
        except psycopg.OperationalError:
            if not self.line.db.closed:
                raise
            self.line = self._again()
            answers = self.line.exchange(*begin)
        self._is_begun = True
        self._clock.hear(answers[-len(said) - 1][0][0])
        return answers

    def _ask_from_the_end(self, statement: Prepared, *values: Any) -> tuple[int, Rows]:
        asked = statement, values
        if self._end is None:
            assert not self._is_begun, "where it ends has to be asked first"
            before = *self._where_it_ends(), SYNC
            last, taken, *_, found = self._begun_with(asked, before=before)
            self._end = settled(last, taken)
            return self._end, found
        return self._end, self.ask(statement, *values)

    def position(self) -> tuple[int, int]:
        """If other questions came first: a place that nothing in this look is beyond."""
        if self._end is None and self._is_begun:
            [[end]] = self.ask(LAST_PLACE)
            return end, end
        end, _ = self._ask_from_the_end(CLOCK)
        return end, end


def live_of(row: Sequence[Any]) -> LiveText:
    """Return a piece of live text from its row."""
    pos, part, start, said, after_seq = row
    return LiveText(pos, part, start, said.decode(), after_seq)


def head_of(row: Sequence[Any]) -> Head:
    """Return a run's head from its row."""
    run_id, agent, thread, parent, created_at_ms, state, epoch, *rest = row
    *holder, due_ms, seq, digest, at_ms, steady_ms = rest[:9]
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
