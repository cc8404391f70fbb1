"""Whether a run that nobody holds still needs somebody: to stop, undo or release something."""

from pullcord.core.run import Run
from pullcord.core.undo import is_anything_left_to_undo


def nothing_to_stop(run: Run) -> bool:
    """Whether nothing of this run, which nobody holds, is under way or to be released."""
    return not (run.open_steps() or run.living_children() or run.defers)


def nothing_to_stop_or_undo(run: Run) -> bool:
    """Whether a cancelled run, held by nobody, needs no process that knows its agent."""
    return nothing_to_stop(run) and not is_anything_left_to_undo(run)


def needs_no_agent_to_end(run: Run) -> bool:
    """Whether a cancelled run whose process is gone can end without one that knows its agent: what
    was under way is judged, and there is nothing to release or undo."""
    may_undo = run.cancel is not None and run.cancel.undo and not run.cancel.family
    is_undoable = may_undo and any(run.steps[step].undoable for step in run.open_steps())
    waits = run.living_children() or run.defers or is_anything_left_to_undo(run)
    return not (waits or is_undoable)
