"""What a storage backend has to be: transactions over a few plain rows. It decides nothing.

Every rule — compare-and-set, epochs, controls, leases, the hash chain — lives once, in `ledger`,
and runs inside the transactions a store provides. `pullcord.testing.journal_contract` checks one.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

import msgspec

from pullcord.core.states import RunState
from pullcord.journal.chain import Row
from pullcord.journal.clock import Clock

T = TypeVar("T")
Scrubbed: TypeAlias = Literal["gone", "held", "traces", "logged"]
"""`gone`: nothing deleted is left in the files. `held`: not yet, somebody reads what was before.
`traces`: stray copies may be left, and the store is too large to be written anew by the way.
`logged`: nothing is left in the tables; what a server has logged or copied is out of reach."""
INLINE_MAX_BYTES: Final = 16 * 1024


class Holder(NamedTuple):
    """Who holds a run, and until when on the clock of which boot; and since when, which is the
    owner's last sign of life. No owner: nobody, any more."""

    owner: str = ""
    boot: str = ""
    until_s: float = 0.0
    from_s: float = 0.0


class Head(msgspec.Struct, frozen=True):
    """The end of a run's journal. What is kept of it is one row per run, which most appends
    leave alone: `seq`, `hash` and `updated_at_ms` are those of the last record, and read there."""

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
    due_ms: int = 0  # by the steady clock, when a timer of it is due; 0: it has none
    steady_ms: int = 0  # of the last record, on the clock that never jumps


class LiveText(NamedTuple):
    """Text shown before its part has ended. `pos` only ever grows; `after_seq` places it."""

    pos: int
    part: str
    offset: int
    text: str
    after_seq: int


def joined(texts: Iterable[LiveText]) -> dict[str, str]:
    """What was said in each part so far."""
    said: dict[str, str] = {}
    for text in texts:
        said[text.part] = said.get(text.part, "") + text.text
    return said


class StoredAck(NamedTuple):
    """The answer once given under an idempotency key, and the digest of what was asked."""

    digest: bytes
    ack: bytes


class Snapshot(NamedTuple):
    """A cache: the run folded up to `seq`. Worth nothing unless `hash` is that record's hash."""

    seq: int
    hash: bytes
    format: int
    data: bytes


class StopRow(NamedTuple):
    """An entry of the stop log as it is stored. `payload` is None once retention has deleted it."""

    n: int  # 1, 2, 3, ...: over all runs
    run: str  # "": it is about no run
    at_ms: int  # the wall clock, as it was
    payload: bytes | None
    digest: bytes  # of the payload
    hash: bytes  # follows from the entry before


class Kept(NamedTuple):
    """A run's row as it lies there, for who checks it: nothing in it is believed."""

    place: int  # in the order of creation
    run_id: str
    agent: str
    thread: str
    parent: str | None
    state: str
    epoch: int


class HookPlace(NamedTuple):
    """How far a hook was told, in the order of commit over all runs, and who is telling it."""

    pos: int
    holder: Holder = Holder()


class View(Protocol):
    """A consistent look at the store."""

    def head(self, run_id: str) -> Head | None: ...
    def beginning_with(self, prefix: str, *, limit: int) -> list[str]:
        """The ids of runs that begin like this, in order."""
        ...

    def heads(
        self, *, states: Iterable[RunState], thread: str | None, before: str | None, limit: int
    ) -> list[Head]:
        """Newest first, made before the run `before`. Cheap, whatever the number of runs."""
        ...

    def kept(self, *, since: int, limit: int, run: str | None = None) -> list[Kept]:
        """Every run that there is, whatever its row says of it, from that place on; or this one."""
        ...

    def strays(self, *, limit: int) -> list[str]:
        """Runs of which there are records and no row, by whatever is left of their names."""
        ...

    def claimable(self, *, boot: str, now_s: float, agents: Iterable[str], limit: int) -> list[str]:
        """Runs of these agents that need an owner and whose lease is free or has lapsed; of a
        thread only the eldest living one, and children, which work for one."""
        ...

    def eldest(self, thread: str) -> str | None:
        """Of the runs on this thread that nobody spawned and that have not ended, the first."""
        ...

    def due(self, *, agents: Iterable[str], limit: int) -> list[tuple[str, int]]:
        """Runs of these agents with a timer, and when it is due, soonest first."""
        ...

    def owners(self) -> list[str]:
        """Everybody who is noted as holding a run."""
        ...

    def rows(self, run_id: str, *, after_seq: int, limit: int) -> list[Row]: ...
    def hashes_of(self, records: Sequence[tuple[str, int]]) -> list[bytes | None]:
        """The hash of each of these: a run, and the number of its record. None: it is not there."""
        ...

    def places(self, records: Sequence[tuple[str, int]]) -> list[int]:
        """The place of each of these in the order of commit over all runs. 0: it is not there."""
        ...

    def weight(self, run_id: str) -> int:
        """How many bytes the payloads of this run have."""
        ...

    def snapshot(self, run_id: str) -> Snapshot | None: ...
    def ack(self, run_id: str, key: str) -> StoredAck | None: ...
    def live(self, run_id: str, *, after_pos: int) -> list[LiveText]: ...
    def live_said(self, run_id: str, part: str) -> str:
        """All live text of this part. However many pieces it came in, this is quick."""
        ...

    def live_end(self, run_id: str, part: str) -> int:
        """How many characters of this part are kept as live text."""
        ...

    def stops(self, *, after: int, limit: int, run: str | None = None) -> list[StopRow]:
        """The stop log after this entry, in order; with `run`, only what is about it."""
        ...

    def stop_head(self) -> tuple[int, bytes] | None:
        """The number and the hash of its last entry."""
        ...

    def boot_base(self, boot: str) -> int | None:
        """What the steady clock shows when the clock of this boot shows 0, once that is known."""
        ...

    def latest_ms(self) -> int:
        """The latest that the steady clock has shown in any record. Looks at all of them."""
        ...

    def position(self) -> tuple[int, int]:
        """Where the store ends now: a mark for `changed`."""
        ...

    def hook(self, name: str) -> HookPlace | None: ...
    def committed(self, *, after_pos: int, limit: int) -> list[tuple[int, str, int]]:
        """The records after that place in the order of commit over all runs: the place, the run
        and the number of each. The first part of `position` is the last place."""
        ...

    def changed(self, since: tuple[int, int]) -> tuple[tuple[int, int], dict[str, int]]:
        """The runs with new records or text since that mark, each with the number of its last
        record; and the mark now."""
        ...


class Transaction(View, Protocol):
    """A look at the store that can change it. All of it commits, or none of it."""

    def put_head(self, head: Head) -> None:
        """Keep a new run, or an old one's state, epoch, holder and timer."""
        ...

    def free(self, owner: str) -> None:
        """Nobody holds what this owner held."""
        ...

    def add_rows(self, run_id: str, rows: Sequence[Row]) -> None:
        """Payloads over `INLINE_MAX_BYTES` are kept once, by digest, in the same transaction."""
        ...

    def add_stop(self, row: StopRow) -> None: ...
    def erase(self, run_id: str, digests: Sequence[bytes], *, thread: str) -> None:
        """Delete the payloads of the first records of a run, one for each digest, which is kept in
        its place; with them what was made of them: snapshot, acks, live text, blobs that no other
        record refers to, and what the stop log says of the run. It is on `thread` from now on."""
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
        """Grows with every row written. The same before and after: nothing was."""
        ...

    def number(self) -> int:
        """The number of this transaction: one more than the last one's only if nothing came
        between them, neither another process's commit nor a rollback. What was read in the last
        one is then still true."""
        ...


class Listener(Protocol):
    """Hears that the store has changed, in this process or another. Used by one thread."""

    def wait(self, timeout_s: float) -> bool:
        """Return True soon after a commit by anybody; False after `timeout_s` without one."""
        ...

    def wake(self) -> None:
        """Make `wait` return now. Callable from any thread."""
        ...

    def close(self) -> None: ...


class Store(Protocol):
    """A backend. Every method is synchronous and may be called from any thread.

    Raises (from each of them):
        StorageFailed: the storage below did not do it. Nothing of it is acknowledged or visible.
            (After a failed sync, a machine that dies before the next write may still find the
            transaction there, whole: sending it again with the same key is always right.)
    """

    @property
    def name(self) -> str:
        """How people know it: a path, a database name. No secret is in it."""
        ...

    @property
    def beside(self) -> str:
        """The path with which the names of what lies beside it on this machine begin: the kill
        switch, the anchor, the side folder. Empty: it has none of these."""
        ...

    @property
    def clock(self) -> Clock:
        """The clock that its leases run on: the same for everybody who can open it."""
        ...

    def write(self, job: Callable[[Transaction], T]) -> T:
        """Carry out `job` alone in the store and return its result once that is durable.

        If `job` raises, nothing of it is written.
        """
        ...

    def read(self, job: Callable[[View], T]) -> T:
        """Carry out `job` on a consistent look at the store, while others write."""
        ...

    def scrub(self, *, rewrite: bool = False) -> Scrubbed:
        """See to it that nothing which was deleted can be read in the files any more. `rewrite`:
        also if that takes a while, in which nobody else can write."""
        ...

    def listen(self) -> Listener: ...
    def poke(self) -> None:
        """Tell every listener, in every process, that there is something to read."""
        ...

    def close(self) -> None: ...
