"""What the stop log says follows from the records: each stop is asked for once, and takes hold or
comes to nothing once. The oracle is the table of states alone."""

from collections import Counter

import pytest
from hypothesis import given

from pullcord.core.conditions import MaxSteps
from pullcord.core.events import (
    TAGS,
    Blocked,
    Cancelled,
    CancelRequested,
    Claimed,
    Completed,
    Created,
    Event,
    Failed,
    Hurried,
    LimitReached,
    Paused,
    PauseRequested,
    QuestionAsked,
    Record,
    Redirected,
    Requeued,
    Resumed,
    Spent,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
    StepUndone,
    Stopped,
    UndoStarted,
)
from pullcord.core.limits import Limits
from pullcord.core.run import Run
from pullcord.core.states import TABLE, RunState
from pullcord.core.stops import (
    NOTED,
    Act,
    Effects,
    InFlight,
    StepEnd,
    StopAsked,
    StopLapsed,
    StopTookHold,
    acts,
)
from tests.core.histories import apply, histories

ASKED = ("pause_requested", "cancel_requested", "limit_reached", "requeued")
ON_ITS_WAY = (RunState.PAUSING, RunState.STOPPING, RunState.CANCELLING)
HELD = (RunState.PAUSED, RunState.STOPPED, RunState.CANCELLED)


def logged(records: list[Record]) -> list[tuple[Record, Act]]:
    run, found = Run("r1"), list[tuple[Record, Act]]()
    for record in records:
        was, since = run.state, run.state_seq
        run = apply(run, record)
        said = list(acts(was, since, run, record, {}))
        assert not said or type(record.event) in NOTED
        found += [(record, act) for act in said]
    return found


def expected(records: list[Record]) -> Counter[tuple[int, str]]:
    """By the number of the record: what has to be said of it."""
    state, found = RunState.QUEUED, Counter[tuple[int, str]]()
    for record in records[1:]:
        tag = TAGS[type(record.event)]
        after = TABLE[state].on[tag]
        found[record.seq, "StopAsked"] += tag in ASKED
        found[record.seq, "StopHurried"] += tag == "hurried"
        moves = after is not state
        found[record.seq, "StopTookHold"] += (moves and after in HELD) or tag == "requeued"
        found[record.seq, "StopLapsed"] += moves and state in ON_ITS_WAY and after not in HELD
        state = after
    return +found + _redirects(records)


def _redirects(records: list[Record]) -> Counter[tuple[int, str]]:
    """A redirect that meets a request to a model, or a tool that yields to it, is a stop, too."""
    found, flying, pending = Counter[tuple[int, str]](), set[str](), dict[int, set[str]]()
    cut = set[int]()
    for record in records:
        event = record.event
        if isinstance(event, StepStarted) and (event.model or event.cut_by_redirect):
            flying.add(event.step)
        elif isinstance(event, Redirected) and flying:
            found[record.seq, "StopAsked"] += 1
            pending[record.seq] = set(flying)
        elif isinstance(event, StepFinished | StepFailed | StepInterrupted | StepInDoubt):
            flying.discard(event.step)
            for asked, left in list(pending.items()):
                if event.step not in left:
                    continue
                left.discard(event.step)
                if isinstance(event, StepInterrupted):
                    cut.add(asked)
                if not left:
                    found[record.seq, "StopTookHold" if asked in cut else "StopLapsed"] += 1
                    del pending[asked]
    return found


@pytest.mark.campaign
@given(records=histories())
def test_each_stop_is_asked_once_and_takes_hold_once_or_never(records: list[Record]) -> None:
    said = logged(records)
    assert Counter((r.seq, type(act).__name__) for r, act in said) == expected(records)
    asked = {r.seq for r, act in said if isinstance(act, StopAsked) and not act.again}
    ends = [act.asked_seq for _, act in said if isinstance(act, StopTookHold | StopLapsed)]
    assert len(ends) == len(set(ends))
    assert set(ends) <= asked
    run = Run("r1")
    for record in records:
        run = apply(run, record)
    redirects = {r.seq for r, act in said if isinstance(act, StopAsked) and act.verb == "redirect"}
    assert len(asked - redirects) - len(set(ends) - redirects) == (run.state in ON_ITS_WAY)


def told(*events: Event) -> list[Act]:
    begun = (Created(agent="churn", thread="t1", limits=Limits(MaxSteps(2))),)
    whole = (*begun, Claimed(owner="w", epoch=1), *events)
    records = [Record("r1", n, n * 10, 1, event) for n, event in enumerate(whole, start=1)]
    return [act for _, act in logged(records)]


def test_it_says_what_was_in_flight_and_what_had_been_done() -> None:
    [asked, held] = told(
        StepStarted(step="draft", name="draft", undoable=True, tool="draft"),
        StepFinished(step="draft"),
        StepStarted(step="look", name="look", effect="none"),
        StepFinished(step="look"),
        StepStarted(step="pay", name="pay", tool="pay", run_in="process"),
        StepStarted(step="ask", name="ask", model="scripted"),
        Spent(cost_usd_micros=7, tokens_in=3, tokens_out=2),
        PauseRequested(by="ana", reason="wrong path", via="page, session", key="k", now=True),
        StepInterrupted(step="ask", rung="transport_closed"),
        StepInDoubt(step="pay"),
        Paused(rung="killed"),
    )
    assert isinstance(asked, StopAsked)
    assert (asked.by, asked.source, asked.reason) == ("ana", "person", "wrong path")
    assert (asked.via, asked.key, asked.now, asked.verb) == ("page, session", "k", True, "pause")
    assert asked.state is RunState.RUNNING
    assert asked.in_flight == (
        InFlight(step="pay", name="pay", tool="pay", run_in="process"),
        InFlight(step="ask", name="ask", model="scripted"),
    )
    assert asked.effects == Effects(done=1, steps=("draft",), undoable=("draft",))
    assert (asked.used.usd_micros, asked.used.tokens) == (7, 5)
    assert held == StopTookHold(
        verb="pause",
        asked_seq=10,
        rung="killed",
        steps=(
            StepEnd(step="pay", name="pay", became="in_doubt"),
            StepEnd(step="ask", name="ask", became="interrupted", rung="transport_closed"),
        ),
    )


def test_it_says_what_was_undone_and_which_limit_was_reached() -> None:
    [asked, _] = told(
        StepStarted(step="draft", name="draft", undoable=True),
        StepFinished(step="draft"),
        LimitReached(by="limits", source="limit", leaves=("MaxSteps(2)",), then="stop"),
        Stopped(leaves=("MaxSteps(2)",)),
    )
    assert isinstance(asked, StopAsked)
    assert (asked.verb, asked.source, asked.limits) == ("limit", "limit", ("MaxSteps(2)",))
    [pause, cancel, lapsed] = told(
        StepStarted(step="draft", name="draft", undoable=True),
        StepFinished(step="draft"),
        PauseRequested(by="ana"),
        CancelRequested(by="guard", source="guard", quarantine=True),
        UndoStarted(step="draft"),
        StepUndone(step="draft"),
    )
    assert isinstance(pause, StopAsked)
    assert isinstance(cancel, StopAsked)
    assert (cancel.quarantine, cancel.source) == (True, "guard")
    assert lapsed == StopLapsed(verb="pause", asked_seq=5, state=RunState.CANCELLING)


PAUSE = PauseRequested(by="ana")
REDIRECT = Redirected(by="ana", instruction="stop that", reason="a confession", via="page")
ASK = StepStarted(step="ask", name="ask", model="scripted", effect="none")
TOOL = StepStarted(step="dig", name="dig", tool="dig")
YIELDS = StepStarted(step="dig", name="dig", tool="dig", cut_by_redirect=True)
CUT = StepInterrupted(step="ask", rung="transport_closed", redirected=True)


def test_a_redirect_that_cuts_a_stream_is_a_stop() -> None:
    [asked, held] = told(ASK, REDIRECT, CUT)
    assert isinstance(asked, StopAsked)
    assert (asked.verb, asked.by, asked.reason, asked.via) == (
        *("redirect", "ana"),
        *("a confession", "page"),
    )
    assert asked.in_flight == (InFlight(step="ask", name="ask", model="scripted", effect="none"),)
    end = StepEnd(step="ask", name="ask", became="interrupted", rung="transport_closed")
    assert held == StopTookHold(verb="redirect", asked_seq=4, rung="transport_closed", steps=(end,))


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ((REDIRECT,), ""),  # it cuts nothing: nothing is stopped
        ((TOOL, REDIRECT, StepFinished(step="dig")), ""),
        ((YIELDS, REDIRECT, StepInterrupted(step="dig")), "asked in_effect"),
        ((ASK, REDIRECT, StepFinished(step="ask")), "asked lapsed"),  # the answer was whole
        ((ASK, REDIRECT, StepFailed(step="ask", error="503")), "asked lapsed"),
        ((ASK, REDIRECT, REDIRECT, CUT), "asked asked in_effect in_effect"),
        ((ASK, YIELDS, REDIRECT, CUT, StepFinished(step="dig")), "asked in_effect"),
        ((ASK, TOOL, REDIRECT, CUT), "asked in_effect"),
        ((ASK, PAUSE, REDIRECT, CUT, Paused()), "asked asked in_effect in_effect"),
        ((ASK, CUT, REDIRECT), ""),
    ],
)
def test_a_redirect_is_a_stop_where_it_cuts_something(events: tuple[Event, ...], said: str) -> None:
    assert [act.__struct_config__.tag for act in told(*events)] == said.split()


@pytest.mark.parametrize(
    ("events", "said"),
    [
        ((Requeued(),), "asked in_effect"),
        ((PAUSE, Claimed(owner="w2", epoch=2)), "asked in_effect"),  # its owner had died
        ((PAUSE, Paused()), "asked in_effect"),
        ((PAUSE, Hurried(by="bo"), Paused()), "asked hurried in_effect"),
        ((PAUSE, Resumed(by="ana")), "asked lapsed"),
        ((PAUSE, Completed()), "asked lapsed"),
        ((PAUSE, Failed(error="boom")), "asked lapsed"),
        (
            (QuestionAsked(question="q"), Blocked(seen_seq=3), PAUSE),
            "asked in_effect",  # nothing in flight: at once
        ),
        ((PAUSE, Paused(), CancelRequested(by="bo"), Cancelled()), "asked in_effect " * 2),
        ((CancelRequested(by="bo"), CancelRequested(by="bo", quarantine=True)), "asked asked"),
        ((Completed(),), ""),
        ((Failed(error="boom"),), ""),
    ],
)
def test_whatever_stops_a_run_or_comes_before_that_is_said(
    events: tuple[Event, ...], said: str
) -> None:
    assert [act.__struct_config__.tag for act in told(*events)] == said.split()
