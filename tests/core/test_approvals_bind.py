"""By whatever history: a step begins with an approval only if somebody has approved exactly that
call, as that step; and every answer to an approval, in every state, gets a definite answer."""

import random
from collections.abc import Callable
from itertools import product
from typing import Final

import msgspec
import pytest
from hypothesis import Phase, find, given, settings
from hypothesis import strategies as st

from pullcord.core.admit import admit
from pullcord.core.commands import (
    Answer,
    Approve,
    Cancel,
    Command,
    Deny,
    Edit,
    Pause,
    Redirect,
    Resume,
    check_command,
)
from pullcord.core.decide import Decision, decide
from pullcord.core.events import (
    Answered,
    Blocked,
    Cancelled,
    CancelRequested,
    Claimed,
    Completed,
    Created,
    Event,
    Failed,
    Paused,
    PauseRequested,
    QuestionAsked,
    QuestionWithdrawn,
    Record,
    Redirected,
    Requeued,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
    Verdict,
)
from pullcord.core.fold import replay
from pullcord.core.receipts import receipt
from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.core.values import dump
from pullcord.errors import ImpossibleEvent
from tests.core.histories import apply

pytestmark = pytest.mark.campaign

QUESTIONS: Final = ("q1", "q2", "q3")
STEPS: Final = ("s1", "s2")
CALLS: Final = ("digest-1", "digest-2")
DUE_MS: Final = 1000
NOW_MS: Final = st.sampled_from([0, DUE_MS - 1, DUE_MS, DUE_MS + 1])
WHO: Final = "ana"

questions = st.sampled_from(QUESTIONS)
steps = st.sampled_from(STEPS)
calls = st.sampled_from(CALLS)


# --- histories with approvals in them ---


@st.composite
def answers(draw: st.DrawFn) -> Command:
    """What somebody, or the clock, says about an approval; possible now or not."""
    name = draw(questions)
    return draw(
        st.sampled_from(
            [
                Approve(by=WHO, question=name),
                Approve(by=WHO, question=name, call=draw(calls)),
                Edit(by=WHO, question=name, args=dump({"amount": 1})),
                Edit(by=WHO, question=name, call=draw(calls), args=dump({"amount": 1})),
                Approve(by=WHO, question=name, seen_seq=draw(st.integers(0, 20))),
                Deny(by=WHO, question=name, reason="no"),
                Answer(by=WHO, question=name, value=dump("yes")),
                Answer(by=WHO, question=name, value=dump("happened")),
                Answer(by="clock", question=name, source="clock"),
            ]
        )
    )


def intent(run: Run, step: str, call: str, name: str) -> StepStarted:
    """The begin of the step's next attempt."""
    attempt = run.steps[step].attempt + 1 if step in run.steps else 1
    return StepStarted(step=step, name="pay", attempt=attempt, approval=name, call=call)


def asking(name: str, step: str, call: str) -> QuestionAsked:
    return QuestionAsked(
        question=name, kind="approval", step=step, call=call, due_ms=DUE_MS, tool="pay"
    )


def likely(run: Run) -> list[Event | Command]:
    """What brings such a run on: without it, random histories hardly get anywhere."""
    moves: list[Event | Command] = []
    for name, asked in run.questions.items():
        if asked.status == "open":
            moves += [Approve(by=WHO, question=name), QuestionWithdrawn(question=name)]
        elif asked.verdict == "approved":
            moves.append(intent(run, asked.step, asked.call, name))
        for free in (other for other in QUESTIONS if asked.step and other not in run.questions):
            moves += [asking(free, asked.step, call) for call in CALLS if call != asked.call]
    for step in run.open_steps():
        moves += [StepInterrupted(step=step), StepFailed(step=step, error="boom")]
    return moves


def possible(run: Run, name: str, step: str, call: str) -> list[Event | Command]:
    """Whatever else an owner might want to record or somebody ask for, possible now or not."""
    return [
        asking(name, step, call),
        asking(name, step, call),
        intent(run, step, call, name),
        intent(run, step, call, ""),
        Claimed(owner="w", epoch=run.epoch + 1),
        QuestionAsked(question=name, kind="question"),
        QuestionAsked(question=name, kind="timer", due_ms=DUE_MS),
        QuestionAsked(question=name, kind="doubt", step=step),
        StepFinished(step=step),
        StepInDoubt(step=step),
        Blocked(seen_seq=run.seq),
        Paused(),
        Requeued(),
        Cancelled(),
        Completed(),
        Failed(error="boom"),
        Pause(by=WHO),
        Resume(by=WHO),
        Redirect(by=WHO, instruction="x"),
        Cancel(by=WHO),
    ]


@st.composite
def moves(draw: st.DrawFn, run: Run) -> Event | Command:
    if run.state is RunState.QUEUED:
        return Claimed(owner="w", epoch=run.epoch + 1)
    kind = draw(st.integers(0, 5))
    if kind < 3 and (ways := likely(run)):
        return draw(st.sampled_from(ways))
    if kind == 3:
        return draw(answers())
    return draw(st.sampled_from(possible(run, draw(questions), draw(steps), draw(calls))))


@st.composite
def histories(draw: st.DrawFn, max_size: int = 30) -> list[Record]:
    """What a journal can hold: decided by `decide`, admitted by `admit`, folded by `apply`."""
    records = [Record("r1", 1, 0, 0, Created(agent="payer", thread="t1"))]
    run = apply(Run("r1"), records[0])
    for _ in range(draw(st.integers(0, max_size))):
        move = draw(moves(run))
        if isinstance(move, Command):
            events = decide(run, move, now_ms=draw(NOW_MS)).events
        else:
            events = admit(run, move)
        try:
            run, records = _extended(run, records, events)
        except ImpossibleEvent:
            continue  # the journal would refuse it too
    return records


def _extended(
    run: Run, records: list[Record], events: tuple[Event, ...]
) -> tuple[Run, list[Record]]:
    added = list(records)
    for event in events:
        record = Record("r1", run.seq + 1, run.seq, run.epoch, event)
        run = apply(run, record)
        added.append(record)
    return run, added


# --- the rule, written down a second time ---


class Ledger:
    """What has been approved, by the records alone: nothing of `Run` or `fold` is used."""

    def __init__(self, records: list[Record]) -> None:
        self.open: dict[str, tuple[str, str]] = {}  # approval → its step and call
        self.approved: set[tuple[str, str, str]] = set()  # approval, step, call
        self.used: list[tuple[str, str, str]] = []
        for record in records:
            self._take(record.event)

    def _take(self, event: Event) -> None:
        match event:
            case QuestionAsked(question=name, kind="approval"):
                self.open[name] = (event.step, event.call)
            case Answered(question=name, verdict=verdict):
                mine = self.open.pop(name, None)
                if mine is not None and verdict == "approved":
                    self.approved.add((name, *mine))
            case QuestionWithdrawn(question=name):
                self.open.pop(name, None)
            case Redirected() | CancelRequested() | Completed() | Failed():
                self.open.clear()
            case StepStarted(approval=str(name)) if name:
                self.used.append((name, event.step, event.call))
            case _:
                pass


@given(records=histories())
def test_no_step_ever_began_by_an_approval_that_was_not_given_for_it(
    records: list[Record],
) -> None:
    for end, record in enumerate(records):
        if isinstance(record.event, StepStarted) and record.event.approval:
            event = record.event
            before = Ledger(records[:end])
            assert (event.approval, event.step, event.call) in before.approved


@given(records=histories())
def test_of_all_intents_exactly_those_that_are_approved_can_be_recorded(
    records: list[Record],
) -> None:
    """Every approval, step and digest there is, in every combination, right at this point."""
    run = replay("r1", records)
    approved = Ledger(records).approved
    for name, step, call in product((*QUESTIONS, "unknown"), STEPS, (*CALLS, "")):
        known, begin = run.steps.get(step), intent(run, step, call, name)
        is_free = known is None or known.status not in ("started", "finished")
        may = is_free and run.state is RunState.RUNNING and (name, step, call) in approved
        try:
            apply(run, Record("r1", run.seq + 1, 0, run.epoch, begin))
        except ImpossibleEvent:
            assert not may, f"{begin} was refused"
        else:
            assert may, f"{begin} was let through"


@given(records=histories())
def test_a_finished_step_cannot_begin_again_by_its_approval(records: list[Record]) -> None:
    used = [use for end, _ in enumerate(records) for use in Ledger(records[end : end + 1]).used]
    run = replay("r1", records)
    for _, step, _ in used:
        begun = [r for r in records if isinstance(r.event, StepStarted) and r.event.step == step]
        done = [r for r in records if isinstance(r.event, StepFinished) and r.event.step == step]
        assert len(done) <= 1
        assert not done or all(r.seq < done[0].seq for r in begun)
        assert run.steps[step].attempt == len(begun)


@given(records=histories())
def test_an_approval_has_one_verdict_and_keeps_it(records: list[Record]) -> None:
    verdicts: dict[str, Verdict] = {}
    for end in range(1, len(records) + 1):
        for name, asked in replay("r1", records[:end]).questions.items():
            if asked.status != "open":
                assert verdicts.setdefault(name, asked.verdict) == asked.verdict
            else:
                assert name not in verdicts, "what was settled is open again"
                assert asked.verdict == ""


@given(records=histories())
def test_an_ended_run_has_no_open_card_and_its_receipt_names_each_call_not_made_once(
    records: list[Record],
) -> None:
    run = replay("r1", records)
    if not run.ended:
        return
    assert run.open_questions() == []
    wanted = {asked.step for asked in run.questions.values() if asked.kind == "approval"}
    named = [line for line in receipt(run).not_attempted if line.startswith("pay (")]
    assert len(named) == len(wanted - set(run.steps))


# --- every answer gets an answer ---


def expected(run: Run, command: Approve | Edit | Deny | Answer, now_ms: int) -> tuple[str, str]:
    """The verdict and the reason, by the rules as they are told to people."""
    if run.ended:
        return "too_late", "ended"
    if run.state is RunState.CANCELLING:
        return "too_late", "cancelling"
    if command.seen_seq is not None and command.seen_seq < run.control_seq:
        return "rejected", "stale"
    asked = run.questions.get(command.question)
    if asked is None:
        return "rejected", "unknown_question"
    if asked.status != "open":
        return "too_late", ""
    if isinstance(command, Answer):
        return _expected_of_an_answer(asked.kind, command)
    if asked.kind != "approval":
        return "rejected", "not_an_approval"
    if asked.due_ms <= now_ms:
        return "too_late", "expired"
    if isinstance(command, Approve | Edit) and command.call not in ("", asked.call):
        return "rejected", "other_call"
    return "applied", ""


def _expected_of_an_answer(kind: str, command: Answer) -> tuple[str, str]:
    if kind == "approval" and command.source != "clock":
        return "rejected", "unknown_choice"
    if kind == "doubt" and command.value != dump("happened"):
        return "rejected", "unknown_choice"
    return "applied", ""


@given(records=histories(), command=answers(), now_ms=NOW_MS)
def test_an_answer_is_decided_by_the_rules_in_every_state(
    records: list[Record], command: Approve | Edit | Deny | Answer, now_ms: int
) -> None:
    run = replay("r1", records)
    decision = decide(run, check_command(command), now_ms=now_ms)
    verdict, reason = expected(run, command, now_ms)
    assert (decision.verdict, decision.reason) == (verdict, reason)
    assert_it_can_be_carried_out(run, decision, command.question)
    if verdict in ("rejected", "too_late"):
        assert decision.message.startswith("Cannot ")
        assert "pullcord " in decision.message
        assert 0 < decision.seq <= run.seq + bool(decision.events)


def assert_it_can_be_carried_out(run: Run, decision: Decision, question: str) -> None:
    """What was decided can be recorded, and leaves the question settled."""
    assert bool(decision.events) == (decision.verdict == "applied" or decision.reason == "expired")
    before = run
    for event in decision.events:
        run = apply(run, Record("r1", run.seq + 1, run.at_ms, 0, event))
    if decision.events:
        known = run.questions[question]
        assert known.status == "answered"
        assert known.settled_seq == before.seq + 1
        assert run.open_steps() == before.open_steps(), "an answer began or ended a step"


@given(records=histories(), command=answers(), now_ms=NOW_MS)
def test_the_same_answer_a_second_time_changes_nothing(
    records: list[Record], command: Command, now_ms: int
) -> None:
    run = replay("r1", records)
    for event in decide(run, command, now_ms=now_ms).events:
        run = apply(run, Record("r1", run.seq + 1, run.at_ms, 0, event))
    again = decide(run, command, now_ms=now_ms)
    assert again.events == ()
    assert again.verdict in ("too_late", "rejected")


# --- each way in which it can be wrong, by hand ---

CLAIMED: Final = Claimed(owner="w", epoch=1)
ASKED: Final = asking("q1", "s1", CALLS[0])
APPROVED: Final = Answered(by=WHO, question="q1", verdict="approved")
INTENT: Final = StepStarted(step="s1", name="pay", approval="q1", call=CALLS[0])


def after(*events: Event) -> Run:
    everything = [Created(agent="payer", thread="t1"), CLAIMED, *events]
    return replay("r1", [Record("r1", n, n, 0, e) for n, e in enumerate(everything, 1)])


def test_the_call_that_was_approved_can_begin() -> None:
    assert after(ASKED, APPROVED, INTENT).open_steps() == ["s1"]


def test_it_can_begin_again_as_the_same_call_if_it_was_cut() -> None:
    again = msgspec.structs.replace(INTENT, attempt=2)
    assert (
        after(ASKED, APPROVED, INTENT, StepInterrupted(step="s1"), again).steps["s1"].attempt == 2
    )


@pytest.mark.parametrize(
    "changed",
    [{"call": CALLS[1]}, {"call": ""}, {"step": "s2"}, {"approval": "q2"}],
    ids=str,
)
def test_another_call_cannot_begin_by_it(changed: dict[str, str]) -> None:
    with pytest.raises(ImpossibleEvent, match="does not allow exactly this call"):
        after(ASKED, APPROVED, msgspec.structs.replace(INTENT, **changed))


@pytest.mark.parametrize("changed", [{"call": CALLS[1]}, {"call": ""}, {"approval": "q2"}], ids=str)
def test_a_second_attempt_cannot_be_another_call(changed: dict[str, str]) -> None:
    again = msgspec.structs.replace(INTENT, attempt=2, **changed)
    with pytest.raises(ImpossibleEvent):
        after(ASKED, APPROVED, INTENT, StepInterrupted(step="s1"), again)


@pytest.mark.parametrize("verdict", ["denied", "edited", "expired", ""])
def test_no_other_verdict_lets_it_begin(verdict: Verdict) -> None:
    with pytest.raises(ImpossibleEvent):
        after(ASKED, Answered(by=WHO, question="q1", verdict=verdict), INTENT)


@pytest.mark.parametrize(
    "events",
    [
        (),
        (ASKED,),
        (ASKED, QuestionWithdrawn(question="q1")),
        (ASKED, Redirected(by=WHO, instruction="x")),
    ],
    ids=["never asked", "open", "withdrawn", "redirected"],
)
def test_without_an_answer_it_cannot_begin(events: tuple[Event, ...]) -> None:
    with pytest.raises(ImpossibleEvent):
        after(*events, INTENT)


@pytest.mark.parametrize("kind", ["question", "timer", "doubt"])
def test_only_an_approval_allows_a_call(kind: str) -> None:
    """Even if somebody managed to have another question answered with the word."""
    other = msgspec.structs.replace(ASKED, kind=kind)
    with pytest.raises(ImpossibleEvent):
        after(other, APPROVED, INTENT)


@pytest.mark.parametrize(
    "gone",
    [QuestionWithdrawn(question="q1"), Redirected(by=WHO, instruction="x")],
    ids=["withdrawn", "redirected"],
)
def test_a_withdrawn_card_cannot_be_approved(gone: Event) -> None:
    run = after(ASKED, gone)
    assert decide(run, Approve(by=WHO, question="q1")).verdict == "too_late"
    with pytest.raises(ImpossibleEvent):
        after(ASKED, gone, APPROVED)


@pytest.mark.parametrize("verb", [Approve, Deny])
@pytest.mark.parametrize(
    ("events", "state"),
    [
        ((), RunState.RUNNING),
        ((Requeued(),), RunState.QUEUED),
        ((Blocked(seen_seq=3),), RunState.WAITING),
        ((PauseRequested(by=WHO),), RunState.PAUSING),
        ((PauseRequested(by=WHO), Paused()), RunState.PAUSED),
        ((CancelRequested(by=WHO),), RunState.CANCELLING),
        ((CancelRequested(by=WHO), Cancelled()), RunState.CANCELLED),
        ((Completed(),), RunState.COMPLETED),
        ((Failed(error="boom"),), RunState.FAILED),
    ],
    ids=lambda given: given.value if isinstance(given, RunState) else "",
)
def test_an_open_card_is_answerable_in_every_living_state_and_in_no_other(
    events: tuple[Event, ...], state: RunState, verb: type[Approve | Deny]
) -> None:
    run = after(ASKED, *events)
    assert run.state is state
    decision = decide(run, verb(by=WHO, question="q1"))
    is_stopped = run.ended or state is RunState.CANCELLING
    assert decision.verdict == ("too_late" if is_stopped else "applied")
    for event in decision.events:
        answered = apply(run, Record("r1", run.seq + 1, 0, 0, event))
        assert answered.questions["q1"].status == "answered"
        assert answered.state is (RunState.QUEUED if state is RunState.WAITING else state)


@pytest.mark.parametrize(("now_ms", "verdict"), [(DUE_MS - 1, "applied"), (DUE_MS, "too_late")])
def test_a_card_expires_at_its_time_and_the_refusal_says_so(now_ms: int, verdict: str) -> None:
    for command in (
        Approve(by=WHO, question="q1"),
        Approve(by=WHO, question="q1", call=CALLS[1]),
        Deny(by=WHO, question="q1"),
    ):
        decision = decide(after(ASKED), command, now_ms=now_ms)
        if verdict == "too_late":
            assert (decision.verdict, decision.reason) == ("too_late", "expired")
            [answer] = decision.events
            assert isinstance(answer, Answered)
            assert (answer.verdict, answer.by) == ("expired", "clock")
        elif getattr(command, "call", "") != CALLS[1]:
            assert decision.verdict == "applied"


def has_begun_twice(records: list[Record]) -> bool:
    used = Ledger(records).used
    return len(used) > len(set(used))


def has_expired(records: list[Record]) -> bool:
    return any(isinstance(r.event, Answered) and r.event.verdict == "expired" for r in records)


def has_left_one_unused(records: list[Record]) -> bool:
    kept = Ledger(records)
    return replay("r1", records).ended and bool(kept.approved - set(kept.used))


def has_two_cards_for_a_step(records: list[Record]) -> bool:
    asked = [r.event for r in records if isinstance(r.event, QuestionAsked)]
    cards = [(card.step, card.call) for card in asked if card.kind == "approval"]
    return len({step for step, _ in cards}) < len(set(cards))


@pytest.mark.parametrize(
    "holds",
    [has_begun_twice, has_expired, has_left_one_unused, has_two_cards_for_a_step],
    ids=lambda holds: holds.__name__,
)
def test_the_histories_have_in_them_what_the_laws_are_about(
    holds: Callable[[list[Record]], bool],
) -> None:
    bound = settings(max_examples=3000, database=None, phases=[Phase.generate])
    assert holds(find(histories(), holds, settings=bound, random=random.Random(1)))
