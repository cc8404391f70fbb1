"""A store in memory that several processes write to at the same time, each by a handle of its own.

Its tables do what the PostgreSQL store's do, without waiting: runs have versions, and locks that
last as long as a transaction. So the schedule explorer can place other people's writes anywhere
between what a job has read and its commit, which no real server would repeat.
"""

import threading
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Final, TypeVar, cast

import msgspec

from pullcord.core.states import LIVING
from pullcord.journal.memory_store import Dictionaries, MemoryStore
from pullcord.journal.one_commit import Trouble, alone
from pullcord.journal.optimistic import (
    Attempts,
    Checks,
    Contents,
    HeldRuns,
    Interfered,
    NotYet,
    OptimisticTransaction,
    Seen,
    Writes,
)
from pullcord.journal.store import Head, HookPlace, Job, Outcome, StoredAck, Transaction, View

T = TypeVar("T")
_BREATH_S: Final = 0.0  # whoever waits lets the others go on


class SharedDictionaries(Dictionaries):
    """What is committed, a version of each run, and who has locked what."""

    def __init__(self) -> None:
        super().__init__()
        self.versions: dict[str, int] = {}
        self._locks: dict[tuple[str, str], object] = {}  # by ("run" or "hook", name)

    # --- locks ---

    def wait_for(self, names: Iterable[tuple[str, str]], who: object) -> None:
        """Raises NotYet if somebody else has locked one of these."""
        if any(self._locks.get(name, who) is not who for name in names):
            raise NotYet

    def lock(self, names: Sequence[tuple[str, str]], who: object) -> None:
        """Lock all of these or none."""
        self.wait_for(names, who)
        self._locks |= dict.fromkeys(names, who)

    def unlock(self, who: object) -> None:
        self._locks = {name: by for name, by in self._locks.items() if by is not who}

    # --- what is asked ---

    def seen(self, run_id: str) -> Seen | None:
        head = self.head(run_id)
        return Seen(head, self.versions[run_id]) if head else None

    def contents(self, run_id: str) -> Contents:
        snapshot = self.snapshot(run_id)
        behind = snapshot.seq if snapshot else 0
        rows, live = self._rows[run_id][behind:], self.live(run_id, after_pos=0)
        return Contents(snapshot, rows, live)

    def boots(self) -> dict[str, int]:
        return dict(self._boots)

    def families(self, run_ids: Iterable[str]) -> list[str]:
        """Return the living runs of the families of these."""
        roots = {self._root(run_id) for run_id in run_ids if run_id in self._heads}
        living = (run_id for run_id, head in self._heads.items() if head.state in LIVING)
        return [run_id for run_id in living if self._root(run_id) in roots]

    def _root(self, run_id: str) -> str:
        while (parent := self._heads[run_id].parent) in self._heads:
            run_id = parent
        return run_id

    def eldest_besides(self, thread: str, others: Collection[str]) -> str | None:
        on_it = (h for h in self._heads.values() if h.thread == thread and not h.parent)
        living = (head.run_id for head in on_it if head.state in LIVING)
        return next((run_id for run_id in living if run_id not in others), None)

    def held_by(self, owners: Collection[str]) -> list[str]:
        return [run_id for run_id, head in self._heads.items() if head.holder.owner in owners]

    # --- a commit ---

    def fits(self, checks: Checks, writes: Writes) -> bool:
        """Whether everything is as it was, and nobody has written the same."""
        return (
            self.are_at(checks.versions)
            and self._births_fit(checks, writes)
            and self._rows_fit(writes)
            and self._notes_fit(checks, writes)
            and not writes.acks.keys() & self._acks.keys()
            and not writes.boots.keys() & self._boots.keys()
            and all(self._hooks.get(name) == checks.hooks.get(name) for name in writes.hooks)
        )

    def are_at(self, versions: Mapping[str, int]) -> bool:
        return all(self.versions.get(run_id) == at for run_id, at in versions.items())

    def _births_fit(self, checks: Checks, writes: Writes) -> bool:
        born = [head for run_id, head in writes.heads.items() if run_id not in checks.versions]
        threads = {head.thread for head in born if not head.parent} & checks.eldest.keys()
        threads |= checks.eldest.keys() if writes.erased else set[str]()
        return not any(head.run_id in self._heads for head in born) and all(
            self.eldest(thread) == checks.eldest[thread] for thread in threads
        )

    def _notes_fit(self, checks: Checks, writes: Writes) -> bool:
        notes = (row.n for row in self._stops.values() if not row.run)
        return not writes.stops or checks.noted in (None, max(notes, default=0))

    def _rows_fit(self, writes: Writes) -> bool:
        """Whether no record of that number is there. (A gap would be: PostgreSQL sees none.)"""
        new = [(run_id, row.seq) for run_id, row in writes.rows]
        is_new = all(seq > len(self._rows.get(run_id, ())) for run_id, seq in new)
        return is_new and len(set(new)) == len(new)

    def carry_out(self, writes: Writes, token: int) -> None:
        self.begin()
        for head in writes.heads.values():
            self.put_head(self._kept(head))
        for owner in writes.freed:
            self.versions |= dict.fromkeys(self.held_by([owner]), token)
            self.free(owner)
        self.versions |= dict.fromkeys(writes.runs, token)
        self._add_beside(writes)
        for new in writes.stops:
            self.add_stop(new)
        for run_id, row in writes.rows:
            if run_id in self._heads:
                self.add_rows(run_id, [row])
        for run_id, text in writes.said:
            _, part, offset, said, after_seq = text
            self.add_live(run_id, part, offset=offset, text=said, after_seq=after_seq)
        for run_id, part in writes.unsaid:
            self.drop_live(run_id, part)
        for erased in writes.erased:
            self.erase(erased.run_id, erased.digests, thread=erased.thread)
        super().commit()

    def _kept(self, head: Head) -> Head:
        """A new run's row, or the row of one that is there with what may change in it."""
        if (row := self._heads.get(head.run_id)) is None:
            return head
        state, epoch, holder, due_ms = head.state, head.epoch, head.holder, head.due_ms
        return msgspec.structs.replace(row, state=state, epoch=epoch, holder=holder, due_ms=due_ms)

    def _add_beside(self, writes: Writes) -> None:
        for key, stored in writes.acks.items():
            self.put_ack(*key, stored)
        for run_id, snapshot in writes.snapshots.items():
            self.put_snapshot(run_id, snapshot)
        for boot, base_ms in writes.boots.items():
            self.put_boot_base(boot, base_ms)
        for name, place in writes.hooks.items():
            if place is None:
                self.drop_hook(name)
            else:
                self.put_hook(name, place)


class MemoryTables:
    """See `optimistic.Tables`: those of one process. It never waits: see `NotYet`."""

    def __init__(self, shared: SharedDictionaries) -> None:
        self._shared = shared
        self._is_open = False
        self.between: Callable[[], object] = lambda: None  # called before each question
        self.interferes: Callable[[], bool] = lambda: False  # whether the store gives up on it now
        self.put_off = 0  # refused commits, and waits for a lock under others; not interferences

    @property
    def view(self) -> View:
        self.between()
        return self._shared

    def find(self, run_id: str) -> Seen | None:
        self.between()
        return self._shared.seen(run_id)

    def lock(self, versions: Mapping[str, int]) -> HeldRuns:
        return self._locked(lambda: versions, versions)

    def lock_families(
        self, run_ids: Sequence[str], *, also: Collection[str], key: str | None
    ) -> HeldRuns:
        held = self._locked(lambda: [*self._shared.families(run_ids), *run_ids, *also], {})
        ack = self._ack(run_ids[0], key)
        return held._replace(ack=ack)

    def _ack(self, run_id: str, key: str | None) -> StoredAck | None:
        return None if key is None else self._shared.ack(run_id, key)

    def _locked(self, which: Callable[[], Iterable[str]], known: Mapping[str, int]) -> HeldRuns:
        """Lock all of these that exist, at once, and then ask which they are: one that was born in
        between is found, and is not locked. PostgreSQL's are not either."""
        if self.interferes():
            self.roll_back()
            raise Interfered
        there = [("run", run_id) for run_id in which() if self._shared.seen(run_id)]
        try:
            self._shared.lock(there, self)
        except NotYet:
            self.put_off += self._is_open
            raise
        self._is_open = True
        self.between()
        found = {run_id: seen for run_id in which() if (seen := self._shared.seen(run_id))}
        changed = (run_id for run_id, seen in found.items() if known.get(run_id) != seen.version)
        contents = {run_id: self._shared.contents(run_id) for run_id in changed}
        return HeldRuns(found, contents, boots=self._shared.boots())

    def eldest(self, thread: str, *, besides: Collection[str]) -> str | None:
        self.between()
        return self._shared.eldest_besides(thread, besides)

    def hook(self, name: str) -> HookPlace | None:
        self.between()
        if self._is_open:
            self._shared.lock([("hook", name)], self)
        return self._shared.hook(name)

    def holds(self, checks: Checks) -> bool:
        self.between()
        return self._shared.are_at(checks.versions)

    def commit(self, checks: Checks, writes: Writes, token: int) -> bool:
        touched = {*checks.versions, *self._shared.held_by(writes.freed)}
        rows = [("run", run_id) for run_id in touched] + [("hook", name) for name in writes.hooks]
        self._shared.wait_for(rows, self)
        if self.interferes():
            self.roll_back()
            return False
        is_done = self._shared.fits(checks, writes)
        if is_done:
            self._shared.carry_out(writes, token)
        self.put_off += not is_done
        self.roll_back()
        return is_done

    def roll_back(self) -> None:
        self._shared.unlock(self)
        self._is_open = False


class SharedMemoryStore(MemoryStore):
    """One process's handle of a store in memory. `another` is the next process's.

    A transaction runs step by step in `attempts`; `write` goes through all of them at once.
    """

    def __init__(self, beside: "SharedMemoryStore | None" = None) -> None:
        """`beside`: a handle of the same store."""
        super().__init__()
        self._shared = beside._shared if beside else SharedDictionaries()
        self._tables = self._shared
        if beside:
            self.clock, self._turn = beside.clock, beside._turn
            self._listeners = beside._listeners
        self.mine = MemoryTables(self._shared)
        self._transaction = OptimisticTransaction(self.mine)
        self._writing = threading.Lock()

    def another(self) -> "SharedMemoryStore":
        return SharedMemoryStore(self)

    def attempts(self, jobs: Sequence[Job]) -> Attempts:
        """See `OptimisticTransaction.attempts`."""
        return self._transaction.attempts(jobs)

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
        except BaseException as error:
            return [Outcome(error=error) for _ in jobs]

    def _carried_out(self, jobs: Sequence[Job]) -> list[Outcome]:
        with self._writing:
            attempts = self.attempts(jobs)
            while True:
                with self._turn:
                    try:
                        next(attempts)
                    except StopIteration as done:
                        return done.value
                time.sleep(_BREATH_S)
