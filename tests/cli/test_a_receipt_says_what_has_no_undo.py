"""What was done and cannot be undone is named in the receipt that the command line prints."""

from pullcord.cli.render.run_text import receipt_lines
from pullcord.core.events import (
    Cancelled,
    CancelRequested,
    Claimed,
    Event,
    StepFinished,
    StepStarted,
    StepUndone,
    UndoStarted,
)
from pullcord.core.receipts import receipt
from tests.core.histories import after

DID: list[Event] = [
    Claimed(owner="o", epoch=1),
    StepStarted(step="s1", name="fetch", effect="none"),
    StepFinished(step="s1"),
    StepStarted(step="s2", name="draft", undoable=True),
    StepFinished(step="s2"),
    StepStarted(step="s3", name="post_to_channel"),
    StepFinished(step="s3"),
]


def test_a_cancelled_run_names_what_nothing_can_undo() -> None:
    undone: list[Event] = [UndoStarted(step="s2"), StepUndone(step="s2")]
    run = after(*DID, CancelRequested(by="ana"), *undone, Cancelled())
    lines = list(receipt_lines(receipt(run)))
    assert "  done           fetch, post_to_channel" in lines
    said = "  has no undo    post_to_channel: done, and nothing says how to undo it"
    assert lines[lines.index("  done           fetch, post_to_channel") + 1] == said
    assert "  undone         draft" in lines
