"""Each event has words, the same on every surface, and none that viewers may not have.

`golden/story.txt` has the sentences, to be read. If a sentence was changed on purpose:
`PULLCORD_GOLDEN=write pytest tests/core/test_story.py`.
"""

import os
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given

from pullcord.core.events import (
    TAGS,
    Answered,
    AttentionRaised,
    AttentionSettled,
    Blocked,
    CallRefused,
    Cancelled,
    CancelRequested,
    ChildBorn,
    ChildEnded,
    ChildUndone,
    Claimed,
    Completed,
    ConditionMet,
    Created,
    Deferred,
    DoubtSettled,
    Event,
    Failed,
    Forgotten,
    GuardTripped,
    Hurried,
    InstructionSettled,
    ItemRewritten,
    ItemStarted,
    LateResult,
    LimitReached,
    LimitsRaised,
    Paused,
    PauseRequested,
    PlanEnded,
    PlanItem,
    Planned,
    QuestionAsked,
    QuestionWithdrawn,
    Record,
    Redirected,
    Released,
    Remembered,
    Renamed,
    Requeued,
    Resumed,
    Signalled,
    Spent,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
    StepUndone,
    StoodStill,
    Stopped,
    TakenOver,
    TextEnded,
    UndoFailed,
    UndoRequested,
    UndoStarted,
)
from pullcord.core.fold import replay
from pullcord.core.show import words
from pullcord.core.show.story import Names, Told, line, tell
from pullcord.core.values import dump
from tests.core.filled_events import SHOWN, SHOWN_OF, WORD, full
from tests.core.histories import histories

GOLDEN: Final = Path(__file__).parent / "golden" / "story.txt"
PAY: Final = StepStarted(step="pay-0f3a", name="pay", tool="pay", run_in="process")
ASK: Final = StepStarted(step="model-1", name="model", model="gpt-5")
CALL: Final = QuestionAsked(
    question="q-0f3a",
    kind="approval",
    tool="pay",
    step="pay-0f3a",
    details=dump({"args": {"n": 3}}),
)
HAPPENED: Final[list[Event]] = [
    Created(agent="churn", thread="t", by="ana"),
    Created(agent="churn", thread="t"),
    Created(agent="churn", thread="t", by="ana", forked_from="r1", forked_at=7),
    Created(agent="churn", thread="t", by="ana", forked_from="r1", forked_at=7, aside=True),
    Claimed(owner="host-1", epoch=1),
    Claimed(owner="host-2", epoch=2, alive_ms=70_000),
    Claimed(owner="host-1", epoch=2, alive_ms=70_000, same_owner=True),
    TakenOver(owner="host-2", epoch=2, alive_ms=70_000),
    StoodStill(alive_ms=75_800),
    StoodStill(alive_ms=0),
    Requeued(),
    Blocked(seen_seq=3),
    PAY,
    ASK,
    StepStarted(step="look-0f3a", name="look", effect="none", run_in="loop"),
    StepStarted(step="mail-0f3a", name="mail", tool="mail", effect="idempotent", undoable=True),
    StepStarted(step="sum-0f3a", name="sum", tool="sum", run_in="thread", attempt=2),
    StepFinished(step="pay-0f3a", result=dump({"receipt": 7})),
    StepFinished(step="pay-0f3a", result=dump("paid 3")),
    StepFinished(step="pay-0f3a"),
    StepFinished(step="look-0f3a", result=dump({"exit": 0, "stdout": "one\n1,204 rows\n"})),
    StepFinished(step="model-1"),
    Spent(step="model-1", tokens_in=1200, tokens_out=340, cost_usd_micros=310_000),
    Spent(step="model-1", tokens_in=10, tokens_out=0),
    Spent(step="model-1", tokens_in=10, tokens_out=4, cost_usd_micros=20, estimated=True),
    Spent(cost_usd_micros=0),
    StepFailed(step="pay-0f3a", error="ValueError: no such account", at="bank.py:12, in pay"),
    StepFailed(step="pay-0f3a", error="TimeoutError", happened="maybe", rung="killed"),
    StepInterrupted(step="pay-0f3a", rung="killed", ladder_ms={"terminated": 3, "killed": 25}),
    StepInterrupted(step="pay-0f3a", rung="cooperative", redirected=True),
    StepInterrupted(step="sum-0f3a", rung="abandoned", still_running=("its thread",)),
    StepInterrupted(step="pay-0f3a", began=False),
    StepInterrupted(step="model-1", rung="transport_closed"),
    StepInDoubt(step="pay-0f3a", why="its process was lost"),
    DoubtSettled(step="pay-0f3a", choice="happened", by="ana"),
    DoubtSettled(step="pay-0f3a", choice="run", by="ana", reason="I looked"),
    DoubtSettled(step="pay-0f3a", choice="skip", by="ana"),
    LateResult(step="pay-0f3a"),
    LateResult(step="sum-0f3a", error="ValueError"),
    LateResult(step=""),
    CallRefused(step="pay-0f3a", name="pay", outcome="denied", why="too much"),
    CallRefused(step="pay-0f3a", name="pay", outcome="not_started"),
    CallRefused(step="pay-0f3a", name="pay", outcome="unknown"),
    UndoStarted(step="pay-0f3a"),
    UndoStarted(step="pay-0f3a", attempt=2, error="TimeoutError"),
    StepUndone(step="pay-0f3a"),
    UndoFailed(step="pay-0f3a", error="the bank is closed"),
    PauseRequested(by="ana", reason="check the join first"),
    PauseRequested(by="ana", now=True),
    PauseRequested(by="r1", source="parent"),
    PauseRequested(by="limits", source="limit", limits=("MaxSteps(4)",)),
    PauseRequested(by="ana", source="kill_switch", reason="drill"),
    Paused(rung="cooperative"),
    Paused(frozen=("crunch",)),
    Resumed(by="ana"),
    Redirected(by="ana", instruction="EU customers only"),
    InstructionSettled(instruction=7, outcome="delivered"),
    InstructionSettled(instruction=7, outcome="returned"),
    InstructionSettled(instruction=7, outcome="withdrawn"),
    CancelRequested(by="ana", reason="wrong path"),
    CancelRequested(by="ana", now=True, undo=False, keep_partial=False, quarantine=True),
    Hurried(by="ana"),
    Cancelled(rung="killed"),
    UndoRequested(by="ana"),
    UndoRequested(by="ana", step="pay-0f3a"),
    UndoRequested(by="ana", back_to="pay-0f3a"),
    LimitReached(by="limits", source="limit", leaves=("MaxSteps(4)",), then="wrap_up"),
    LimitsRaised(by="ana", caps={"steps": 80, "usd": 2.5}),
    Signalled(by="ana", name="deployed"),
    Renamed(by="ana", title="churn in May"),
    Renamed(by="ana", title=""),
    ConditionMet(condition="Said('DONE')"),
    Completed(result=dump("3 customers are at risk")),
    Completed(),
    Stopped(leaves=("MaxSteps(4)",)),
    Failed(error="ValueError: boom"),
    Remembered(key="now-1", value=dump(7)),
    Planned(plan="p", items=(PlanItem("i1", "Fetch"), PlanItem("i2", "Join"))),
    ItemRewritten(plan="p", item="i2", before="Join", after="Join, EU only"),
    ItemStarted(plan="p", item="i2", text="Join, EU only"),
    StepStarted(step="join-0f3a", name="Join", run_in="loop"),
    StepFinished(step="join-0f3a"),
    PlanEnded(plan="p"),
    Deferred(defer="lock-0f3a", name="lock"),
    Released(defer="lock-0f3a"),
    Released(defer="lock-0f3a", error="it is gone"),
    TextEnded(part="say-1", text="Three customers are at risk."),
    TextEnded(part="say-1", text="Three customers", complete=False),
    CALL,
    QuestionAsked(question="which-0f3a", text="Which region?"),
    QuestionAsked(question="timer-0f3a", kind="timer"),
    Answered(by="ana", question="q-0f3a", verdict="approved"),
    Answered(by="ana", question="q-0f3a", verdict="denied", reason="too much"),
    Answered(by="ana", question="q-0f3a", verdict="edited", value=dump({"n": 2})),
    Answered(by="clock", source="clock", question="q-0f3a", verdict="expired"),
    Answered(by="clock", source="clock", question="timer-0f3a"),
    Answered(by="ana", question="which-0f3a", value=dump("EU")),
    QuestionWithdrawn(question="q-0f3a", why="the call has changed"),
    ChildBorn(child="r2", agent="crawler"),
    ChildBorn(child="r3", detached=True),
    ChildEnded(child="r2", state="completed"),
    ChildUndone(child="r2", steps=3),
    ChildUndone(child="r2"),
    AttentionRaised(item="pay-0f3a", text="pay could not be undone"),
    AttentionSettled(item="pay-0f3a", by="ana"),
    AttentionSettled(item="undo-pay-0f3a", by="ana"),
    AttentionSettled(item="other", by="ana"),
    GuardTripped(guard="canary", on_hit="cancel", evidence="zzword"),
    GuardTripped(guard="canary", on_hit="pause", evidence="zzword"),
    Forgotten(
        by="ana", agent="churn", thread="t", state="completed", epoch=1, created_at_ms=0,
        ended_at_ms=0, reason="asked to",
    ),
]  # fmt: skip


def told(event: Event, *, names: Names | None = None, hide: bool = False) -> str:
    known = names or Names()
    known.hide = hide
    return line(tell(Record("r1", 9, 80_000, 1, event), known))


def test_the_sentences_are_those_that_were_read() -> None:
    names = Names()
    found = "".join(f"{TAGS[type(event)]:<20} {told(event, names=names)}\n" for event in HAPPENED)
    if os.environ.get("PULLCORD_GOLDEN") == "write":
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


def test_every_event_is_among_them() -> None:
    assert {type(event) for event in HAPPENED} == set(TAGS)


def test_no_sentence_names_a_thing_by_its_id_or_in_words_of_the_code() -> None:
    said = GOLDEN.read_text()
    assert "0f3a" not in said
    inside = {"task_cancel", "transport_closed", "stop_requested", "not_started", "kill_switch"}
    sentences = "\n".join(row[21:] for row in said.splitlines())
    assert [word for word in (*inside, "None", "null", "_") if word in sentences] == []
    assert "0 tokens" not in sentences.replace("1,200 tokens", "").replace("10 tokens", "")


def is_shown(kind: type[Event], field: str) -> bool:
    return field in SHOWN or f"{kind.__name__}.{field}" in SHOWN_OF


def with_words(kind: type[Event]) -> Event:
    """The event with `zzword` wherever viewers of a quarantined run may not have what is there."""
    fields = {one.name: one for one in msgspec.structs.fields(kind)}
    bare = {name: 1 for name, one in fields.items() if one.required}
    given = full(kind)
    for name in filter(lambda name: is_shown(kind, name), full(kind)):
        given[name] = {str: "a", tuple: ("a",), dict: {"steps": 1.0}}[type(given[name])]
    made: Any = kind
    return made(**(bare | given))


@pytest.mark.parametrize("kind", TAGS, ids=lambda kind: kind.__name__)
def test_what_is_withheld_is_in_no_word_of_a_quarantined_run(kind: type[Event]) -> None:
    """Also not where it gives a name to something that a later record is about."""
    names = Names()
    for earlier in (StepStarted, QuestionAsked, Planned, ItemRewritten, AttentionRaised):
        names.learn(with_words(earlier))
    assert WORD not in told(with_words(kind), names=names, hide=True)


@given(histories())
def test_the_words_do_not_depend_on_where_a_reader_begins(records: list[Record]) -> None:
    """A page that reads on from a record says the same as one that has read from the first."""
    run = replay("r1", records)

    def all_told(records: list[Record], names: Names) -> list[Told]:
        names.hide = run.is_quarantined
        return [tell(record, names) for record in records]

    for at in range(0, len(records), 3):
        assert all_told(records[at:], Names(run)) == all_told(records, Names())[at:]


def test_a_bill_says_what_is_known_and_no_zeros() -> None:
    assert words.bill(0, 0, None) == "price unknown"
    assert words.bill(None, 4, 310_000) == "4 tokens out, $0.31"
    assert words.price(0, 2) == "2 calls of unknown price"


def test_a_plain_step_is_not_said_to_have_no_undo() -> None:
    """Steps are `once` unless they say otherwise: that says nothing about an undo."""
    assert "undo" not in told(StepStarted(step="s", name="fetch"))
    assert "has no undo" in told(PAY)
