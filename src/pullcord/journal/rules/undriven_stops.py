"""The steps that stop a run which no process drives, in order.

The journal performs them in an event loop, the command line without one. Each step is a write, a
read, or work outside of any transaction. That work comes before the record that the run is at rest:
it asks the warden of the previous owner to let go, and ends the processes that a dead owner left.
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
from pullcord.journal.rules.ledger import Claim, Ledger
from pullcord.journal.rules.switch_pauses import HELD_AT_ONCE
from pullcord.journal.store import Head, Store, Transaction, View
from pullcord.journal.stored_runs.run_records import existing
from pullcord.journal.stored_runs.snapshots import load
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
    """A job for a write transaction."""

    job: Callable[[Transaction], Any]


class Read(msgspec.Struct, frozen=True):
    """A job for a read transaction."""

    job: Callable[[View], Any]


class Outside(msgspec.Struct, frozen=True):
    """A job to do while no transaction is open. It takes up to a few seconds."""

    job: Callable[[], Any]


Steps: TypeAlias = Generator[Write | Read | Outside, Any, T]


class LetGo(NamedTuple):
    """How far the previous owners of a run have let go of it.

    `before`: what may still act, by owner. `left`: the processes that do not end, by step.
    """

    before: dict[str, Before]
    left: Left


class HeldRuns(NamedTuple):
    """The runs that were held, and the first error, if one of them could not be paused."""

    held: list[str]
    trouble: PullcordError | None


class Stopping:
    """Carries out stops of runs that no process drives, as far as that needs no agent."""

    def __init__(self, ledger: Ledger, beside: str) -> None:
        """`beside`: the path of the store's kill switch, which gives the mark of its processes."""
        self._ledger = ledger
        self._beside = beside

    def command(self, run_id: str, command: Command) -> Steps[Ack]:
        """Decide a command. If it is a stop that no process carries out, carry it out."""
        is_stop = isinstance(command, Pause | Cancel)

        def decide(tx: Transaction) -> tuple[Ack, Claim | None]:
            # In one transaction, so that no other process claims the run in between.
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
        """End every cancelled run whose process is gone and which can end without its agent.

        Returns their ids.
        """
        found: list[str] = yield Read(self._ledger.left_cancelled)
        for run_id in found:
            take = Write(lambda tx, one=run_id: self._ledger.take_to_rest(tx, one))
            claim: Claim | None = yield take
            yield from self._rest([claim] if claim else [])
        return found

    def hold(self, runs: Sequence[Held], *, within_s: float = inf) -> Steps[HeldRuns]:
        """Pause these runs for the kill switch, as many as fit into `within_s`.

        The others cannot start either. A run that was wrapping up at a limit ends without its last
        answer.
        """
        until, held, trouble = monotonic() + within_s, list[str](), list[PullcordError]()
        for at in range(0, len(runs), HELD_AT_ONCE):  # the runs of one page share a commit
            if monotonic() > until:
                break
            page = runs[at : at + HELD_AT_ONCE]
            try:
                yield from self._hold(page)
            except StorageFailed:
                raise
            except PullcordError:  # a damaged run does not keep the others from being held
                for one in page:
                    try:
                        yield from self._hold([one])
                    except StorageFailed:
                        raise
                    except PullcordError as error:
                        trouble.append(error)
            held += [run_id for run_id, _ in page]
        return HeldRuns(held, trouble[0] if trouble else None)

    def _hold(self, runs: Sequence[Held]) -> Steps[None]:
        def hold(tx: Transaction) -> list[Claim | None]:
            tx.hold(*(run_id for run_id, _ in runs))
            return [self._ledger.hold(tx, run_id, flag) for run_id, flag in runs]

        claims: list[Claim | None] = yield Write(hold)
        yield from self._rest([claim for claim in claims if claim is not None])
        rest = [run_id for (run_id, _), claim in zip(runs, claims, strict=True) if claim is None]
        yield from self._end_what_their_owners_left(rest)

    def let_go(self, claims: Collection[Claim]) -> Steps[list[LetGo]]:
        """Make the previous owners let go of runs that were taken from them.

        Returns one result for each run, when every warden has ended the processes that it held for
        it, or has not answered in time.
        """
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
        """End the processes that finished steps have left, if the run's last owner is dead.

        For stops that were in effect at once, because nothing was under way.
        """

        def last_owners(view: View) -> dict[str, set[str]]:
            return {run_id: {load(view, existing(view, run_id)).owner} for run_id in run_ids}

        found: dict[str, set[str]] = yield Read(last_owners)
        yield from self._end_what_is_left(found)

    def _end_what_is_left(self, owners: Mapping[str, Collection[str]]) -> Steps[Mapping[str, Left]]:
        """End the processes that dead owners have left. Return those that do not end, by run."""
        dead = {run_id: of for run_id, of in owners.items() if any(is_gone(one) for one in of)}
        if not dead or not self._beside:
            return {}
        end = Outside(lambda: end_what_is_left(dead, self._beside))
        return (yield end)


def perform(steps: Steps[T], store: Store) -> T:
    """Perform the steps in this thread, without an event loop, and return their result."""
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
