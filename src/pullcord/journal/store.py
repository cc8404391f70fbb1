"""The interface of a storage backend: transactions over a few plain rows. It decides nothing.

The ledger has every rule: compare-and-set, epochs, controls, leases, the hash chain. Rules run
inside the transactions that a store provides. `pullcord.testing.journal_contract` checks a store.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from pullcord.core.states import RunState
from pullcord.journal.chain import Row
from pullcord.journal.clock import Clock

T = TypeVar("T")
Scrubbed: TypeAlias = Literal["gone", "held", "traces", "logged"]
"""`gone`: the files hold nothing of what was deleted. `held`: not yet, because a reader still reads
an older state. `traces`: stray copies may remain, and the store is too large to rewrite in passing.
`logged`: the tables hold nothing; logs and copies of the database server are out of reach.
"""
INLINE_MAX_BYTES: Final = 16 * 1024


class Holder(NamedTuple):
    """The owner of a run, and the end of its lease on the clock of a boot.

    `from_s` is the owner's last sign of life. An empty owner: the run has none.
    """

    owner: str = ""
    boot: str = ""
    until_s: float = 0.0
    from_s: float = 0.0


class Head(msgspec.Struct, frozen=True):
    """The end of a run's journal.

    A store keeps one row per run, which most appends leave unchanged. `seq`, `hash` and
    `updated_at_ms` come from the last record.
    """

    run_id: str
    agent: str
    thread: str
    parent: str | None
    created_at_ms: int
    state: RunState
    epoch: int
    holder: Holder
    seq: int
    hash: bytes
    updated_at_ms: int
    due_ms: int = 0  # when its next timer is due, by the steady clock; 0: no timer
    steady_ms: int = 0  # time of the last record, by the clock that never jumps


class LiveText(NamedTuple):
    """Text shown before its part has ended. `pos` only grows; `after_seq` places it."""

    pos: int
    part: str
    offset: int
    text: str
    after_seq: int


class Tail(NamedTuple):
    """The end of a run: its head, its last rows, and its live text. No head: there is no run."""

    head: Head | None
    rows: list[Row]
    live: list[LiveText]


def joined(texts: Iterable[LiveText]) -> dict[str, str]:
    """Return the text of each part so far."""
    said: dict[str, str] = {}
    for text in texts:
        said[text.part] = said.get(text.part, "") + text.text
    return said


class StoredAck(NamedTuple):
    """The answer once given under an idempotency key, and the digest of that command."""

    digest: bytes
    ack: bytes


class Snapshot(NamedTuple):
    """A cache: the run folded up to `seq`. Valid only if `hash` is that record's hash."""

    seq: int
    hash: bytes
    format: int
    data: bytes


class StopRow(NamedTuple):
    """A stored entry of the stop log. `payload` is None after retention has deleted it."""

    n: int  # 1, 2, 3, ...: over all runs
    run: str  # "": it concerns no run
    at_ms: int  # wall clock at the time
    payload: bytes | None
    digest: bytes  # of the payload
    hash: bytes  # chained to the entry before


class NewStop(NamedTuple):
    """An entry for the end of the stop log. The store gives it its number and its hash."""

    run: str
    at_ms: int
    payload: bytes
    digest: bytes


class Kept(NamedTuple):
    """A run's stored row, for checks. Nothing in it is trusted."""

    place: int  # in the order of creation
    run_id: str
    agent: str
    thread: str
    parent: str | None
    state: str
    epoch: int


class HookPlace(NamedTuple):
    """A hook's place in the order of commit over all runs, and the process that serves the hook."""

    pos: int
    holder: Holder = Holder()


class View(Protocol):
    """A consistent read of the store."""

    def head(self, run_id: str) -> Head | None: ...
    def beginning_with(self, prefix: str, *, limit: int) -> list[str]:
        """Return the ids of runs with this prefix, in order."""
        ...

    def heads(
        self, *, states: Iterable[RunState], thread: str | None, before: str | None, limit: int
    ) -> list[Head]:
        """Return heads newest first, of runs made before `before`. Cheap with any number."""
        ...

    def kept(self, *, since: int, limit: int, run: str | None = None) -> list[Kept]:
        """Return every run from that place on, or this one, even if its row is damaged."""
        ...

    def strays(self, *, limit: int) -> list[str]:
        """Return runs that have records but no row, by the remains of their names."""
        ...

    def claimable(self, *, boot: str, now_s: float, agents: Iterable[str], limit: int) -> list[str]:
        """Return runs of these agents that need an owner, and whose lease is free or has lapsed.

        Of a thread only the oldest living run counts. Children always count, because they work for
        a run.
        """
        ...

    def eldest(self, thread: str) -> str | None:
        """Return the first run on this thread that has not ended and is no child."""
        ...

    def due(self, *, agents: Iterable[str], limit: int) -> list[tuple[str, int]]:
        """Return runs of these agents that have a timer, with its due time, soonest first."""
        ...

    def owners(self) -> list[str]:
        """Return every owner of a run."""
        ...

    def rows(self, run_id: str, *, after_seq: int, limit: int) -> list[Row]: ...
    def tail(
        self, run_id: str, *, after_seq: int, limit: int, after_pos: int | None = None
    ) -> Tail:
        """Return a run's head with its rows after a record, and its live text after a place.

        All at once: over a network that is one way there and back. `after_pos` None: no text.
        """
        ...

    def hashes_of(self, records: Sequence[tuple[str, int]]) -> list[bytes | None]:
        """Return the hash of each of these records (run, number). None: there is no such record."""
        ...

    def places(self, records: Sequence[tuple[str, int]]) -> list[int]:
        """Return each record's place in the order of commit over all runs. 0: it is missing."""
        ...

    def weight(self, run_id: str) -> int:
        """Return the size of the run's payloads in bytes."""
        ...

    def snapshot(self, run_id: str) -> Snapshot | None: ...
    def ack(self, run_id: str, key: str) -> StoredAck | None: ...
    def live(self, run_id: str, *, after_pos: int) -> list[LiveText]: ...
    def live_said(self, run_id: str, part: str) -> str:
        """Return all live text of this part. Fast, however many pieces it has."""
        ...

    def live_end(self, run_id: str, part: str) -> int:
        """Return how many characters of live text this part has."""
        ...

    def stops(self, *, after: int, limit: int, run: str | None = None) -> list[StopRow]:
        """Return the stop log's entries after this one, in order, or only those about `run`."""
        ...

    def stop_head(self) -> tuple[int, bytes] | None:
        """Return the number and the hash of the last entry of the stop log."""
        ...

    def boot_base(self, boot: str) -> int | None:
        """Return the steady clock's value at time 0 of this boot's clock. None: not known yet."""
        ...

    def latest_ms(self) -> int:
        """Return the latest steady time in any record. Reads all of them."""
        ...

    def position(self) -> tuple[int, int]:
        """Return the current end of the store: a mark for `changed`."""
        ...

    def hook(self, name: str) -> HookPlace | None: ...
    def committed(self, *, after_pos: int, limit: int) -> list[tuple[int, str, int]]:
        """Return the records after that place in the order of commit over all runs.

        Each has its place, its run and its number. The first part of `position` is the last place.
        """
        ...

    def changed(self, since: tuple[int, int]) -> tuple[tuple[int, int], dict[str, int]]:
        """Return the current mark, and each run with records or text since the given mark.

        Each run has the number of its last record.
        """
        ...


class Transaction(View, Protocol):
    """A read of the store that can change it. All of it commits, or none of it."""

    def hold(self, *run_ids: str, key: str | None = None) -> None:
        """Let nobody else write to these runs and the living ones of their families until the end.

        Whoever decides on runs that another process drives calls this before it reads. `key`: of
        the command that is decided. A store with one writer at a time has nothing to do.
        """
        ...

    def put_head(self, head: Head) -> None:
        """Write the row of a new run, or a run's new state, epoch, holder and timer."""
        ...

    def free(self, owner: str) -> None:
        """Clear this owner from every run that it holds."""
        ...

    def add_rows(self, run_id: str, rows: Sequence[Row]) -> None:
        """Write records. Payloads over `INLINE_MAX_BYTES` are stored once, by digest."""
        ...

    def add_stop(self, new: NewStop) -> None:
        """Write this behind the last entry of the stop log. See `evidence.stoplog.behind`."""
        ...

    def erase(self, run_id: str, digests: Sequence[bytes], *, thread: str) -> None:
        """Delete the payloads of a run's first records, and keep a digest in the place of each.

        It also deletes everything made of them: snapshot, acks, live text, blobs that no other
        record refers to, and the run's text in the stop log. The run then belongs to `thread`.
        """
        ...

    def put_boot_base(self, boot: str, base_ms: int) -> None: ...
    def put_hook(self, name: str, place: HookPlace) -> None: ...
    def drop_hook(self, name: str) -> None: ...
    def put_snapshot(self, run_id: str, snapshot: Snapshot) -> None: ...
    def put_ack(self, run_id: str, key: str, stored: StoredAck) -> None: ...
    def add_live(
        self, run_id: str, part: str, *, offset: int, text: str, after_seq: int
    ) -> None: ...
    def drop_live(self, run_id: str, part: str) -> None: ...
    def written(self) -> int:
        """Return a number that grows with every row written. Equal numbers: nothing was written."""
        ...

    def number(self) -> int:
        """Return the number of this transaction.

        It is one more than the last one's only if nothing came between them: no other process's
        commit and no rollback. Data read in the last one is then still true. A store with several
        writers at a time checks at the commit what a transaction has read, and never promises that.
        """
        ...


class Named(dict[str, int]):
    """Runs that a listener has heard of by name, with the numbers of their last records.

    `going_on`: those of which it has also heard that no other process has to take them up for that.
    """

    going_on: frozenset[str] = frozenset()


class Listener(Protocol):
    """Hears that the store has changed, in this process or another. One thread uses it."""

    def wait(self, timeout_s: float) -> bool:
        """Return True soon after any commit, False after `timeout_s` without one."""
        ...

    def named(self) -> Named:
        """Return the runs that `wait` has heard of. Empty: only that something has changed."""
        ...

    def wake(self) -> None:
        """Make `wait` return now. Any thread may call it."""
        ...

    def close(self) -> None: ...


Job: TypeAlias = Callable[[Transaction], object]


class Outcome(NamedTuple):
    """What became of a job: its result, or the error that it ended with."""

    result: object = None
    error: BaseException | None = None


class Store(Protocol):
    """A storage backend. Every method is synchronous, and any thread may call it.

    Raises (from each of them):
        StorageFailed: the storage below failed. Nothing of it is acknowledged or visible. (After a
            failed sync and a power cut, a store may still have the whole transaction. Sending it
            again with the same key is always right.)
    """

    @property
    def name(self) -> str:
        """The store's name for people: a path or a database name. It holds no secret."""
        ...

    @property
    def beside(self) -> str:
        """The path prefix of the files beside the store on this machine. Empty: it has none.

        These are the kill switch, the anchor and the side folder.
        """
        ...

    @property
    def clock(self) -> Clock:
        """The clock of its leases, the same for every process that can open it."""
        ...

    @property
    def readers(self) -> int:
        """How many threads of a process may well read at once."""
        ...

    def write(self, job: Callable[[Transaction], T]) -> T:
        """Run `job` as if it was alone in the store, and return its result once it is durable.

        If `job` raises, nothing is written. A store with several writers at a time may run it
        again, if others have changed meanwhile what it had read.
        """
        ...

    def write_each(self, jobs: Sequence[Job]) -> list[Outcome]:
        """Run these jobs in one commit, and return what became of each once that is durable.

        A job that is refused has no part in the commit. See `one_commit`.
        """
        ...

    def read(self, job: Callable[[View], T]) -> T:
        """Run `job` on a consistent read of the store, while others write."""
        ...

    def scrub(self, *, rewrite: bool = False) -> Scrubbed:
        """Make deleted content unreadable in the files. `rewrite`: even if writers have to wait."""
        ...

    def listen(self) -> Listener: ...
    def poke(self) -> None:
        """Wake every listener, in every process."""
        ...

    def close(self) -> None: ...
