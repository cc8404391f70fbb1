"""What is undone, and in which order: the newest effect first."""

from pullcord.core.run import Run, Step


def may_have_happened(known: Step) -> bool:
    """Whether the step had its effect, or nobody can say that it had not."""
    if known.late_seq or known.maybe:
        return True
    return known.began and known.status in ("finished", "interrupted", "in_doubt")


def to_undo(run: Run) -> list[str]:
    """The steps that are still to be undone as the run is now, the next one first."""
    by_cancel = list[str]()
    if run.cancel and run.cancel.undo and not run.ended:
        by_cancel = would_undo(run, back_to=run.cancel.back_to)
    asked_for = [step for step, known in run.steps.items() if known.undo in ("wanted", "started")]
    open_ones = {step for step in by_cancel if run.steps[step].undo != "failed"} | set(asked_for)
    return sorted(open_ones, key=lambda step: _when(run.steps[step]), reverse=True)


def would_undo(run: Run, *, step: str = "", back_to: str = "") -> list[str]:
    """What an undo would take back: all of it, one `step`, or what was done after `back_to`."""
    after = _when(run.steps[back_to]) if back_to in run.steps else 0
    return [
        name
        for name, known in run.steps.items()
        if known.undoable and known.undo != "undone" and may_have_happened(known)
        if step in ("", name) and _when(known) > after
    ]


def undo_item(step: str) -> str:
    """The attention item that says that a step could not be undone."""
    return f"undo-{step}"[:64]


def _when(known: Step) -> int:
    return max(known.decided_seq, known.late_seq)
