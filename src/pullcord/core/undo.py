"""What is undone, and in which order: the newest effect first.

A run's own steps are here, and of which children something is to be undone. In which order that is
done over a whole family only the journal knows: see `pullcord.journal.stored_runs.families`.
"""

from typing import Final

from pullcord.core.events import Left
from pullcord.core.run import Run, Step
from pullcord.core.states import RunState

_NAMES_MAX: Final = 3


def may_have_happened(known: Step) -> bool:
    """Whether the step had its effect, or nobody can say that it had not."""
    if known.late_seq or known.maybe:
        return True
    return known.began and known.status in ("finished", "interrupted", "in_doubt")


def to_undo(run: Run) -> list[str]:
    """The steps that are still to be undone as the run is now, the next one first."""
    by_cancel = list[str]()
    if run.cancel and _undoes(run):
        by_cancel = would_undo(run, back_to=run.cancel.back_to)
    asked_for = [step for step, known in run.steps.items() if known.undo in ("wanted", "started")]
    open_ones = {step for step in by_cancel if run.steps[step].undo != "failed"} | set(asked_for)
    return sorted(open_ones, key=lambda step: when_done(run.steps[step]), reverse=True)


def would_undo(run: Run, *, step: str = "", back_to: str = "") -> list[str]:
    """What an undo would take back: all of it, one `step`, or what was done after `back_to`."""
    after = when_done(run.steps[back_to]) if back_to in run.steps else 0
    return [
        name
        for name, known in run.steps.items()
        if known.undoable and known.undo != "undone" and may_have_happened(known)
        if step in ("", name) and when_done(known) > after
    ]


def children_to_undo(run: Run) -> list[str]:
    """The children of whose work, or of that of those who worked for them, something is still to
    be undone as the run is now."""
    by_cancel = would_undo_children(run) if _undoes(run) else []
    return [
        name
        for name, child in run.children.items()
        if child.undo == "wanted" or (name in by_cancel and child.undo == "")
    ]


def would_undo_children(run: Run) -> list[str]:
    """The children of whose work an undo of this run would take something back."""
    return [
        name
        for name, child in run.children.items()
        if child.is_provisional and child.taken_back < child.left.undo
    ]


def is_anything_left_to_undo(run: Run) -> bool:
    return bool(to_undo(run) or children_to_undo(run))


def may_be_asked_to_undo(run: Run) -> bool:
    """Whether a person may have an ended run undone. What a run that has completed did is kept,
    unless the run it worked for was cancelled."""
    return run.state is not RunState.COMPLETED or any(s.undo for s in run.steps.values())


def left_by(run: Run) -> Left:
    """What an ended run, and everybody who worked for it, has left behind. Of one that somebody
    has cancelled without undo, nothing is to be undone: that was their word."""
    below = [child.left for child in run.children.values() if child.is_provisional]
    is_kept = run.cancel is not None and not run.cancel.undo and run.cancel.source != "parent"
    undo = sum(run.steps[step].undo != "failed" for step in would_undo(run))
    undo += sum(c.left.undo - c.taken_back for c in run.children.values() if c.is_provisional)
    own = [step.name for step in run.steps.values() if stays(step)]
    names = dict.fromkeys([*own, *(name for left in below for name in left.names)])
    kept = len(own) + sum(left.kept for left in below)
    return Left(0 if is_kept else max(undo, 0), kept, tuple(names)[:_NAMES_MAX])


def has_no_undo(step: Step) -> bool:
    """Whether it changes something, and nothing says how to take that back."""
    return not step.model and step.effect != "none" and not step.undoable


def stays(step: Step) -> bool:
    """It had an effect that no undo takes back, or is having one."""
    return has_no_undo(step) and (may_have_happened(step) or step.status == "started")


def _undoes(run: Run) -> bool:
    """Whether it is being cancelled, with undo, and no run above it sees to that."""
    cancel = run.cancel
    return cancel is not None and cancel.undo and not cancel.family and not run.ended


def undo_item(step: str) -> str:
    """The attention item that says that a step could not be undone."""
    return f"undo-{step}"[:64]


def when_done(known: Step) -> int:
    """The number of the record that says that the step had its effect, or may have had it."""
    return max(known.decided_seq, known.late_seq)
