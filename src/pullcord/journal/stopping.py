"""A stop takes hold of a run that no process drives: the steps of it, in order.

The journal performs them from an event loop, a command of the terminal without one. Each step is a
write, a read, or work outside of any transaction: the warden of the owner before has to be asked,
and what a dead owner has left has to end, before the record may say that the run is at rest.
"""

from collections.abc import Callable, Collection, Generator, Iterable, Mapping, Sequence
from math import inf
from time import monotonic
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

import msgspec

from pullcord.core.acks import Ack
from pullcord.core.commands import Cancel, Command, Pause
from pullcord.core.states import NEEDS_OWNER, RunState
from pullcord.errors import PullcordError, StorageFailed
from pullcord.journal.holding import HELD_AT_ONCE
from pullcord.journal.ledger import Claim, Ledger
from pullcord.journal.reading import existing
from pullcord.journal.snapshots import load
from pullcord.journal.store import Head, Store, Transaction, View
from pullcord.killswitch.flags import Flag
from pullcord.process import is_gone
from pullcord.takeover import Asking, Before, Left, end_what_is_left

T = TypeVar("T")
Held: TypeAlias = tuple[str, Flag]  # a run, and the flag that holds it
_IN_EFFECT: Final = {
    RunState.PAUSING: RunState.PAUSED,
    RunState.CANCELLING: RunState.CANCELLED,
}


class Write(msgspec.Struct, frozen=True):
    """To be done in a write transaction."""

    job: Callable[[Transaction], Any]


class Read(msgspec.Struct, frozen=True):
    """To be done in a read transaction."""

    job: Callable[[View], Any]


class Outside(msgspec.Struct, frozen=True):
    """To be done while no transaction is open. Takes up to a few seconds."""

    job: Callable[[], Any]


Steps: TypeAlias = Generator[Write | Read | Outside, Any, T]


class LetGo(NamedTuple):
    """What has become of a run's owners before: what of each may still act, and which processes of
    its steps do not end, by step."""

    before: dict[str, Before]
    left: Left


class Holding(NamedTuple):
    """The runs that were held, and why one of them is not paused, if so."""

    held: list[str]
    trouble: PullcordError | None


class Stopping:
    """Has stops of runs that no process drives take hold, as far as that needs no agent."""

    def __init__(self, ledger: Ledger, beside: str) -> None:
        """`beside`: where the store's kill switch lies; its mark is found by it."""
        self._ledger = ledger
        self._beside = beside

    def command(self, run_id: str, command: Command) -> Steps[Ack]:
        """Decide a command, and have a stop take hold if no process does that."""
        is_stop = isinstance(command, Pause | Cancel)

        def decide(tx: Transaction) -> tuple[Ack, Claim | None]:
            # In one transaction: a process that comes between would have to be waited for.
            ack = self._ledger.command(tx, run_id, command)
            is_to_rest = is_stop and ack.holds and ack.state in NEEDS_OWNER
            return ack, self._ledger.take_to_rest(tx, run_id) if is_to_rest else None

        ack, claim = yield Write(decide)
        if claim is not None:
            yield from self._rest([claim])
            look = Read(lambda view: existing(view, run_id))
            head: Head = yield look
            is_in_effect = head.state is _IN_EFFECT[ack.state]
            return msgspec.structs.replace(ack, state=head.state) if is_in_effect else ack
        if is_stop and ack.holds and ack.state not in NEEDS_OWNER:  # in effect as it was decided
            yield from self._end_what_their_owners_left([run_id])
        return ack

    def finish_cancelled(self) -> Steps[list[str]]:
        """End every cancelled run whose process is gone, as far as that needs no agent. Return
        which those are."""
        found: list[str] = yield Read(self._ledger.left_cancelled)
        for run_id in found:
            take = Write(lambda tx, one=run_id: self._ledger.take_to_rest(tx, one))
            claim: Claim | None = yield take
            yield from self._rest([claim] if claim else [])
        return found

    def hold(self, runs: Sequence[Held], *, within_s: float = inf) -> Steps[Holding]:
        """Pause these runs for the kill switch, or as many as there is time for: the rest cannot
        start either. A run that was wrapping up at a limit ends without its last word."""
        until, held, trouble = monotonic() + within_s, list[str](), list[PullcordError]()
        for at in range(0, len(runs), HELD_AT_ONCE):  # those of one page share a commit
            if monotonic() > until:
                break
            page = runs[at : at + HELD_AT_ONCE]
            try:
                yield from self._hold(page)
            except StorageFailed:
                raise
            except PullcordError:  # a damaged run keeps no other from it
                for one in page:
                    try:
                        yield from self._hold([one])
                    except StorageFailed:
                        raise
                    except PullcordError as error:
                        trouble.append(error)
            held += [run_id for run_id, _ in page]
        return Holding(held, trouble[0] if trouble else None)

    def _hold(self, runs: Sequence[Held]) -> Steps[None]:
        def hold(tx: Transaction) -> list[Claim | None]:
            return [self._ledger.hold(tx, run_id, flag) for run_id, flag in runs]

        claims: list[Claim | None] = yield Write(hold)
        yield from self._rest([claim for claim in claims if claim is not None])
        rest = [run_id for (run_id, _), claim in zip(runs, claims, strict=True) if claim is None]
        yield from self._end_what_their_owners_left(rest)

    def let_go(self, claims: Collection[Claim]) -> Steps[list[LetGo]]:
        """Have the owners before let go of runs that were taken from them. Return, for each run,
        when their wardens have ended what they held for it, or do not answer."""
        asked = [
            {owner: Asking(owner, claim.lease.run_id, claim.lease.epoch) for owner in claim.before}
            for claim in claims
        ]

        def answers() -> list[dict[str, Before]]:
            return [{owner: one.answer() for owner, one in asking.items()} for asking in asked]

        is_quick = all(one.is_answered for asking in asked for one in asking.values())
        before = answers() if is_quick else (yield Outside(answers))
        last = {claim.lease.run_id: {*claim.before, claim.last} for claim in claims}
        left: Mapping[str, Left] = yield from self._end_what_is_left(last)
        return [
            LetGo(acting, left.get(claim.lease.run_id, {}))
            for acting, claim in zip(before, claims, strict=True)
        ]

    def _rest(self, claims: Collection[Claim]) -> Steps[None]:
        if not claims:
            return
        said: list[LetGo] = yield from self.let_go(claims)

        def rest(tx: Transaction) -> None:
            for claim, (before, left) in zip(claims, said, strict=True):
                self._ledger.bring_to_rest(tx, claim, before, left)

        yield Write(rest)

    def _end_what_their_owners_left(self, run_ids: Iterable[str]) -> Steps[None]:
        """A stop is in effect as it is asked for, because nothing was under way. If the process is
        dead that drove the run, what finished steps have started and left ends with it."""

        def last_owners(view: View) -> dict[str, set[str]]:
            return {run_id: {load(view, existing(view, run_id)).owner} for run_id in run_ids}

        found: dict[str, set[str]] = yield Read(last_owners)
        yield from self._end_what_is_left(found)

    def _end_what_is_left(self, owners: Mapping[str, Collection[str]]) -> Steps[Mapping[str, Left]]:
        """End what dead owners have left of these runs. Return what does not end, by run."""
        dead = {run_id: of for run_id, of in owners.items() if any(is_gone(one) for one in of)}
        if not dead or not self._beside:
            return {}
        end = Outside(lambda: end_what_is_left(dead, self._beside))
        return (yield end)


def perform(steps: Steps[T], store: Store) -> T:
    """Do them here and now, without an event loop, and return what comes of it."""
    result: Any = None
    trouble: PullcordError | None = None
    while True:
        try:
            step = steps.send(result) if trouble is None else steps.throw(trouble)
        except StopIteration as end:
            return end.value
        result, trouble = None, None
        try:
            match step:
                case Write(job):
                    result = store.write(job)
                    store.poke()
                case Read(job):
                    result = store.read(job)
                case Outside(job):
                    result = job()
        except PullcordError as error:
            trouble = error
