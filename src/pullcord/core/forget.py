"""Somebody asks to forget a run: whether nothing in the run itself stands against it."""

from pullcord.core.acks import Reason
from pullcord.core.commands import Forget
from pullcord.core.decide import Decision
from pullcord.core.events import Forgotten
from pullcord.core.run import Run
from pullcord.core.undo import children_to_undo, is_anything_left_to_undo, to_undo


def forget(run: Run, command: Forget) -> Decision:
    """Return how it is answered. (Who else needs the run, only a ledger knows.)"""
    if run.forgotten:
        return Decision("already", seq=run.seq)
    if not run.ended:
        instead = f"End it first: pullcord cancel {run.id}"
        return kept(run.id, run.seq, "living", f"it is {run.state}", instead)
    if is_anything_left_to_undo(run):
        left = [run.steps[step].name for step in to_undo(run)] or [
            f"what run {child} did" for child in children_to_undo(run)
        ]
        why = f"{left[0]} is still to be undone"
        return kept(run.id, run.seq, "undoing", why, f"Have that done: pullcord undo {run.id}")
    if item := next(iter(run.attention), ""):
        why = f"somebody has to look at {item} first"
        instead = f"When that is done: pullcord settle {run.id} {item}"
        return kept(run.id, run.seq, "attention", why, instead)
    gone = Forgotten(
        by=command.by,
        reason=command.reason,
        source=command.source,
        via=command.via,
        key=command.key,
        agent=run.agent,
        thread=run.id if command.drop_thread_name else run.thread,
        state=run.state,
        epoch=run.epoch,
        created_at_ms=run.created_at_ms,
        ended_at_ms=run.at_ms,
        parent=run.parent,
        used=run.used_at(run.steady_ms),
    )
    return Decision("applied", (gone,))


def kept(run_id: str, seq: int, reason: Reason, why: str, instead: str) -> Decision:
    """Return that it is not forgotten, and what to do about that."""
    message = f"Cannot forget run {run_id}: {why}. Nothing was deleted. {instead}"
    return Decision("rejected", seq=seq, reason=reason, message=message)
