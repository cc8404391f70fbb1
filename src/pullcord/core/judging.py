"""What is recorded about a step that began under an owner who has lost the run."""

from collections.abc import Mapping
from typing import Final, Protocol

from pullcord.core.events import (
    AttentionRaised,
    Event,
    LateResult,
    Spent,
    StepInDoubt,
    StepInterrupted,
)
from pullcord.core.limits import Reserve
from pullcord.core.run import Run, Step
from pullcord.core.states import RunState
from pullcord.core.undo import undo_item

_PERHAPS: Final = ("perhaps it itself, in the process that lost the run",)
_ACTING: Final = (
    "may still be acting: the process that began it has lost the run and did not answer, and "
    "code inside of it cannot be stopped from outside."
)
_HAS_LEFT: Final = "has started what could not be ended when its process was dead:"


_RELEASES: Final = (RunState.RUNNING, RunState.PAUSING, RunState.STOPPING, RunState.CANCELLING)


def acting_for(run: Run, holder: str) -> tuple[str, ...]:
    """The owners that were doing something in the world when they lost the run: a step, an undo or
    a release. There may be several: one of them may have died before it could judge what others
    had begun. `holder`: who has not given it back; empty: its last owner has, and with it an undo
    that was under way."""
    owners = [
        step.owner
        for step in run.steps.values()
        if step.owner and (step.status == "started" or holder or step.owner != run.owner)
    ]
    if not owners and holder and run.defers and run.state in _RELEASES:
        owners = [holder]
    return tuple(dict.fromkeys(owners))


class EarlierOwner(Protocol):
    """What is known of an owner that was doing something when it lost the run."""

    def may_act(self, run_in: str, /) -> bool:
        """Whether nobody could see to it that what it had begun there is over."""
        ...


def lost_calls(run: Run, before: Mapping[str, EarlierOwner]) -> list[Event]:
    """Return what the next owner records of what no step stands for and an owner before had begun:
    an undo, which is begun again, and a release. `before`: those of `acting_for`.

    Releases leave no intent: they come one by one, the last one first, when nothing else is under
    way. So it is known which one it may be, and not whether it had begun.
    """
    owners = {step.owner for step in run.steps.values()}
    lost = {
        f"lost-{step}"[:64]: f"The undo of step {known.name!r} {_ACTING}"
        for step, known in run.steps.items()
        if known.undo == "started" and known.owner in before
        if before[known.owner].may_act(known.undo_in)
    }
    releases = [one for owner, one in before.items() if owner not in owners]
    if run.defers and any(one.may_act("") for one in releases):
        defer, name = next(reversed(run.defers.items()))
        lost[f"lost-{defer}"[:64]] = f"The release of {name!r} {_ACTING}"
    return [
        AttentionRaised(item=item, kind="not_stoppable", text=text)
        for item, text in lost.items()
        if item not in run.attention
    ]


def judged(
    run: Run, step: str, *, may_act: bool = False, left: tuple[str, ...] = ()
) -> list[Event]:
    """Return what the next owner records of it. Nobody knows what became of it; of what has no
    effect, or may have it twice, nobody needs to.

    A doubt comes together with what makes people look at it. A request to a model that was lost is
    counted as what was set aside for it. `may_act`: nobody could see to it that its code is over;
    `left`: what it has started and does not end.
    """
    known = run.steps[step]
    still = (*(_PERHAPS if may_act else ()), *left)
    acting = _ACTING if may_act else f"{_HAS_LEFT} {', '.join(left)}."
    if known.model:
        kept = run.reserved.get(step, Reserve())
        lost = Spent(
            step=step,
            cost_usd_micros=kept.usd_micros or None,
            tokens_in=kept.tokens or None,
            estimated=True,
        )
        return [StepInterrupted(step=step, still_running=still), lost]
    if known.effect == "once":
        why = "its process lost the run" if may_act else "its process ended before it could say"
        doubt = StepInDoubt(step=step, why=why, still_running=still)
        return [doubt, in_doubt(step, known.name, f"it {acting}" if still else "")]
    if not left and (not may_act or known.effect == "none"):
        return [StepInterrupted(step=step)]
    cut = StepInterrupted(step=step, still_running=still)
    text = f"Step {known.name!r} {acting}"
    return [cut, AttentionRaised(item=step, kind="not_stoppable", text=text)]


def left_by_finished(run: Run, left: Mapping[str, tuple[str, ...]]) -> list[Event]:
    """Return what makes people look at what a dead owner has left and nobody could end, of steps
    that are not open: the open ones are judged."""
    said: list[Event] = []
    for step, names in left.items():
        if step in run.steps and run.steps[step].status == "started":
            continue
        who = f"Step {run.steps[step].name!r}" if step in run.steps else "Some step"
        text = f"{who} {_HAS_LEFT} {', '.join(names)}."
        item = step if step in run.steps else "left-running"
        said.append(
            AttentionRaised(item=item, kind="not_stoppable", text=text, still_running=names)
        )
    return said


def in_doubt(step: str, name: str, more: str = "") -> AttentionRaised:
    """What stays visible until somebody has said what became of a step."""
    text = f"Nobody knows whether step {name!r} happened" + (f"; {more}" if more else ".")
    return AttentionRaised(item=step, kind="in_doubt", text=text)


def testimony(run: Run, late: LateResult) -> list[Event]:
    """Return what is recorded of what a former owner says about a step, after it lost the run: its
    word, once, and what makes people look at it. Nothing, if the run knows as much."""
    known = run.steps.get(late.step)
    if known is None or run.forgotten or late.attempt > known.attempt:
        return []
    is_last = late.attempt == known.attempt
    if known.late_seq or (is_last and known.status in ("finished", "failed")):
        return []
    if late.error:
        return [late] if known.still_running else []
    return [late, _did_happen(run, known, late.step)]


def _did_happen(run: Run, known: Step, step: str) -> AttentionRaised:
    said = f"Step {known.name!r} did happen: the process that had lost the run has said so since."
    if known.undoable and run.ended:
        text = f"{said} Undo it: pullcord undo {run.id} {step}"
        return AttentionRaised(item=undo_item(step), kind="undo_failed", text=text)
    kind = "in_doubt" if known.status == "in_doubt" and not known.settled else "other"
    return AttentionRaised(item=step, kind=kind, text=said)
