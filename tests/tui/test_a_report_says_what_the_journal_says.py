"""What is shown of a run agrees with what the core makes of the same records."""

from hypothesis import given

from pullcord.core import run as core
from pullcord.core.events import LateResult, Record
from pullcord.core.fold import replay
from pullcord.journal.stored_runs.run_records import Cursor
from pullcord.tui.run_report import RunReport
from pullcord.tui.shown_items import ShownStep
from pullcord.tui.steplines import step_lines, text_lines
from pullcord.tui.timeline import spans_of, timeline_lines
from tests.core.histories import histories

SIGN = {"started": "●", "finished": "✓", "failed": "✕", "interrupted": "■", "in_doubt": "?"}
UNDO = {"started": "↶", "undone": "↶", "failed": "✕"}


def sign_of(known: core.Step) -> str:
    """The sign that its last record gives a step."""
    if known.undo in UNDO:
        return UNDO[known.undo]
    if not known.began:
        return "○"
    if known.late_seq > known.decided_seq:
        return "✓"
    return "◆" if known.model and known.status in ("started", "finished") else SIGN[known.status]


def has_failed_late(records: list[Record], step: str) -> bool:
    """Whether the last that is known of it is that it failed, after it had been stopped."""
    said = [one.event for one in records if getattr(one.event, "step", "") == step]
    return isinstance(said[-1], LateResult) and bool(said[-1].error)


def reported(records: list[Record]) -> RunReport:
    made = RunReport()
    made.take((Cursor(record.seq), record) for record in records)
    return made


@given(histories())
def test_every_step_is_there_once_with_its_outcome(records: list[Record]) -> None:
    run, made = replay("r1", records), reported(records)
    shown = [e for section in made.sections for e in section.entries if isinstance(e, ShownStep)]
    assert [step.name for step in shown] == [step.model or step.name for step in run.steps.values()]
    for step, (name, known) in zip(shown, run.steps.items(), strict=True):
        assert step.sign == ("✕" if has_failed_late(records, name) else sign_of(known))
        assert (step.says == "undone") == (known.undo == "undone")


@given(histories())
def test_it_is_over_when_the_run_has_ended_and_only_then(records: list[Record]) -> None:
    run, made = replay("r1", records), reported(records)
    assert made.is_over == run.ended
    assert made.seq == run.seq
    paces = {"queued": "queued", "pausing": "pausing", "paused": "paused", "waiting": "waiting"}
    if not run.ended:
        assert made.stretches[-1].pace == paces.get(run.state, made.stretches[-1].pace)


@given(histories())
def test_every_history_can_be_drawn_at_any_width(records: list[Record]) -> None:
    made = reported(records)
    for width in (20, 79, 200):
        assert step_lines(made, width, now_ms=made.at_ms + 5, state="running")
        assert text_lines(made, width)
        assert timeline_lines(made, width, now_ms=made.at_ms + 5)
        spans = spans_of(made, width, now_ms=made.at_ms + 5)
        assert all(span.start < span.end <= width for span in spans)
