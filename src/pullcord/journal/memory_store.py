"""A store in memory: for tests, examples and runs that need not outlive the process."""

import threading
from collections.abc import Callable, Iterable, MutableMapping, Sequence
from itertools import islice
from typing import TypeVar

import msgspec

from pullcord.core.states import LIVING, NEEDS_OWNER, RunState
from pullcord.journal.chain import Row
from pullcord.journal.clock import Clock, SystemClock
from pullcord.journal.evidence.stoplog import behind
from pullcord.journal.one_commit import in_one_commit
from pullcord.journal.store import (
    Head,
    HookPlace,
    Job,
    Kept,
    LiveText,
    Named,
    NewStop,
    Outcome,
    Scrubbed,
    Snapshot,
    StopRow,
    StoredAck,
    Tail,
    Transaction,
    View,
)

T = TypeVar("T")
_K = TypeVar("_K")
_V = TypeVar("_V")


class MemoryStore:
    """Plain dictionaries under one lock; a transaction that fails takes its changes back."""

    name, beside, readers = "memory", "", 2

    def __init__(self) -> None:
        self.clock: Clock = SystemClock()
        self._tables = Dictionaries()
        self._turn = threading.RLock()
        self._listeners: list[_MemoryListener] = []

    def write(self, job: Callable[[Transaction], T]) -> T:
        with self._turn:
            self._tables.begin()
            result = self._tables.attempt(lambda: job(self._tables))
            self._tables.commit()
            return result

    def write_each(self, jobs: Sequence[Job]) -> list[Outcome]:
        return in_one_commit(self.write, jobs)

    def read(self, job: Callable[[View], T]) -> T:
        with self._turn:
            return job(self._tables)

    def scrub(self, *, rewrite: bool = False) -> Scrubbed:
        return "gone"

    def listen(self) -> "_MemoryListener":
        listener = _MemoryListener(self._listeners)
        self._listeners.append(listener)
        return listener

    def poke(self) -> None:
        for listener in list(self._listeners):
            listener.wake()

    def close(self) -> None:
        self.poke()


class _MemoryListener:
    def __init__(self, among: "list[_MemoryListener]") -> None:
        self._poked = threading.Event()
        self._among = among

    def wait(self, timeout_s: float) -> bool:
        heard = self._poked.wait(timeout_s)
        if heard:  # else a poke that comes just now would be wiped away unheard
            self._poked.clear()
        return heard

    def named(self) -> Named:
        return Named()

    def wake(self) -> None:
        self._poked.set()

    def close(self) -> None:
        if self in self._among:
            self._among.remove(self)


class Dictionaries:
    """Everything that a store has, and a transaction that is alone with it."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []
        self._heads: dict[str, Head] = {}
        self._rows: dict[str, list[Row]] = {}
        self._snapshots: dict[str, Snapshot] = {}
        self._acks: dict[tuple[str, str], StoredAck] = {}
        self._live: dict[str, tuple[LiveText, ...]] = {}
        self._boots: dict[str, int] = {}
        self._stops: dict[int, StopRow] = {}
        self._hooks: dict[str, HookPlace] = {}
        self._log: list[tuple[str, int]] = []  # the run and number of each record, as committed
        self._texts = 0
        self._number = 0

    def commit(self) -> None:
        self._undo.clear()

    def begin(self) -> None:
        self._number += 1

    def attempt(self, job: Callable[[], T]) -> T:
        mark = len(self._undo)
        try:
            return job()
        except BaseException:
            while len(self._undo) > mark:
                self._undo.pop()()
            self._number += 1
            raise

    def written(self) -> int:
        return len(self._undo)

    def number(self) -> int:
        return self._number

    def _put(self, table: MutableMapping[_K, _V], key: _K, value: _V) -> None:
        if key in table:
            before = table[key]
            self._undo.append(lambda: table.__setitem__(key, before))
        else:
            self._undo.append(lambda: table.pop(key))
        table[key] = value

    def _drop(self, table: MutableMapping[_K, _V], key: _K) -> None:
        if key in table:
            before = table.pop(key)
            self._undo.append(lambda: table.__setitem__(key, before))

    # --- View ---

    def head(self, run_id: str) -> Head | None:
        kept = self._heads.get(run_id)
        if kept is None:
            return None
        last = self._rows[run_id][-1]
        return msgspec.structs.replace(
            kept,
            seq=last.seq,
            hash=last.hash,
            updated_at_ms=last.at_ms,
            steady_ms=last.at_ms - (last.drift_ms or 0),
        )

    def beginning_with(self, prefix: str, *, limit: int) -> list[str]:
        return sorted(run for run in self._heads if run.startswith(prefix))[:limit]

    def heads(
        self, *, states: Iterable[RunState], thread: str | None, before: str | None, limit: int
    ) -> list[Head]:
        wanted = frozenset(states)
        runs = list(self._heads)
        older = runs[: runs.index(before)] if before in self._heads else runs
        found = (self.head(run) for run in reversed(older))
        matching = (h for h in found if h and h.state in wanted and thread in (None, h.thread))
        return list(islice(matching, limit))

    def kept(self, *, since: int, limit: int, run: str | None = None) -> list[Kept]:
        all_of_them = (
            Kept(n, head.run_id, head.agent, head.thread, head.parent, head.state, head.epoch)
            for n, head in enumerate(self._heads.values(), 1)
        )
        wanted = (
            kept for kept in all_of_them if kept.place >= since and run in (None, kept.run_id)
        )
        return list(islice(wanted, limit))

    def strays(self, *, limit: int) -> list[str]:
        return [run for run, rows in self._rows.items() if rows and run not in self._heads][:limit]

    def claimable(self, *, boot: str, now_s: float, agents: Iterable[str], limit: int) -> list[str]:
        known = frozenset(agents)
        return [
            head.run_id
            for head in self._heads.values()
            if head.state in NEEDS_OWNER
            and head.agent in known
            and (head.holder.boot != boot or head.holder.until_s <= now_s)
            and (head.parent or self.eldest(head.thread) == head.run_id)
        ][:limit]

    def eldest(self, thread: str) -> str | None:
        on_it = (h for h in self._heads.values() if h.thread == thread and not h.parent)
        return next((head.run_id for head in on_it if head.state in LIVING), None)

    def due(self, *, agents: Iterable[str], limit: int) -> list[tuple[str, int]]:
        known = frozenset(agents)
        timed = [h for h in self._heads.values() if h.due_ms and h.agent in known]
        timed.sort(key=lambda head: head.due_ms)
        return [(head.run_id, head.due_ms) for head in timed[:limit]]

    def owners(self) -> list[str]:
        return sorted({h.holder.owner for h in self._heads.values() if h.holder.owner})

    def rows(self, run_id: str, *, after_seq: int, limit: int) -> list[Row]:
        return self._rows.get(run_id, [])[after_seq : after_seq + limit]

    def tail(
        self, run_id: str, *, after_seq: int, limit: int, after_pos: int | None = None
    ) -> Tail:
        live = [] if after_pos is None else self.live(run_id, after_pos=after_pos)
        return Tail(self.head(run_id), self.rows(run_id, after_seq=after_seq, limit=limit), live)

    def hashes_of(self, records: Sequence[tuple[str, int]]) -> list[bytes | None]:
        found = [self.rows(run_id, after_seq=seq - 1, limit=1) for run_id, seq in records]
        return [rows[0].hash if rows else None for rows in found]

    def places(self, records: Sequence[tuple[str, int]]) -> list[int]:
        known = {record: place for place, record in enumerate(self._log, 1)}
        return [known.get((run_id, seq), 0) for run_id, seq in records]

    def weight(self, run_id: str) -> int:
        return sum(len(row.payload or b"") for row in self._rows.get(run_id, ()))

    def snapshot(self, run_id: str) -> Snapshot | None:
        return self._snapshots.get(run_id)

    def ack(self, run_id: str, key: str) -> StoredAck | None:
        return self._acks.get((run_id, key))

    def live(self, run_id: str, *, after_pos: int) -> list[LiveText]:
        return [text for text in self._live.get(run_id, ()) if text.pos > after_pos]

    def live_said(self, run_id: str, part: str) -> str:
        return "".join(text.text for text in self._live.get(run_id, ()) if text.part == part)

    def live_end(self, run_id: str, part: str) -> int:
        return len(self.live_said(run_id, part))

    def stops(self, *, after: int, limit: int, run: str | None = None) -> list[StopRow]:
        later = (row for row in self._stops.values() if row.n > after and run in (None, row.run))
        return list(islice(later, limit))

    def stop_head(self) -> tuple[int, bytes] | None:
        last = len(self._stops)
        return (last, self._stops[last].hash) if last else None

    def boot_base(self, boot: str) -> int | None:
        return self._boots.get(boot)

    def latest_ms(self) -> int:
        rows = (row for run in self._rows.values() for row in run)
        return max((row.at_ms - (row.drift_ms or 0) for row in rows), default=0)

    def hook(self, name: str) -> HookPlace | None:
        return self._hooks.get(name)

    def committed(self, *, after_pos: int, limit: int) -> list[tuple[int, str, int]]:
        found = self._log[after_pos : after_pos + limit]
        return [(after_pos + n, *row) for n, row in enumerate(found, 1)]

    def position(self) -> tuple[int, int]:
        return len(self._log), self._texts

    def changed(self, since: tuple[int, int]) -> tuple[tuple[int, int], dict[str, int]]:
        runs = {run_id for run_id, _ in self._log[since[0] :]}
        runs |= {r for r, texts in self._live.items() if texts and texts[-1].pos > since[1]}
        return self.position(), {run_id: len(self._rows.get(run_id, ())) for run_id in runs}

    # --- Transaction ---

    def put_head(self, head: Head) -> None:
        self._put(self._heads, head.run_id, head)

    def free(self, owner: str) -> None:
        for head in list(self._heads.values()):
            if head.holder.owner == owner:
                let_go = head.holder._replace(owner="", until_s=0.0)
                self.put_head(msgspec.structs.replace(head, holder=let_go))

    def add_rows(self, run_id: str, rows: Sequence[Row]) -> None:
        mine = self._rows.setdefault(run_id, [])
        length, log_length = len(mine), len(self._log)
        self._undo.append(lambda: mine.__delitem__(slice(length, None)))
        self._undo.append(lambda: self._log.__delitem__(slice(log_length, None)))
        mine.extend(rows)
        self._log.extend((run_id, row.seq) for row in rows)

    def hold(self, *run_ids: str, key: str | None = None) -> None:
        """Nothing to do: this transaction is alone in the store."""

    def add_stop(self, new: NewStop) -> None:
        row = behind(self.stop_head(), new)
        self._put(self._stops, row.n, row)

    def erase(self, run_id: str, digests: Sequence[bytes], *, thread: str) -> None:
        mine = self._rows[run_id]
        pairs = zip(mine, digests, strict=False)  # there is one record more: the one that says so
        left = [row._replace(payload=None, digest=digest) for row, digest in pairs]
        self._put(self._rows, run_id, left + mine[len(left) :])
        self._drop(self._snapshots, run_id)
        self._drop(self._live, run_id)
        for key in [key for key in self._acks if key[0] == run_id]:
            self._drop(self._acks, key)
        for n, row in list(self._stops.items()):
            if row.run == run_id:
                self._put(self._stops, n, row._replace(payload=None))
        self.put_head(msgspec.structs.replace(self._heads[run_id], thread=thread))

    def put_boot_base(self, boot: str, base_ms: int) -> None:
        self._put(self._boots, boot, base_ms)

    def put_hook(self, name: str, place: HookPlace) -> None:
        self._put(self._hooks, name, place)

    def drop_hook(self, name: str) -> None:
        self._drop(self._hooks, name)

    def put_snapshot(self, run_id: str, snapshot: Snapshot) -> None:
        self._put(self._snapshots, run_id, snapshot)

    def put_ack(self, run_id: str, key: str, stored: StoredAck) -> None:
        self._put(self._acks, (run_id, key), stored)

    def add_live(self, run_id: str, part: str, *, offset: int, text: str, after_seq: int) -> None:
        self._texts += 1  # not taken back: positions need not be dense, only growing
        new = LiveText(self._texts, part, offset, text, after_seq)
        self._put(self._live, run_id, (*self._live.get(run_id, ()), new))

    def drop_live(self, run_id: str, part: str) -> None:
        kept = tuple(text for text in self._live.get(run_id, ()) if text.part != part)
        self._put(self._live, run_id, kept)
