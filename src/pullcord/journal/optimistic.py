"""A write to a store that many machines write to at the same time.

Jobs read what this process knows of the runs, or ask the store, and what they write waits here.
Then all of it is sent at once. The store checks that every run that was looked at is still as it
was, and commits, or refuses. What was refused is done once more, this time with the runs locked
first, so that nobody comes between again. A job that calls `hold` has them locked from the start.

The rules know nothing of this: to them a transaction is alone. The ledger decides; here it is only
checked that nothing has changed under its feet.
"""

import secrets
from collections import OrderedDict
from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple, Protocol, TypeAlias

import msgspec

from pullcord.core.states import LIVING, RunState
from pullcord.errors import PullcordError
from pullcord.journal.chain import Row
from pullcord.journal.evidence.stoplog import behind
from pullcord.journal.one_commit import Trouble
from pullcord.journal.store import (
    Head,
    HookPlace,
    Job,
    Kept,
    LiveText,
    NewStop,
    Outcome,
    Snapshot,
    StopRow,
    StoredAck,
    Tail,
    View,
)

_KNOWN_RUNS: Final = 1024
_TRIES: Final = 8
NEWBORN: Final = 0
"""The version of a run before its first commit. No committed run has it."""


class Seen(NamedTuple):
    """A run as the store has it. Whoever writes to the run gives it another version."""

    head: Head
    version: int


class Contents(NamedTuple):
    """What else a store has of a run: its snapshot, the records behind that one, and live text."""

    snapshot: Snapshot | None
    rows: Sequence[Row]
    live: Sequence[LiveText]


class HeldRuns(NamedTuple):
    """Runs that are locked now, as they are, and the answer to the key that was asked for.

    `boots`: the base of each boot's clock. It never changes. `eldest`: of the thread of the first
    run; that thread is not locked.
    """

    seen: Mapping[str, Seen]
    contents: Mapping[str, Contents]
    ack: StoredAck | None = None
    boots: Mapping[str, int] = {}
    eldest: Mapping[str, str | None] = {}


class Erased(NamedTuple):
    """A run whose payloads are deleted: the digests that stay, and its thread from now on."""

    run_id: str
    digests: tuple[bytes, ...]
    thread: str


@dataclass
class Checks:
    """What has to be as it was, for a commit to be carried out."""

    versions: dict[str, int] = field(default_factory=dict[str, int])
    eldest: dict[str, str | None] = field(default_factory=dict[str, str | None])  # by thread
    hooks: dict[str, HookPlace | None] = field(default_factory=dict[str, HookPlace | None])
    noted: int | None = None  # the stop log's last entry about no run, if that was asked for


@dataclass
class Writes:
    """What one job, or several, want written."""

    heads: dict[str, Head] = field(default_factory=dict[str, Head])  # runs whose row is new
    runs: dict[str, None] = field(default_factory=dict[str, None])  # written to, in order
    rows: list[tuple[str, Row]] = field(default_factory=list[tuple[str, Row]])
    said: list[tuple[str, LiveText]] = field(default_factory=list[tuple[str, LiveText]])
    unsaid: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # run, part
    acks: dict[tuple[str, str], StoredAck] = field(default_factory=dict[tuple[str, str], StoredAck])
    snapshots: dict[str, Snapshot] = field(default_factory=dict[str, Snapshot])
    stops: list[NewStop] = field(default_factory=list[NewStop])
    erased: list[Erased] = field(default_factory=list[Erased])
    freed: list[str] = field(default_factory=list[str])  # owners
    boots: dict[str, int] = field(default_factory=dict[str, int])
    hooks: dict[str, HookPlace | None] = field(default_factory=dict[str, HookPlace | None])
    count: int = 0

    def add(self, other: "Writes") -> None:
        """Write also what another job wants, behind this."""
        for name in self.__dataclass_fields__:
            mine, more = getattr(self, name), getattr(other, name)
            setattr(self, name, mine | more if isinstance(mine, dict) else mine + more)


class Tables(Protocol):
    """The store below an optimistic transaction. One thread uses it at a time.

    Free, it reads what is committed, each question by itself. The first lock opens a transaction of
    the store, which lasts until a commit, a refusal or `roll_back`.

    Raises (from each of them):
        Interfered: the store has ended the transaction for the sake of another one.
        NotYet: somebody else has a lock, and this store cannot wait for it.
    """

    @property
    def view(self) -> View: ...
    def find(self, run_id: str) -> Seen | None: ...
    def lock(self, versions: Mapping[str, int]) -> HeldRuns:
        """Lock these runs, in an order that is the same for everybody.

        The contents come only of those that have another version than this by now.
        """
        ...

    def lock_families(
        self, run_ids: Sequence[str], *, also: Collection[str], key: str | None
    ) -> HeldRuns:
        """Lock these runs with the living ones of their families, and also those others.

        `key`: of the first one.
        """
        ...

    def eldest(self, thread: str, *, besides: Collection[str]) -> str | None:
        """Return the first living run of a thread that is no child and none of those others."""
        ...

    def hook(self, name: str) -> HookPlace | None:
        """Return a hook's place. In a transaction it is locked."""
        ...

    def holds(self, checks: Checks) -> bool:
        """Return whether all of that is still as it was."""
        ...

    def commit(self, checks: Checks, writes: Writes, token: int) -> bool:
        """Write it all, give each run that is written to the version `token`, and commit.

        False: something is not as it was, or somebody else has written the same first. Nothing is
        written then, and nothing is locked any more.
        """
        ...

    def roll_back(self) -> None:
        """Write nothing, and unlock everything. Nothing happens if nothing is open."""
        ...


class Interfered(Exception):
    """The store has ended the transaction for the sake of another one."""


class NotYet(Exception):
    """Somebody else has a lock."""


class Contended(Exception):
    """Others came between, again and again."""


class _Stale(Exception):
    """What a job relies on has changed. The runs are locked now."""


Attempts: TypeAlias = Generator[None, None, list[Outcome]]
"""Each time it is resumed it goes on with the store; in between, others may come first."""


@dataclass
class _Known:
    """A run as this process has last seen or left it."""

    head: Head
    version: int
    live: list[LiveText] | None = None  # None: that is not known
    contents: Contents | None = None  # as it was when it was locked; until the transaction ends


@dataclass
class _Part:
    """One job: what it has looked at, what it wants written, how it ended. None: it has not."""

    job: Job
    looked: set[str] = field(default_factory=set[str])
    eldest: dict[str, str | None] = field(default_factory=dict[str, str | None])
    hooks: dict[str, HookPlace | None] = field(default_factory=dict[str, HookPlace | None])
    noted: int | None = None
    writes: Writes = field(default_factory=Writes)
    outcome: Outcome | None = None

    def begin(self) -> None:
        self.looked, self.eldest, self.hooks, self.noted = set(), {}, {}, None
        self.writes, self.outcome = Writes(), None


class OptimisticTransaction:
    """See the module. It remembers runs from one transaction to the next."""

    def __init__(self, tables: Tables, *, number: int = 0) -> None:
        """`number`: of the last transaction. The next one does not follow on it."""
        self._tables = tables
        self._known: OrderedDict[str, _Known] = OrderedDict()
        self._boots: dict[str, int] = {}
        self._number = number
        self._parts: list[_Part] = []
        self._part = _Part(lambda _: None)
        self._versions: dict[str, int] = {}  # of the runs that were looked at, as they were found
        self._locked: set[str] | None = None  # None: free
        self._fresh: dict[str, tuple[Seen, Contents | None]] = {}  # as they were when locked
        self._acks: dict[tuple[str, str], StoredAck | None] = {}  # the same of answers
        self._eldest: dict[str, str | None] = {}  # and of threads

    # --- carrying out -------------------------------------------------------------------------

    def attempts(self, jobs: Sequence[Job]) -> Attempts:
        """Carry out these jobs in one commit, and return what became of each.

        Raises:
            Trouble: one has failed in a way that may concern the others.
            Contended: others came between, again and again.
        """
        parts = [_Part(job) for job in jobs]
        self._parts = list(parts)
        self._begin_anew()
        refused = 0
        try:
            while refused < _TRIES:
                try:
                    for part in self._parts:
                        if part.outcome is None:
                            self._carry_out(part)
                    yield
                    while (is_done := self._commits()) is None:
                        yield
                    if is_done:
                        return [part.outcome or Outcome() for part in parts]
                    refused += 1
                    yield
                    while (stale := self._lock_everything()) is None:
                        yield
                    self._repeat(stale)
                except _Stale as found:
                    self._repeat(set(found.args))
                except NotYet:
                    self._let_go()
                    yield
                except Interfered:
                    refused += 1
                    self._let_go()
            raise Contended
        except BaseException:
            self._let_go()
            raise
        finally:
            self._tables.roll_back()
            self._end()

    def _carry_out(self, part: _Part) -> None:
        part.begin()
        self._part = part
        self._number += 2  # what the rules remember of the last one is asked for here again
        try:
            part.outcome = Outcome(part.job(self))
        except (_Stale, NotYet, Interfered):
            raise
        except Exception as error:
            if isinstance(error, PullcordError) and not part.writes.count:
                part.outcome = Outcome(error=error)
            elif not self._is_stale():
                raise (error if len(self._parts) == 1 else Trouble) from error
            # Else it is repeated, and so are those behind it that see what it has written.

    def _is_stale(self) -> bool:
        """Whether an error may come from looks that do not fit together."""
        return self._locked is None and not self._tables.holds(self._checks())

    def _checks(self) -> Checks:
        checks = Checks(self._versions)
        for part in self._parts:
            checks.eldest |= {t: run for t, run in part.eldest.items() if t not in checks.eldest}
            checks.hooks |= {n: at for n, at in part.hooks.items() if n not in checks.hooks}
            checks.noted = part.noted if checks.noted is None else checks.noted
        return checks

    def _commits(self) -> bool | None:
        """Whether it is committed. None: not yet."""
        if not all(part.outcome for part in self._parts):
            return False  # one has failed on what has changed since
        writes, token = Writes(), secrets.randbits(62) + 1
        for part in self._parts:
            writes.add(part.writes)
        try:
            if not writes.count:
                return self._locked is not None or self._tables.holds(self._checks())
            is_done = self._tables.commit(self._checks(), writes, token)
        except NotYet:
            return None
        self._locked, self._acks, self._eldest = None, {}, {}
        if is_done:
            self._are_kept(writes, token)
        return is_done

    def _are_kept(self, writes: Writes, token: int) -> None:
        for run_id in writes.runs:
            if known := self._known.get(run_id):
                known.version = token
        self._boots |= writes.boots
        if writes.freed:
            self._known.clear()

    # --- doing it again -----------------------------------------------------------------------

    def _lock_everything(self) -> set[str] | None:
        """Lock what was looked at, and return the runs that have changed. None: not yet."""
        try:
            held = self._tables.lock(self._versions)
        except NotYet:
            return None
        return self._take_in(held)

    def _take_in(self, held: HeldRuns) -> set[str]:
        """Note what is locked, and return the runs that are not as they were found."""
        self._locked = self._locked or set()
        self._boots |= held.boots
        self._eldest |= held.eldest
        stale = set[str]()
        for run_id, seen in held.seen.items():
            self._fresh[run_id] = seen, held.contents.get(run_id)
            known, found = self._known.get(run_id), self._versions.get(run_id)
            if found not in (None, seen.version):
                stale.add(run_id)
            elif found is None and (known is None or known.version != seen.version):
                self._restore(run_id)
            elif known is not None:
                known.contents = held.contents.get(run_id)
            self._versions[run_id] = seen.version
            self._locked.add(run_id)
        return stale

    def _repeat(self, stale: set[str]) -> None:
        """Have the jobs repeated that have relied on what has changed, and those that share with
        one of them a run that it has written to. What the others want written is still right."""
        is_for_something_else = not stale and all(part.outcome for part in self._parts)
        repeated, changed = self._parts if is_for_something_else else list[_Part](), set(stale)
        while True:
            changed = changed.union(*(part.writes.runs for part in repeated))
            more = [part for part in self._parts if not part.outcome or part.looked & changed]
            if len(more) <= len(repeated):
                break
            repeated = more
        for part in repeated:
            part.begin()
        for run_id in changed:
            self._restore(run_id)
        self._parts.sort(key=lambda part: not part.outcome)  # their writes come behind the others'

    def _restore(self, run_id: str) -> None:
        """Know a run as it was when it was locked; else it is asked for again."""
        self._known.pop(run_id, None)
        if run_id in self._fresh:
            (head, version), contents = self._fresh[run_id]
            live = list(contents.live) if contents else None
            self._known[run_id] = _Known(head, version, live, contents)

    def _let_go(self) -> None:
        """Unlock everything, and begin from nothing."""
        self._tables.roll_back()
        for run_id in self._versions.keys() | self._written_to():
            self._known.pop(run_id, None)
        for part in self._parts:
            part.begin()
        self._begin_anew()

    def _written_to(self) -> set[str]:
        return set[str]().union(*(part.writes.runs for part in self._parts))

    def _begin_anew(self) -> None:
        self._versions, self._locked = {}, None
        self._fresh, self._acks, self._eldest = {}, {}, {}

    def _end(self) -> None:
        for run_id in self._versions:
            if known := self._known.get(run_id):
                known.contents = None
                if known.head.state not in LIVING:
                    known.live = None
        self._parts, self._part = [], _Part(lambda _: None)
        self._begin_anew()
        while len(self._known) > _KNOWN_RUNS:
            self._known.popitem(last=False)

    # --- looking ------------------------------------------------------------------------------

    def hold(self, *run_ids: str, key: str | None = None) -> None:
        new = [run_id for run_id in run_ids if run_id not in (self._locked or ())]
        if not new:
            return
        also = () if self._locked is not None else tuple(self._versions)
        held = self._tables.lock_families(new, also=also, key=key)
        if key is not None:
            self._acks[new[0], key] = held.ack
        if stale := self._take_in(held):
            raise _Stale(*stale)

    def _look(self, run_id: str) -> _Known | None:
        """The run as it is: from here on the commit depends on that."""
        self._part.looked.add(run_id)
        known = self._known.get(run_id)
        is_mine = known is not None and known.version == NEWBORN
        if self._locked is not None and run_id not in self._locked and not is_mine:
            found = {run_id: known.version if known else NEWBORN}
            if stale := self._take_in(self._tables.lock(found)):
                raise _Stale(*stale)
            known = self._known.get(run_id)
        elif known is None and (seen := self._tables.find(run_id)):
            known = self._known[run_id] = _Known(*seen)
        if known is not None and not is_mine:
            self._versions.setdefault(run_id, known.version)
            self._known.move_to_end(run_id)
        return known

    def head(self, run_id: str) -> Head | None:
        known = self._look(run_id)
        return known.head if known else None

    def eldest(self, thread: str) -> str | None:
        written = {run: head for part in self._parts for run, head in part.writes.heads.items()}
        mine = {run: h for run, h in written.items() if h.thread == thread and not h.parent}
        self._part.looked.update(mine)  # the answer follows from them as well
        ended = [run_id for run_id, head in mine.items() if head.state not in LIVING]
        if thread in self._eldest and not ended:
            found = self._eldest[thread]
        else:
            found = self._tables.eldest(thread, besides=ended)
        self._part.eldest[thread] = self._tables.eldest(thread, besides=()) if ended else found
        younger = (
            run_id
            for run_id, head in mine.items()
            if self._known[run_id].version == NEWBORN and head.state in LIVING
        )
        return found or next(younger, None)

    def rows(self, run_id: str, *, after_seq: int, limit: int) -> list[Row]:
        known = self._look(run_id)
        contents = known.contents if known else None
        mine = [row for part in self._parts for run, row in part.writes.rows if run == run_id]
        first = contents.snapshot.seq if contents and contents.snapshot else 0
        if contents and after_seq >= first:
            found = [row for row in contents.rows if row.seq > after_seq]
        elif mine and after_seq >= mine[0].seq - 1:
            found = []
        else:
            found = self._tables.view.rows(run_id, after_seq=after_seq, limit=limit)
        return [*found, *(row for row in mine if row.seq > after_seq)][:limit]

    def snapshot(self, run_id: str) -> Snapshot | None:
        known = self._look(run_id)
        for part in reversed(self._parts):
            if run_id in part.writes.snapshots:
                return part.writes.snapshots[run_id]
        if known and known.contents:
            return known.contents.snapshot
        return self._tables.view.snapshot(run_id)

    def ack(self, run_id: str, key: str) -> StoredAck | None:
        self._look(run_id)
        for part in reversed(self._parts):
            if (run_id, key) in part.writes.acks:
                return part.writes.acks[run_id, key]
        if (run_id, key) in self._acks:
            return self._acks[run_id, key]
        return self._tables.view.ack(run_id, key)

    def _live(self, run_id: str) -> list[LiveText]:
        known = self._look(run_id)
        if known is None:
            return []
        if known.live is None:
            contents = known.contents
            found = contents.live if contents else self._tables.view.live(run_id, after_pos=0)
            known.live = list(found)
        return known.live

    def live(self, run_id: str, *, after_pos: int) -> list[LiveText]:
        """In a transaction the places of texts are not known: all of them are asked for."""
        assert after_pos == 0
        return list(self._live(run_id))

    def live_said(self, run_id: str, part: str) -> str:
        return "".join(text.text for text in self._live(run_id) if text.part == part)

    def live_end(self, run_id: str, part: str) -> int:
        of_it = (text for text in self._live(run_id) if text.part == part)
        return max((text.offset + len(text.text) for text in of_it), default=0)

    def boot_base(self, boot: str) -> int | None:
        if boot in self._part.writes.boots:  # another job's may be refused: that one is not told
            return self._part.writes.boots[boot]
        if boot not in self._boots:
            found = self._tables.view.boot_base(boot)
            if found is None:
                return None
            self._boots[boot] = found
        return self._boots[boot]

    def hook(self, name: str) -> HookPlace | None:
        for part in reversed(self._parts):
            if name in part.writes.hooks:
                return part.writes.hooks[name]
        found = self._part.hooks[name] = self._tables.hook(name)
        return found

    # What is not about a run, or only a list to begin with, is what the store has committed.

    def beginning_with(self, prefix: str, *, limit: int) -> list[str]:
        return self._tables.view.beginning_with(prefix, limit=limit)

    def heads(
        self, *, states: Iterable[RunState], thread: str | None, before: str | None, limit: int
    ) -> list[Head]:
        return self._tables.view.heads(states=states, thread=thread, before=before, limit=limit)

    def kept(self, *, since: int, limit: int, run: str | None = None) -> list[Kept]:
        return self._tables.view.kept(since=since, limit=limit, run=run)

    def strays(self, *, limit: int) -> list[str]:
        return self._tables.view.strays(limit=limit)

    def claimable(self, *, boot: str, now_s: float, agents: Iterable[str], limit: int) -> list[str]:
        return self._tables.view.claimable(boot=boot, now_s=now_s, agents=agents, limit=limit)

    def due(self, *, agents: Iterable[str], limit: int) -> list[tuple[str, int]]:
        return self._tables.view.due(agents=agents, limit=limit)

    def owners(self) -> list[str]:
        return self._tables.view.owners()

    def tail(
        self, run_id: str, *, after_seq: int, limit: int, after_pos: int | None = None
    ) -> Tail:
        live = [] if after_pos is None else self.live(run_id, after_pos=after_pos)
        return Tail(self.head(run_id), self.rows(run_id, after_seq=after_seq, limit=limit), live)

    def hashes_of(self, records: Sequence[tuple[str, int]]) -> list[bytes | None]:
        return self._tables.view.hashes_of(records)

    def places(self, records: Sequence[tuple[str, int]]) -> list[int]:
        return self._tables.view.places(records)

    def weight(self, run_id: str) -> int:
        return self._tables.view.weight(run_id)

    def stops(self, *, after: int, limit: int, run: str | None = None) -> list[StopRow]:
        if run:
            self._look(run)
        found = self._tables.view.stops(after=after, limit=limit, run=run)
        if run == "":
            self._part.noted = found[-1].n if found else after
        return [*found, *self._new_stops(after, run)][:limit]

    def _new_stops(self, after: int, run: str | None) -> list[StopRow]:
        """What this transaction adds to the log."""
        new = [stop for part in self._parts for stop in part.writes.stops]
        rows: list[StopRow] = []
        last = self._tables.view.stop_head() if new else None
        for stop in new:
            rows.append(behind(last, stop))
            last = rows[-1].n, rows[-1].hash
        return [row for row in rows if row.n > after and run in (None, row.run)]

    def stop_head(self) -> tuple[int, bytes] | None:
        return self._tables.view.stop_head()

    def latest_ms(self) -> int:
        return self._tables.view.latest_ms()

    def position(self) -> tuple[int, int]:
        return self._tables.view.position()

    def committed(self, *, after_pos: int, limit: int) -> list[tuple[int, str, int]]:
        return self._tables.view.committed(after_pos=after_pos, limit=limit)

    def changed(self, since: tuple[int, int]) -> tuple[tuple[int, int], dict[str, int]]:
        return self._tables.view.changed(since)

    # --- writing ------------------------------------------------------------------------------

    def _write(self, run_id: str = "") -> Writes:
        writes = self._part.writes
        writes.count += 1
        if run_id:
            writes.runs[run_id] = None
        return writes

    def put_head(self, head: Head) -> None:
        self._write(head.run_id).heads[head.run_id] = head
        self._part.looked.add(head.run_id)
        if known := self._known.get(head.run_id):
            known.head = head
        else:
            self._known[head.run_id] = _Known(head, NEWBORN, [])

    def free(self, owner: str) -> None:
        self._write().freed.append(owner)

    def add_rows(self, run_id: str, rows: Sequence[Row]) -> None:
        self._write(run_id).rows.extend((run_id, row) for row in rows)
        if rows and (known := self._known.get(run_id)):
            last = rows[-1]
            known.head = msgspec.structs.replace(
                known.head,
                seq=last.seq,
                hash=last.hash,
                updated_at_ms=last.at_ms,
                steady_ms=last.at_ms - (last.drift_ms or 0),
            )

    def add_stop(self, new: NewStop) -> None:
        self._write().stops.append(new)

    def erase(self, run_id: str, digests: Sequence[bytes], *, thread: str) -> None:
        self._write(run_id).erased.append(Erased(run_id, tuple(digests), thread))
        if known := self._known.get(run_id):
            known.head = msgspec.structs.replace(known.head, thread=thread)
            known.contents, known.live = None, []

    def put_boot_base(self, boot: str, base_ms: int) -> None:
        self._write().boots[boot] = base_ms

    def put_hook(self, name: str, place: HookPlace) -> None:
        self._write().hooks[name] = place

    def drop_hook(self, name: str) -> None:
        self._write().hooks[name] = None

    def put_snapshot(self, run_id: str, snapshot: Snapshot) -> None:
        self._write(run_id).snapshots[run_id] = snapshot

    def put_ack(self, run_id: str, key: str, stored: StoredAck) -> None:
        self._write(run_id).acks[run_id, key] = stored

    def add_live(self, run_id: str, part: str, *, offset: int, text: str, after_seq: int) -> None:
        said = LiveText(0, part, offset, text, after_seq)
        self._live(run_id).append(said)
        self._write(run_id).said.append((run_id, said))

    def drop_live(self, run_id: str, part: str) -> None:
        kept = [text for text in self._live(run_id) if text.part != part]
        self._live(run_id)[:] = kept
        writes = self._write(run_id)
        writes.unsaid.append((run_id, part))

    def written(self) -> int:
        return self._part.writes.count

    def number(self) -> int:
        return self._number
