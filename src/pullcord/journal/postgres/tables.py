"""What an optimistic transaction asks of a PostgreSQL server: locks, checks and a commit.

A commit is one exchange, whatever is in it. It locks the rows of the runs that were looked at, in
the order of their numbers, and divides by zero if one of them has another version by now: so the
server gives all of it up. Behind these locks nothing waits but the stop log, for stops alone.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

import psycopg
from psycopg import errors

from pullcord.core.states import LIVING
from pullcord.journal.chain import Row
from pullcord.journal.evidence.stoplog import START, cover
from pullcord.journal.optimistic import (
    Checks,
    Contents,
    Erased,
    HeldRuns,
    Interfered,
    Seen,
    Writes,
)
from pullcord.journal.postgres.clock import KEEP_UP, SHOWN, DatabaseClock
from pullcord.journal.postgres.exchange import Exchanger, Prepared, Rows, Said
from pullcord.journal.postgres.rows import (
    CLOCK,
    FIND,
    HOOK,
    LIVING_STATES,
    PLACES,
    ROW,
    RUN,
    PostgresView,
    head_of,
    live_of,
)
from pullcord.journal.store import (
    INLINE_MAX_BYTES,
    Head,
    HookPlace,
    NewStop,
    Snapshot,
    StopRow,
    StoredAck,
    View,
)

# Unless somebody else has changed it: else 1 / 0, and the transaction is given up.
_UNLESS: Final = "SELECT 1 / ({})::int"
_CHECK: Final = Prepared(
    "WITH seen AS MATERIALIZED (SELECT num, run_id, version FROM runs WHERE run_id = ANY($1) "
    "ORDER BY num FOR NO KEY UPDATE), "
    "fits AS MATERIALIZED (SELECT s.num, w.writes FROM seen s "
    "JOIN unnest($1, $2, $3) w (run_id, version, writes) "
    "ON w.run_id = s.run_id AND w.version = s.version), "
    "marked AS (UPDATE runs SET version = $4 FROM fits WHERE runs.num = fits.num AND writes) "
    f"{_UNLESS.format('count(*) = cardinality($1)')} FROM fits",
    "text[] int8[] bool[] int8",
)
_HOLDS: Final = Prepared(
    "SELECT count(*) = cardinality($1) FROM runs JOIN unnest($1, $2) w (run_id, version) "
    "ON w.run_id = runs.run_id AND w.version = runs.version",
    "text[] int8[]",
)
_LOCK_FOR: Final = Prepared("SELECT pg_advisory_xact_lock($1)", "int8")
_ELDEST_IS: Final = Prepared(
    _UNLESS.format(
        "coalesce((SELECT run_id FROM runs WHERE thread = $1 AND parent IS NULL "
        "AND state = ANY($2) ORDER BY num LIMIT 1), '') = $3"
    ),
    "text text[] text",
)
_BORN: Final = Prepared(
    "INSERT INTO runs (num, run_id, agent, thread, parent, root, created_at_ms, state, epoch, "
    "owner, lease_boot, lease_until_s, lease_from_s, due_ms, version) "
    "SELECT n.num, $1, $2, $3, $4, coalesce((SELECT root FROM runs WHERE run_id = $4), n.num), "
    "$5, $6, $7, $8, $9, $10, $11, $12, $13 FROM (SELECT nextval('run_nums') AS num) n",
    "text text text text int8 text int8 text text float8 float8 int8 int8",
)
_HEADS: Final = Prepared(
    "UPDATE runs SET state = w.state, epoch = w.epoch, owner = w.owner, lease_boot = w.boot, "
    "lease_until_s = w.until_s, lease_from_s = w.from_s, due_ms = w.due_ms "
    "FROM unnest($1, $2, $3, $4, $5, $6, $7, $8) "
    "w (run_id, state, epoch, owner, boot, until_s, from_s, due_ms) "
    "WHERE runs.run_id = w.run_id",
    "text[] text[] int8[] text[] text[] float8[] float8[] int8[]",
)
_PLACE: Final = Prepared(  # before a place is drawn: no reader goes beyond it until the commit
    f"SELECT pg_advisory_xact_lock_shared($1::int, (last_value % {PLACES})::int) FROM places",
    "int8",
)
_RECORDS: Final = Prepared(
    "INSERT INTO records (pos, run, seq, at_ms, epoch, payload, digest, hash, drift_ms) "
    "SELECT nextval('places'), num, seq, at_ms, epoch, payload, digest, hash, drift_ms "
    "FROM (SELECT runs.num, w.* FROM unnest($1, $2, $3, $4, $5, $6, $7, $8) WITH ORDINALITY "
    "w (run_id, seq, at_ms, epoch, payload, digest, hash, drift_ms, n) "
    "JOIN runs ON runs.run_id = w.run_id ORDER BY w.n) s",
    "text[] int8[] int8[] int8[] bytea[] bytea[] bytea[] int8[]",
)
_BLOBS: Final = Prepared(
    "INSERT INTO blobs SELECT * FROM unnest($1, $2) ON CONFLICT DO NOTHING", "bytea[] bytea[]"
)
_SAID: Final = Prepared(
    "INSERT INTO live (pos, run, part, start, said, after_seq) "
    "SELECT nextval('places'), num, part, start, said, after_seq "
    "FROM (SELECT runs.num, w.* FROM unnest($1, $2, $3, $4, $5) WITH ORDINALITY "
    "w (run_id, part, start, said, after_seq, n) "
    "JOIN runs ON runs.run_id = w.run_id ORDER BY w.n) s",
    "text[] text[] int8[] bytea[] int8[]",
)
_UNSAID: Final = Prepared(
    "DELETE FROM live USING unnest($1, $2) w (run_id, part) JOIN runs ON runs.run_id = w.run_id "
    "WHERE live.run = runs.num AND live.part = w.part",
    "text[] text[]",
)
_NUM: Final = "(SELECT num FROM runs WHERE run_id = $1)"
_ACK: Final = Prepared(f"INSERT INTO acks VALUES ({_NUM}, $2, $3, $4)", "text text bytea bytea")
_SNAPSHOT: Final = Prepared(
    f"INSERT INTO snapshots VALUES ({_NUM}, $2, $3, $4, $5) "
    "ON CONFLICT (run) DO UPDATE SET seq = excluded.seq, hash = excluded.hash, "
    "format = excluded.format, data = excluded.data",
    "text int8 bytea int8 bytea",
)
_STOP: Final = Prepared(  # its number and its hash follow from the last: `evidence.stoplog.behind`
    "INSERT INTO stops (n, run, at_ms, payload, digest, hash) "
    "SELECT n + 1, $1, $2, $3, $4, sha256('\\x73746f7000'::bytea || hash || $5 || "
    "convert_to((n + 1)::text, 'UTF8') || '\\x00'::bytea || convert_to($2::text, 'UTF8')) "
    "FROM (SELECT n, hash FROM (SELECT n, hash FROM stops ORDER BY n DESC LIMIT 1) last "
    "UNION ALL SELECT 0, $6 ORDER BY n DESC LIMIT 1) before "
    "RETURNING n, run, at_ms, payload, digest, hash",
    "text int8 bytea bytea bytea bytea",
)
_NOTED_IS: Final = Prepared(
    _UNLESS.format("coalesce((SELECT max(n) FROM stops WHERE run = ''), 0) = $1"), "int8"
)
_FREE: Final = Prepared(
    "UPDATE runs SET owner = '', lease_until_s = 0, version = $2 WHERE owner = $1", "text int8"
)
_BOOTS: Final = Prepared("SELECT boot, base_ms FROM boots")
_BOOT: Final = Prepared("INSERT INTO boots VALUES ($1, $2)", "text int8")
_HOOK_TYPES: Final = "text int8 text text float8 float8"
_NO_HOOK: Final = Prepared(f"{_UNLESS.format('count(*) = 0')} FROM hooks WHERE name = $1", "text")
_HOOK_IS: Final = Prepared(
    f"{_UNLESS.format('count(*) = 1')} FROM (SELECT 1 FROM hooks WHERE name = $1 AND "
    f"({HOOK}) = ($2, $3, $4, $5, $6) FOR UPDATE) h",
    _HOOK_TYPES,
)
_NEW_HOOK: Final = Prepared(
    f"INSERT INTO hooks (name, {HOOK}) VALUES ($1, $2, $3, $4, $5, $6)", _HOOK_TYPES
)
_HOOK: Final = Prepared(
    f"UPDATE hooks SET ({HOOK}) = ($2, $3, $4, $5, $6) WHERE name = $1", _HOOK_TYPES
)
_DROP_HOOK: Final = Prepared("DELETE FROM hooks WHERE name = $1", "text")
DONE: Final = Prepared(  # the last word: by it a commit is known whose answer got lost
    "INSERT INTO writers (id, commits) VALUES ($1, 1) "
    "ON CONFLICT (id) DO UPDATE SET commits = writers.commits + 1 "
    f"RETURNING (SELECT {SHOWN} FROM store)",
    "int8",
)
_UNBLOB: Final = Prepared(
    "DELETE FROM blobs WHERE digest IN (SELECT digest FROM records "
    f"WHERE run = {_NUM} AND seq <= $2 AND digest IS NOT NULL) AND NOT EXISTS "
    "(SELECT 1 FROM records r WHERE r.digest = blobs.digest "
    f"AND NOT (r.run = {_NUM} AND r.seq <= $2))",
    "text int8",
)
_COVER: Final = Prepared(
    "UPDATE records SET payload = NULL, digest = NULL, covered = w.covered "
    "FROM unnest($2) WITH ORDINALITY w (covered, seq) "
    f"WHERE run = {_NUM} AND records.seq = w.seq",
    "text bytea[]",
)
_TRACE: Final = Prepared(f"INSERT INTO traces VALUES ({_NUM}) ON CONFLICT DO NOTHING", "text")
_UNTOLD: Final = Prepared("UPDATE stops SET payload = NULL WHERE run = $1", "text")
_THREAD: Final = Prepared("UPDATE runs SET thread = $2 WHERE run_id = $1", "text text")
_OF_RUN: Final = tuple(
    Prepared(f"DELETE FROM {table} WHERE run = {_NUM}", "text")
    for table in ("snapshots", "acks", "live")
)
_NOTIFY: Final = Prepared("SELECT pg_notify($1, $2)", "text text")
_NAMES_MAX: Final = 7_000  # bytes; a notification has room for 8,000
_ROLLBACK: Final = Prepared("ROLLBACK")
_COMMIT: Final[Said] = (Prepared("COMMIT"), ())
_TIME: Final[Said] = (Prepared(KEEP_UP), ())
_BEGIN: Final[Said] = (Prepared("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"), ())

_THESE: Final = "SELECT num FROM runs WHERE run_id = ANY($1)"
_FAMILIES: Final = (
    "SELECT num FROM runs WHERE root IN (SELECT root FROM runs WHERE run_id = ANY($1)) "
    "AND state = ANY($2) UNION SELECT num FROM runs WHERE run_id = ANY($1) OR run_id = ANY($3)"
)
_REFUSALS: Final = (errors.DivisionByZero, errors.UniqueViolation)
_INTERFERED: Final = (errors.DeadlockDetected, errors.SerializationFailure)


class _Questions:
    """What is asked of runs that are locked: which they are is said by a statement with `types`."""

    def __init__(self, which: str, types: str, *, changed: str = "") -> None:
        some = f"runs.num IN ({which})"
        behind = "coalesce((SELECT s.seq FROM snapshots s WHERE s.run = runs.num), 0)"
        self.lock = Prepared(
            f"SELECT num FROM runs WHERE num IN ({which}) ORDER BY num FOR NO KEY UPDATE", types
        )
        self.seen = Prepared(f"{RUN} WHERE num IN ({which})", types)
        self.rows = Prepared(
            f"SELECT run_id, {ROW} FROM runs JOIN records r ON r.run = runs.num "
            f"AND r.seq > {behind} WHERE {some} {changed} ORDER BY runs.num, seq",
            types,
        )
        self.snapshots = Prepared(
            "SELECT run_id, s.seq, s.hash, s.format, s.data FROM runs "
            f"JOIN snapshots s ON s.run = runs.num WHERE {some} {changed}",
            types,
        )
        self.live = Prepared(
            "SELECT run_id, pos, part, start, said, after_seq FROM runs "
            f"JOIN live ON live.run = runs.num WHERE {some} {changed} ORDER BY pos",
            types,
        )


_CHANGED: Final = (
    "AND (run_id, version) NOT IN (SELECT * FROM unnest($1, $2))"  # since they were found
)
_OF_THESE: Final = _Questions(_THESE, "text[] int8[]", changed=_CHANGED)
_OF_FAMILIES: Final = _Questions(_FAMILIES, "text[] text[] text[]")
_ELDEST_OF: Final = Prepared(  # of the thread of a run
    "SELECT r.thread, (SELECT e.run_id FROM runs e WHERE e.thread = r.thread AND e.parent IS NULL "
    "AND e.state = ANY($2) ORDER BY e.num LIMIT 1) FROM runs r WHERE r.run_id = $1",
    "text text[]",
)
_ACK_TO: Final = Prepared(
    f"SELECT digest, ack FROM acks WHERE run = {_NUM} AND key = $2", "text text"
)


class PostgresTables:
    """See `optimistic.Tables`. It has a connection of its own."""

    def __init__(
        self,
        line: Exchanger,
        clock: DatabaseClock,
        *,
        tag: int,
        channel: str,
        writer: int,
        is_kept: Callable[[int, int, psycopg.Error], bool],
    ) -> None:
        """`writer`: the number under which the store counts the commits of this connection.
        `is_kept`: whether that writer has made so many, although the answer to it got lost."""
        self.line, self._clock = line, clock
        self._tag, self._channel, self._writer = tag, channel, writer
        self._is_kept = is_kept
        self._view = PostgresView(line, tag)
        self._is_open = False
        self._commits = 0
        self.stopped: StopRow | None = None  # the last entry that a commit has added to the log

    @property
    def view(self) -> View:
        return self._view

    def find(self, run_id: str) -> Seen | None:
        found = self._view.ask(FIND, run_id)
        return _seen(found[0]) if found else None

    def lock(self, versions: Mapping[str, int]) -> HeldRuns:
        runs = list(versions), list(versions.values())
        return self._locked(_OF_THESE, runs, [])

    def lock_families(
        self, run_ids: Sequence[str], *, also: Collection[str], key: str | None
    ) -> HeldRuns:
        which = list(run_ids), LIVING_STATES, list(also)
        asked: list[Said] = [(_ELDEST_OF, (run_ids[0], LIVING_STATES))]
        asked += [] if key is None else [(_ACK_TO, (run_ids[0], key))]
        return self._locked(_OF_FAMILIES, which, asked)

    def _locked(self, of: _Questions, which: Sequence[Any], more: Sequence[Said]) -> HeldRuns:
        begin = [] if self._is_open else [_BEGIN]
        questions = of.lock, of.seen, of.rows, of.snapshots, of.live
        beside = (CLOCK, ()), (_BOOTS, ())
        self._is_open = True
        answers = self._exchange(
            *begin, *beside, *((question, which) for question in questions), *more
        )[len(begin) :]
        shown, boots, _, seen, rows, snapshots, live, *others = answers
        self._clock.hear(shown[0][0])
        runs = {row[0]: _seen(row) for row in seen}
        kept = {row[0]: Snapshot(*row[1:]) for row in snapshots}
        changed = {row[0] for row in rows} | kept.keys()
        contents = {
            run_id: Contents(
                kept.get(run_id),
                [Row(*row[1:]) for row in rows if row[0] == run_id],
                [live_of(row[1:]) for row in live if row[0] == run_id],
            )
            for run_id in changed
        }
        eldest, acks = (others[0], others[1:]) if others else ([], [])
        ack = StoredAck(*acks[0][0]) if acks and acks[0] else None
        return HeldRuns(runs, contents, ack, dict(boots), dict(eldest))

    def eldest(self, thread: str, *, besides: Collection[str]) -> str | None:
        return self._view.eldest_besides(thread, besides)

    def hook(self, name: str) -> HookPlace | None:
        return self._view.hook(name, lock="FOR UPDATE" if self._is_open else "")

    def holds(self, checks: Checks) -> bool:
        if not checks.versions:
            return True
        asked = _HOLDS, (list(checks.versions), list(checks.versions.values()))
        return self._exchange(asked)[0][0][0]

    def roll_back(self) -> None:
        if self._is_open and not self.line.db.closed:
            try:
                self.line.leave(_ROLLBACK)
            except psycopg.Error:
                self.line.db.close()
        self._is_open = False

    def commit(self, checks: Checks, writes: Writes, token: int) -> bool:
        said = [*_statements(checks, writes, token, tag=self._tag), (DONE, (self._writer,))]
        end = [_COMMIT] if self._is_open else []
        named = told(writes)
        news: list[Said] = [] if named is None else [(_NOTIFY, (self._channel, named))]
        try:
            found = self.line.exchange(*said, *end, then=[*news, _TIME])
        except (*_REFUSALS, *_INTERFERED):
            self.roll_back()
            return False
        except psycopg.Error as lost:
            # On a connection that is still there, the server has said no. Else it may have been
            # its last word, behind the commit.
            if not self.line.db.closed or not self._is_kept(self._writer, self._commits + 1, lost):
                raise
            found = []
        self._is_open = False
        self._commits += 1
        if found:
            self._clock.hear(found[len(said) - 1][0][0])
        stops = [rows[0] for (one, _), rows in zip(said, found, strict=False) if one is _STOP]
        self.stopped = StopRow(*stops[-1]) if stops else None
        return True

    def _exchange(self, *said: Said) -> list[Rows]:
        try:
            return self.line.exchange(*said)
        except _INTERFERED as error:
            raise Interfered from error


def _seen(row: Sequence[Any]) -> Seen:
    return Seen(head_of(row), row[16])


def told(writes: Writes) -> str | None:
    """Which runs have news, for those who listen: `run:seq run:seq! ...`; with a mark, those that a
    process may have to take up now. Empty: too many to name. None: nobody has to be told."""
    last = {run_id: text.after_seq for run_id, text in writes.said}
    last |= {run_id: row.seq for run_id, row in writes.rows}
    if not last:
        return None
    rests = {run for run, head in writes.heads.items() if not head.holder.owner}
    rests |= {run for run, head in writes.heads.items() if head.state not in LIVING}
    named = " ".join(f"{run}:{seq}{'!' * (run in rests)}" for run, seq in last.items())
    return named if len(named) <= _NAMES_MAX else ""


def _statements(checks: Checks, writes: Writes, token: int, *, tag: int) -> Iterable[Said]:
    """Everything that a commit says, in an order in which nobody waits with more than he must."""
    born = [head for run, head in writes.heads.items() if checks.versions.get(run) is None]
    changed = [head for run, head in writes.heads.items() if run in checks.versions]
    threads = {head.thread for head in born if not head.parent}
    threads = sorted(threads | (checks.eldest.keys() if writes.erased else set[str]()))
    yield from ((_LOCK_FOR, (_number(tag, f"thread {thread}"),)) for thread in threads)
    if checks.versions:
        runs = list(checks.versions)
        is_written = [run in writes.runs for run in runs]
        yield _CHECK, (runs, list(checks.versions.values()), is_written, token)
    for thread in threads:
        if thread in checks.eldest:
            yield _ELDEST_IS, (thread, LIVING_STATES, checks.eldest[thread] or "")
    for head in born:
        yield _BORN, _born(head, token)
    if changed:
        yield _HEADS, _columns(map(_kept, changed))
    yield from _beside(checks, writes, token)
    if writes.stops:
        yield _LOCK_FOR, (_number(tag, "stop log"),)
        if checks.noted is not None:
            yield _NOTED_IS, (checks.noted,)
        yield from ((_STOP, _stop(new)) for new in writes.stops)
    if writes.rows or writes.said:
        yield _PLACE, (tag,)
    if writes.rows:
        yield _RECORDS, _columns(_record(run, row) for run, row in writes.rows)
    if writes.said:
        said = ((run, t.part, t.offset, t.text.encode(), t.after_seq) for run, t in writes.said)
        yield _SAID, _columns(said)
    if writes.unsaid:
        yield _UNSAID, _columns(writes.unsaid)
    for erased in writes.erased:
        yield from _erasing(erased)


def _beside(checks: Checks, writes: Writes, token: int) -> Iterable[Said]:
    """What is not a record, nor the end of a run."""
    blobs = [
        (sha256(row.payload).digest(), row.payload)
        for _, row in writes.rows
        if row.payload is not None and len(row.payload) > INLINE_MAX_BYTES
    ]
    if blobs:
        yield _BLOBS, _columns(sorted(dict(blobs).items()))
    for (run_id, key), stored in writes.acks.items():
        yield _ACK, (run_id, key, *stored)
    for run_id, snapshot in writes.snapshots.items():
        yield _SNAPSHOT, (run_id, *snapshot)
    yield from ((_FREE, (owner, token)) for owner in writes.freed)
    yield from ((_BOOT, named) for named in writes.boots.items())
    for name, place in writes.hooks.items():
        before = checks.hooks.get(name)
        yield (_NO_HOOK, (name,)) if before is None else (_HOOK_IS, _place(name, before))
        if place is None:
            yield _DROP_HOOK, (name,)
        else:
            yield (_NEW_HOOK if before is None else _HOOK), _place(name, place)


def _erasing(erased: Erased) -> Iterable[Said]:
    run_id = erased.run_id
    yield _UNBLOB, (run_id, len(erased.digests))
    yield _COVER, (run_id, list(erased.digests))
    yield from ((delete, (run_id,)) for delete in (*_OF_RUN, _UNTOLD, _TRACE))
    yield _THREAD, (run_id, erased.thread)


def _kept(head: Head) -> tuple[Any, ...]:
    return (head.run_id, head.state.value, head.epoch, *head.holder, head.due_ms)


def _born(head: Head, token: int) -> tuple[Any, ...]:
    who = head.run_id, head.agent, head.thread, head.parent, head.created_at_ms
    return (*who, *_kept(head)[1:], token)


def _record(run_id: str, row: Row) -> tuple[Any, ...]:
    is_inline = row.payload is None or len(row.payload) <= INLINE_MAX_BYTES
    payload, digest = (row.payload, None) if is_inline else (None, row.digest)
    return run_id, row.seq, row.at_ms, row.epoch, payload, digest, row.hash, row.drift_ms


def _stop(new: NewStop) -> tuple[Any, ...]:
    return (*new, cover(new.run, new.digest), START)


def _place(name: str, place: HookPlace) -> tuple[Any, ...]:
    return (name, place.pos, *place.holder)


def _columns(rows: Iterable[Sequence[Any]]) -> list[list[Any]]:
    return [list(column) for column in zip(*rows, strict=True)]


def _number(tag: int, name: str) -> int:
    """The number of an advisory lock. Another store's has another one."""
    digest = sha256(f"pullcord {tag} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
