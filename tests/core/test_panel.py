"""What a surface shows is what the core would do: no button lies about itself."""

import msgspec
import pytest
from hypothesis import given

from pullcord.core.commands import Cancel, Command, Pause, Redirect, Resume, Undo
from pullcord.core.conditions import MaxSteps, Spent, Used
from pullcord.core.decide import decide
from pullcord.core.events import (
    Answered,
    AttentionRaised,
    AttentionSettled,
    Cancelled,
    CancelRequested,
    Claimed,
    Completed,
    Created,
    Event,
    Failed,
    Hurried,
    ItemRewritten,
    ItemStarted,
    LateResult,
    Paused,
    PauseRequested,
    PlanItem,
    Planned,
    QuestionAsked,
    Record,
    Redirected,
    StepFinished,
    StepInterrupted,
    StepStarted,
    UndoFailed,
    UndoStarted,
    Verdict,
)
from pullcord.core.fold import replay
from pullcord.core.limits import Limits
from pullcord.core.receipts import receipt
from pullcord.core.run import Run
from pullcord.core.show.panel import Button, Panel, panel
from pullcord.core.states import TABLE, TERMINAL, RunState
from tests.core.histories import after, histories

ASKS: dict[str, Command] = {
    "pause": Pause(by="ana"),
    "resume": Resume(by="ana"),
    "redirect": Redirect(by="ana", instruction="EU only"),
    "cancel": Cancel(by="ana"),
    "undo": Undo(by="ana"),
}


def shown(run: Run, *, used: Used | None = None, driven: bool = True) -> Panel:
    seen = used or run.used_at(run.steady_ms)
    return panel(run, seen, now_ms=run.steady_ms, wall_ms=run.at_ms + 3000, driven=driven)


def button(on: Panel, verb: str) -> Button:
    [found] = [one for one in on.buttons if one.verb == verb]
    return found


@given(histories())
def test_a_button_that_is_on_does_what_it_says(records: list[Record]) -> None:
    run = replay("r1", records)
    on = shown(run)
    assert on.label == TABLE[run.state].label
    for one in on.buttons:
        if (asked := ASKS.get(one.verb)) is not None:
            pressed = msgspec.structs.replace(asked, **one.body)
            works = decide(run, pressed).verdict == "applied"
            assert works or one.off, f"{one.label} in {run.state}"


@given(histories())
def test_every_living_run_has_its_three_thoughts_and_no_ended_one_has_any(
    records: list[Record],
) -> None:
    run = replay("r1", records)
    verbs = [one.verb for one in shown(run).buttons]
    if run.state in TERMINAL:
        assert not {"pause", "resume", "redirect", "cancel"} & set(verbs)
    else:
        assert ("pause" in verbs) != ("resume" in verbs)
        assert verbs[-2:] == ["redirect", "cancel"]


@given(histories())
def test_it_can_be_sent_to_a_browser(records: list[Record]) -> None:
    on = shown(replay("r1", records))
    assert msgspec.json.decode(msgspec.json.encode(on), type=Panel) == on


def test_every_state_has_a_sign_of_its_own() -> None:
    assert len({row.sign for row in TABLE.values()}) == len(RunState)


PLAN = Planned(
    plan="p", items=(PlanItem("a", "Fetch"), PlanItem("b", "Score"), PlanItem("c", "Memo"))
)


def running(*events: Event) -> Run:
    return after(Claimed(owner="o", epoch=1), *events)


def test_it_says_what_it_does_by_the_plan() -> None:
    on = shown(running(PLAN, ItemStarted(plan="p", item="a", text="Fetch")))
    assert on.doing == "Fetch"
    assert on.items is not None
    assert (on.items.at, on.items.of) == (1, 3)
    assert on.next is not None
    assert (on.next.before, on.next.after) == ("Score", "Score")
    assert button(on, "redirect").says == "rewrites the next step"


def test_a_rewritten_item_is_a_diff_and_resume_says_that_it_is_new() -> None:
    run = running(
        PLAN,
        ItemStarted(plan="p", item="a", text="Fetch"),
        PauseRequested(by="ana", reason="check"),
        Paused(),
        Redirected(by="ana", instruction="EU only"),
        ItemRewritten(plan="p", item="b", before="Score", after="EU only"),
    )
    on = shown(run)
    assert on.next is not None
    assert (on.next.before, on.next.after) == ("Score", "EU only")
    assert button(on, "resume").says == "goes on with the new instruction"
    assert (on.by, on.reason) == ("ana", "check")


def test_that_the_kill_switch_holds_it_is_said_and_no_button_depends_on_a_release() -> None:
    held = PauseRequested(by="ana", source="kill_switch", reason="drill", now=True)
    on = shown(running(held, Paused()))
    assert (on.by, on.reason, on.source) == ("the kill switch (ana)", "drill", "kill_switch")
    assert button(on, "resume").says == "goes on where it stopped"  # true before and after


@pytest.mark.parametrize(
    ("begun", "says"),
    [
        ((), "the agent is told at its next step"),
        ((StepStarted(step="m", name="model", model="gpt-5"),), "the agent is told at once"),
        ((StepStarted(step="s", name="look", cut_by_redirect=True),), "the agent is told at once"),
        ((StepStarted(step="s", name="crunch"),), "it is told when crunch ends"),
        (
            (StepStarted(step="s", name="crunch"), StepStarted(step="t", name="fetch")),
            "it is told when crunch, fetch end",
        ),
    ],
)
def test_redirect_says_when_the_agent_is_told(begun: tuple[Event, ...], says: str) -> None:
    assert button(shown(running(*begun)), "redirect").says == says


def test_what_is_told_while_it_is_held_is_told_when_it_is_resumed() -> None:
    pausing = shown(running(StepStarted(step="s", name="look"), PauseRequested(by="ana")))
    for on in (pausing, shown(running(PauseRequested(by="ana"), Paused()))):
        assert button(on, "redirect").says == "it is told when resumed"


@pytest.mark.parametrize(
    ("verdict", "doing", "resume"),
    [
        ("approved", "pay: approved, made on resume", "makes pay, and goes on"),
        ("edited", "pay: changed, asked about again on resume", ""),
        ("denied", "pay: denied, told on resume", ""),
    ],
)
def test_a_decision_about_a_call_of_a_paused_run_says_when_it_counts(
    verdict: Verdict, doing: str, resume: str
) -> None:
    asked = QuestionAsked(question="q1", kind="approval", tool="pay")
    held = [asked, PauseRequested(by="ana"), Paused()]
    answered = Answered(by="bo", question="q1", verdict=verdict)
    on = shown(running(*held, answered))
    assert on.doing == doing
    assert button(on, "resume").says == (resume or "goes on where it stopped")
    before = shown(running(asked, answered, PauseRequested(by="ana"), Paused()))
    assert before.doing == ""


def test_a_cancel_that_has_nothing_to_undo_says_so() -> None:
    run = running(StepStarted(step="s1", name="look", effect="none"), StepFinished(step="s1"))
    assert button(shown(run), "cancel").says == "saves partial work · nothing to undo"


LEFT: list[Event] = [
    StepStarted(step="s1", name="draft", undoable=True),
    StepFinished(step="s1"),
    StepStarted(step="s2", name="pay"),
    StepFinished(step="s2"),
    StepStarted(step="s3", name="put", effect="idempotent"),
    StepFinished(step="s3"),
    StepStarted(step="s4", name="look", effect="none"),
    StepFinished(step="s4"),
    StepStarted(step="s5", name="ask", model="m"),
    StepFinished(step="s5"),
]


def test_the_receipt_says_what_nothing_can_undo_apart_from_an_undo_that_failed() -> None:
    cancelled = [
        CancelRequested(by="ana"),
        UndoStarted(step="s1"),
        UndoFailed(step="s1", error="no"),
    ]
    run = running(*LEFT, *cancelled, Cancelled())
    made = receipt(run)
    assert made.no_undo == ("pay", "put")
    assert made.could_not_undo == ("draft",)
    assert made.done == ("pay", "put", "look")
    assert shown(run).tally["no_undo"] == 2


def test_nobody_is_told_of_a_run_that_has_completed_what_could_not_be_undone() -> None:
    run = running(*LEFT, Completed())
    assert receipt(run).no_undo == ()
    assert shown(run).tally["no_undo"] == 0


def test_cancel_names_what_it_undoes_and_what_it_cannot() -> None:
    run = running(
        StepStarted(step="s1", name="draft", undoable=True),
        StepFinished(step="s1"),
        StepStarted(step="s2", name="pay"),
        StepFinished(step="s2"),
        StepStarted(step="s3", name="look", effect="none"),
        StepFinished(step="s3"),
        StepStarted(step="s4", name="hold", undoable=True),
    )
    assert button(shown(run), "cancel").says == "saves partial work · undoes 2, cannot undo 1: pay"


def test_cancel_says_before_the_press_what_it_cannot_stop() -> None:
    run = running(
        StepStarted(step="s1", name="look", effect="none", run_in="thread"),
        StepFinished(step="s1"),
        StepStarted(step="s2", name="mail", effect="none", run_in="thread"),
        StepStarted(step="s3", name="crunch", effect="none", run_in="process"),
    )
    says = "saves partial work · nothing to undo · cannot stop mail"
    assert button(shown(run), "cancel").says == says


def test_what_goes_on_although_it_was_stopped_is_not_called_interrupted() -> None:
    left = ("process 7 (sleep)",)
    cut = [
        StepStarted(step="s1", name="look", effect="none"),
        CancelRequested(by="ana"),
        StepInterrupted(step="s1", rung="abandoned", still_running=left),
        AttentionRaised(item="s1", kind="not_stoppable", text="look at it"),
        Cancelled(rung="abandoned"),
    ]
    made = receipt(running(*cut))
    assert (made.interrupted, made.still_running) == ((), ("look",))
    assert made.steps[0].still_running == left
    assert shown(running(*cut)).tally["still_running"] == 1
    settled = receipt(running(*cut, AttentionSettled(by="ana", item="s1")))
    assert (settled.interrupted, settled.still_running) == (("look",), ())
    late = receipt(running(*cut, LateResult(step="s1", error="it failed")))
    assert (late.interrupted, late.still_running) == (("look",), ())


def test_while_it_pauses_the_hold_is_counted_down_and_the_second_press_cuts() -> None:
    asking = StepStarted(step="model-1", name="ask", model="m", effect="none")
    run = running(asking, PauseRequested(by="ana"))
    on = shown(run)
    assert on.doing == "letting the answer finish"
    assert on.hold_left_ms == 7000
    assert (button(on, "pause").label, button(on, "pause").body) == ("Cut now", {"now": True})
    hurried = shown(running(asking, PauseRequested(by="ana"), Hurried(by="ana")))
    assert hurried.hold_left_ms is None
    assert button(hurried, "pause").off


def test_cut_now_says_whether_the_answer_is_gone_on_with_and_so_does_resume() -> None:
    for continues, then, resume in (
        (True, "goes on from there", "goes on where it stopped"),
        (False, "asks again", "asks again for the answer that was cut"),
    ):
        asking = StepStarted(
            step="model-1", name="ask", model="m", effect="none", continues=continues
        )
        pausing = running(asking, PauseRequested(by="ana"))
        assert button(shown(pausing), "pause").says == f"cuts the answer; resume {then}"
        cut = [StepInterrupted(step="model-1"), Paused()]
        paused = running(asking, PauseRequested(by="ana"), *cut)
        assert button(shown(paused), "resume").says == resume
    guarded = PauseRequested(by="guard harbour", source="guard")  # it would be led there again
    asking = StepStarted(step="model-1", name="ask", model="m", effect="none", continues=True)
    paused = running(asking, guarded, StepInterrupted(step="model-1"), Paused())
    assert button(shown(paused), "resume").says == "asks again for the answer that was cut"


def test_cut_now_is_not_offered_for_what_may_not_be_done_twice() -> None:
    pay = StepStarted(step="s1", name="pay")
    look = StepStarted(step="s2", name="look", effect="none")
    off = button(shown(running(pay, PauseRequested(by="ana"))), "pause").off
    assert off == "pay may not be done twice, so it is let finish"
    assert button(shown(running(pay, look, PauseRequested(by="ana"))), "pause").off == ""


def test_while_it_is_cancelled_it_says_what_it_stops() -> None:
    run = running(
        StepStarted(step="s1", name="crunch", run_in="process"), CancelRequested(by="ana")
    )
    on = shown(run)
    assert on.doing == "stopping crunch"
    assert button(on, "cancel").says == "kills the tool, may leave it half done"


def test_what_a_quarantined_run_was_about_is_not_shown() -> None:
    run = running(
        PLAN,
        StepStarted(step="s1", name="leak"),
        CancelRequested(by="ana", quarantine=True),
        StepInterrupted(step="s1"),
    )
    on = shown(run)
    assert (on.doing, on.next, on.quarantined) == ("", None, True)


def test_meters_show_what_is_used_against_the_caps() -> None:
    limits = Limits(MaxSteps(40) | Spent(usd=2))
    run = running()
    run.limits = limits
    on = shown(run, used=Used(steps=3, usd_micros=310_000))
    assert [(m.cap, m.used, m.of) for m in on.meters] == [("steps", 3, 40), ("usd", 0.31, 2)]
    assert on.meters[1].says == "$0.31 of $2.00"


def test_a_run_stopped_by_its_limit_offers_to_raise_it() -> None:
    run = running(PauseRequested(by="limits", source="limit", limits=("MaxSteps(40)",)), Paused())
    run.limits = Limits(MaxSteps(40))
    on = shown(run, used=Used(steps=40))
    assert [(r.cap, r.of, r.suggest) for r in on.raise_] == [("steps", 40, 80)]
    assert on.buttons[0].verb == "raise"
    assert button(on, "resume").off


def test_what_nobody_drives_says_so_and_its_clock_stands_still() -> None:
    on = shown(running(), driven=False)
    assert "No process drives it" in on.alone
    assert on.ticking == ""


@pytest.mark.parametrize(
    ("end", "verbs"),
    [
        (Completed(), ["continue"]),
        (Failed(error="boom"), ["fork", "continue"]),
    ],
)
def test_after_the_end_one_can_go_on(end: Event, verbs: list[str]) -> None:
    assert [one.verb for one in shown(running(end)).buttons] == verbs


def test_an_open_question_comes_first() -> None:
    on = shown(running(QuestionAsked(question="q1", kind="approval", tool="pay")))
    assert on.buttons[0].verb == "review"
    assert on.wants == 1


def test_a_new_run_can_be_shown() -> None:
    run = replay("r1", [Record("r1", 1, 5, 0, Created(agent="a", thread="t"))])
    assert shown(run).state == "queued"


def test_a_cancel_button_names_no_zeros() -> None:
    kept = (StepStarted(step="s", name="pay", tool="pay"), StepFinished(step="s"))
    assert button(shown(running(*kept)), "cancel").says == "saves partial work · cannot undo 1: pay"
    undoable = StepStarted(step="s", name="book", tool="book", undoable=True)
    says = button(shown(running(undoable, StepFinished(step="s"))), "cancel").says
    assert says == "saves partial work · undoes 1"


def test_a_tally_names_no_zeros() -> None:
    done = (StepStarted(step="s", name="look", effect="none"), StepFinished(step="s"), Completed())
    assert shown(running(*done)).did == "1 done"
    assert shown(running(Completed())).did == ""


def test_what_is_frozen_is_not_said_to_be_nothing() -> None:
    begun = StepStarted(step="s", name="crunch", tool="crunch", run_in="process")
    on = shown(running(begun, PauseRequested(by="ana"), Paused(frozen=("crunch",))))
    assert on.says.startswith("Nothing runs and nothing will start; 1 frozen")
    assert on.doing == "frozen as long as its process lives: crunch"


def test_a_cancelled_run_is_not_stopped_for_good_while_something_of_it_runs() -> None:
    begun = StepStarted(step="s", name="crunch", tool="crunch", run_in="thread")
    left = StepInterrupted(step="s", rung="abandoned", still_running=("its thread",))
    named = AttentionRaised(item="s", kind="not_stoppable", text="crunch may be going on")
    stopped = (begun, CancelRequested(by="ana"), left, named, Cancelled())
    on = shown(running(*stopped))
    assert "crunch could not be stopped and still runs" in on.says
    assert (on.did, on.needs) == ("1 still running", "1 to look at")
    late = running(*stopped, LateResult(step="s"))  # that work has ended: it is taken back
    assert shown(late).says == TABLE[RunState.CANCELLED].says
    assert (shown(late).did, shown(late).needs) == ("1 done (1 has no undo)", "")
    assert receipt(late).attention == ()


def test_what_is_under_way_is_named_by_what_is_done_not_by_what_was_planned() -> None:
    plan = Planned(plan="p", items=(PlanItem("i", "Join against MRR table"),))
    told = Redirected(by="ana", instruction="Join EU customers only")
    rewritten = ItemRewritten(
        plan="p", item="i", before="Join against MRR table", after="Join EU customers only"
    )
    item = ItemStarted(plan="p", item="i", text="Join EU customers only")
    begun = StepStarted(step="s", name="Join against MRR table")
    run = running(plan, told, rewritten, item, begun, StepFinished(step="s"))
    assert receipt(run).done == ("Join EU customers only",)
    hidden = running(
        *(plan, told, rewritten, item, begun, CancelRequested(by="ana", quarantine=True))
    )
    seen = msgspec.json.encode(shown(hidden)) + msgspec.json.encode(receipt(hidden))
    assert b"EU" not in seen  # what somebody said to a quarantined run is withheld
