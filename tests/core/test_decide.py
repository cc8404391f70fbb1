"""Every command, in every state a run can reach, is carried out, already true, or refused with a
way out. Nothing else can happen."""

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullcord.core.admit import admit
from pullcord.core.commands import Answer, Cancel, Command, Pause, Redirect, Resume, check_command
from pullcord.core.decide import decide
from pullcord.core.events import (
    AttentionSettled,
    Cancelled,
    CancelRequested,
    Claimed,
    Completed,
    Hurried,
    LateResult,
    Paused,
    Record,
    Redirected,
    Renamed,
    Resumed,
    StepFinished,
    StepInterrupted,
    StepStarted,
)
from pullcord.core.fold import replay
from pullcord.core.states import TERMINAL, RunState
from pullcord.core.values import dump
from pullcord.errors import InvalidId, InvalidText
from tests.core.histories import after, apply, commands, histories

pytestmark = pytest.mark.campaign


CLAIMED = Claimed(owner="w", epoch=1)
CANCEL = CancelRequested(by="ana", reason="wrong path")


@given(records=histories(), command=commands())
def test_a_command_is_carried_out_already_true_or_refused_with_a_way_out(
    records: list[Record], command: Command
) -> None:
    run = replay("r1", records)
    decision = decide(run, command)
    if decision.verdict == "applied":
        for event in decision.events:
            run = apply(run, Record("r1", run.seq + 1, 0, 0, event))
        return
    assert not decision.events
    assert 0 < decision.seq <= run.seq
    if decision.verdict in ("rejected", "too_late"):
        assert decision.message.startswith("Cannot ")
        assert "run r1" in decision.message
        assert "pullcord " in decision.message  # the way out: a command that helps
    if decision.verdict == "rejected":
        assert decision.reason


@given(records=histories())
def test_every_living_run_can_be_cancelled(records: list[Record]) -> None:
    run = replay("r1", records)
    verdict = decide(run, Cancel(by="ana")).verdict
    if run.state not in TERMINAL:
        assert verdict in ("applied", "already")
    elif run.state is RunState.CANCELLED:
        assert verdict == "already"
    else:
        assert verdict == "too_late"


@given(records=histories(), command=commands())
def test_asking_twice_changes_nothing_more(records: list[Record], command: Command) -> None:
    run = replay("r1", records)
    if isinstance(command, Redirect) or getattr(command, "instruction", None):
        return  # two instructions are two instructions
    for event in decide(run, command).events:
        run = apply(run, Record("r1", run.seq + 1, 0, 0, event))
    assert not decide(run, command).events or getattr(command, "now", False)
    for event in decide(run, command).events:
        run = apply(run, Record("r1", run.seq + 1, 0, 0, event))
    assert not decide(run, command).events


def test_pausing_what_has_not_started_holds_at_once() -> None:
    run = after()
    (event,) = decide(run, Pause(by="ana")).events
    assert apply(run, Record("r1", 2, 0, 0, event)).state is RunState.PAUSED


def test_cancelling_what_no_process_touched_ends_it_at_once() -> None:
    assert [type(event) for event in decide(after(), Cancel(by="ana")).events] == [
        CancelRequested,
        Cancelled,
    ]


def test_a_second_press_hurries_and_a_third_changes_nothing() -> None:
    run = after(CLAIMED, CANCEL)
    assert decide(run, Cancel(by="bo")).verdict == "already"
    (hurried,) = decide(run, Cancel(by="bo", now=True)).events
    assert isinstance(hurried, Hurried)
    run = apply(run, Record("r1", 4, 0, 0, hurried))
    assert decide(run, Cancel(by="bo", now=True)).verdict == "already"


def test_an_instruction_with_a_resume_is_not_lost_when_the_run_was_not_paused() -> None:
    decision = decide(after(CLAIMED), Resume(by="ana", instruction="be brief"))
    assert [type(event) for event in decision.events] == [Redirected]
    paused = after(CLAIMED, *decide(after(CLAIMED), Pause(by="ana")).events, Paused())
    decision = decide(paused, Resume(by="ana", instruction="be brief"))
    assert [type(event) for event in decision.events] == [Redirected, Resumed]


@pytest.mark.parametrize(
    "command",
    [Pause(by="ana"), Resume(by="ana"), Redirect(by="a", instruction="x")],
    ids=lambda command: command.verb,
)
def test_after_a_cancel_every_other_control_is_too_late_and_names_it(command: Command) -> None:
    decision = decide(after(CLAIMED, CANCEL), command)
    assert (decision.verdict, decision.seq) == ("too_late", 3)
    assert "cancelled by ana: wrong path" in decision.message
    assert "pullcord fork r1" in decision.message


def test_a_result_that_a_cancel_overtook_is_kept_as_evidence() -> None:
    run = after(CLAIMED, StepStarted(step="s", name="charge"), CANCEL)
    late = admit(run, StepFinished(step="s", result=dump("charged")))
    assert late == (StepInterrupted(step="s"), LateResult(step="s", result=dump("charged")))
    for event in late:
        run = apply(run, Record("r1", run.seq + 1, 0, 1, event))
    assert run.steps["s"].status == "interrupted"
    assert run.steps["s"].late_seq == 6
    assert admit(run, StepFinished(step="s")) == ()


def test_the_result_of_a_run_that_a_cancel_overtook_is_kept_too() -> None:
    run = after(CLAIMED, CANCEL)
    assert admit(run, Completed(result=dump(42))) == (LateResult(step="", result=dump(42)),)


def test_after_a_cancel_no_step_is_admitted() -> None:
    assert admit(after(CLAIMED, CANCEL), StepStarted(step="s", name="charge")) == ()


@pytest.mark.parametrize(
    "fields",
    [
        {"by": ""},
        {"by": "a\0b"},
        {"reason": "\ud800"},
        {"reason": "x" * (1024 * 1024 + 1)},
        {"key": ""},
        {"key": "k" * 10_000},
    ],
    ids=str,
)
def test_text_that_cannot_be_kept_is_refused_by_name(fields: dict[str, Any]) -> None:
    with pytest.raises(InvalidText, match="Nothing was changed"):
        check_command(msgspec.structs.replace(Pause(by="ana"), **fields))


def test_a_question_is_named_by_an_id() -> None:
    with pytest.raises(InvalidId):
        check_command(Answer(by="ana", question="../x"))


@given(records=histories(), data=st.data())
def test_an_ended_run_never_moves_again(records: list[Record], data: st.DataObject) -> None:
    """What needs attention can be settled, and a title be given; the run stays where it is."""
    run = replay("r1", records)
    if run.ended:
        events = decide(run, data.draw(commands())).events
        assert all(isinstance(event, AttentionSettled | Renamed) for event in events)
        for event in events:
            assert apply(run, Record("r1", run.seq + 1, 0, 0, event)).state is run.state
