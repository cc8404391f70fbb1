"""What is told of a run comes in lines of its own, when the text before it is all there."""

from pullcord.cli.render.narration import Narration
from pullcord.core.events import (
    Completed,
    Event,
    PauseRequested,
    Record,
    Spent,
    StepFinished,
    StepInterrupted,
    StepStarted,
    TextEnded,
)
from pullcord.core.values import dump
from pullcord.journal.store import LiveText
from pullcord.journal.stored_runs.run_records import Cursor

SAID = "Hello there, this is long. "
ASKED = StepStarted(step="model-1", name="model", model="scripted")
ANSWERED = StepFinished(step="model-1")
BILL = Spent(step="model-1", tokens_in=10, tokens_out=175)
WHOLE = TextEnded(part="say-model-1-1-0", text=SAID)


def live(text: str, offset: int = 0, part: str = "say-model-1-1-0") -> LiveText:
    return LiveText(1, part, offset, text, 1)


def told(*items: Event | LiveText) -> list[str]:
    """Everything in one stream, as a terminal has it, without when it was."""
    heard: list[str] = []
    telling = Narration("r1", says=heard.append)
    for seq, item in enumerate(items, start=1):
        record = item if isinstance(item, LiveText) else Record("r1", seq, 0, 1, item)
        telling.tell(Cursor(seq), record)
    telling.end_line()
    return [line[15:] if line[:4].strip().isdigit() else line for line in said(heard)]


def said(heard: list[str]) -> list[str]:
    return "".join(heard).splitlines()


def test_an_answer_that_is_there_before_it_was_shown_is_told_behind_its_text() -> None:
    lines = told(ASKED, live("Hello th"), ANSWERED, BILL, WHOLE, Completed())
    assert lines == [
        "◆ scripted is answering",
        SAID,
        "◆ scripted answered",
        "$ scripted 10 tokens in, 175 out, price unknown",
        "✓ completed",
    ]


def test_text_that_goes_on_after_the_answer_stays_in_its_line() -> None:
    lines = told(ASKED, live("Hello th"), ANSWERED, live(SAID[8:], 8), WHOLE)
    assert lines == ["◆ scripted is answering", SAID, "◆ scripted answered"]


def test_what_somebody_does_meanwhile_is_told_at_once_and_in_order() -> None:
    lines = told(ASKED, live("Hello th"), ANSWERED, PauseRequested(by="bo"), WHOLE)
    assert lines[1:4] == ["Hello th", "◆ scripted answered", "‖ bo paused it"]
    assert lines[4:] == [SAID[8:]]


def test_what_another_step_has_done_does_not_wait_for_the_text() -> None:
    begun = StepStarted(step="fetch-1", name="fetch")
    other = StepFinished(step="fetch-1", result=dump("1,204 rows"))
    assert told(begun, live("Hello th"), other)[1:] == ["Hello th", "✓ fetch 1,204 rows"]
    asked = StepStarted(step="model-11", name="model", model="other")
    eleventh = StepFinished(step="model-11")
    lines = told(asked, live("Hello th"), eleventh, WHOLE)
    assert lines[1:3] == ["Hello th", "◆ other answered"]


def test_nothing_that_was_held_is_lost_when_nobody_speaks_on() -> None:
    answered = "◆ scripted answered"
    assert told(ASKED, live("Hello th"), ANSWERED)[1:] == ["Hello th", answered]
    two = live("Another", part="say-2")
    assert told(ASKED, live("Hello th"), ANSWERED, two)[1:] == ["Hello th", answered, "Another"]


def test_how_a_step_was_stopped_is_said_in_words() -> None:
    begun = StepStarted(step="s", name="crunch")
    assert told(begun, StepInterrupted(step="s", rung="task_cancel"))[1:] == [
        "■ crunch interrupted: its task was cancelled"
    ]
