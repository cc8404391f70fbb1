"""What the runaway guards see, each kind of it, and what they let pass. Pure: a run, and what is
about to begin in it."""

import uuid
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import pytest

from pullcord.core.action_trail import KEPT, Runaway, check_runaway
from pullcord.core.events import (
    Answered,
    Event,
    Paused,
    PauseRequested,
    PlanEnded,
    PlanItem,
    Planned,
    QuestionAsked,
    Record,
    Redirected,
    Resumed,
    Spent,
    StepFailed,
    StepFinished,
    StepStarted,
)
from pullcord.core.runaway import seen
from pullcord.errors import InvalidInput
from tests.core.histories import apply
from tests.guards.lost import asked, call, coming, lived


def plan(number: int, *titles: str) -> Planned:
    items = tuple(PlanItem(f"p{number}-{n}", title) for n, title in enumerate(titles))
    return Planned(plan=f"p{number}", items=items)


def same(times: int) -> list[Event]:
    return [event for _ in range(times) for event in call("read", "a.txt")]


# --- the same call ------------------------------------------------------------------------------


def test_the_same_call_with_the_same_result_is_seen_before_the_sixth() -> None:
    assert not seen(lived(asked(), same(4)), coming("read", "a.txt"))
    what = seen(lived(asked(), same(5)), coming("read", "a.txt"))
    assert "called read 5 times in a row" in what
    assert "was about to call it again. That call was not begun." in what


def test_the_same_failure_again_and_again_is_seen_too() -> None:
    tries = [call("read", "a.txt", error="OSError: no such file") for _ in range(5)]
    assert "read 5 times" in seen(lived(asked(), *tries), coming("read", "a.txt"))


@pytest.mark.parametrize(
    "other",
    [coming("read", "b.txt"), coming("test"), StepStarted(step="m", name="model", model="m")],
    ids=["other arguments", "another tool", "a request to the model"],
)
def test_a_run_that_is_about_to_do_something_else_is_left_alone(other: StepStarted) -> None:
    assert not seen(lived(asked(), same(30)), other)


def test_another_result_is_news() -> None:
    polls = [call("progress", "job", f"{n // 4} %") for n in range(60)]  # four times each
    assert not seen(lived(asked(), *polls), coming("progress", "job"))


def test_another_call_in_between_begins_the_count_anew() -> None:
    done = lived(asked(), same(4), call("write", "a.txt"), same(4))
    assert not seen(done, coming("read", "a.txt"))


def test_arguments_are_the_same_in_any_order() -> None:
    orders = [{"a": 1, "b": 2}, {"b": 2, "a": 1}] * 3
    done = lived(asked(), *(call("find", args) for args in orders[:5]))
    assert "find 5 times" in seen(done, coming("find", orders[5]))


def test_a_call_that_its_tool_tries_again_is_one_call() -> None:
    tries: list[Event] = []
    for attempt in range(1, 10):
        tries.append(StepStarted(step="s", name="get", tool="get", attempt=attempt))
        tries.append(StepFailed(step="s", error="timed out"))
    run = lived(asked(), tries)
    assert not seen(run, StepStarted(step="s", name="get", tool="get", attempt=10))
    assert not seen(run, coming("get"))


def test_calls_that_are_still_under_way_are_like_no_other() -> None:
    begun = [StepStarted(step=f"w{n}", name="read", tool="read") for n in range(20)]
    assert not seen(lived(asked(), begun), coming("read"))


# --- a circle -----------------------------------------------------------------------------------


@pytest.mark.parametrize("period", [2, 3, 4])
def test_a_circle_is_seen_when_it_was_gone_round_four_times(period: int) -> None:
    paths = ["a.txt", "b.txt", "c.txt", "d.txt"][:period]
    three = [call("read", path) for _ in range(3) for path in paths]
    assert not seen(lived(asked(), *three), coming("read", paths[0]))
    four = [call("read", path) for _ in range(4) for path in paths]
    what = seen(lived(asked(), *four), coming("read", paths[0]))
    assert "round in a circle 4 times" in what
    assert " → ".join(["read"] * period) in what


def test_a_circle_with_an_edit_in_it_that_is_another_each_time_is_work() -> None:
    rounds = [
        made
        for n in range(20)
        for made in (call("read", "a.py"), call("edit", f"try {n}"), call("test", None, "1 failed"))
    ]
    assert not seen(lived(asked(), *rounds), coming("read", "a.py"))


def test_whoever_leaves_the_circle_is_left_alone() -> None:
    rounds = [made for _ in range(4) for made in (call("read", "a"), call("test"))]
    assert not seen(lived(asked(), *rounds), coming("edit", "a"))
    assert not seen(lived(asked(), *rounds), coming("test"))  # twice in a row is not that circle


# --- a circle whose results differ in counters, times or ids --------------------------------------

AGAIN = 8  # rounds: twice as many as of a circle with equal results
RESULTS: dict[str, Callable[[int], Any]] = {
    "a revision": lambda n: f"saved, now at revision {n}",
    "a counter in JSON": lambda n: {"ok": True, "rev": n},
    "a time": lambda n: f"done at 2026-11-18T01:{n % 60:02}:07.{n * 37 % 1000:03}Z",
    "a time of day": lambda n: f"[03:{n % 60:02}:{n * 7 % 60:02}] done",
    "seconds since 1970": lambda n: {"at": 1_763_427_000 + n * n},
    "a UUID": lambda n: {"id": str(uuid.UUID(int=n * 7919))},
    "a commit": lambda n: f"committed {sha256(str(n).encode()).hexdigest()[:12]}1a",
    "how long it took": lambda n: f"ok, took {n * 37 % 101} ms",
    "a failure with a number": lambda n: f"request {n} timed out",
}


def rounds(times: int, result: Callable[[int], Any], period: int = 2) -> list[list[Event]]:
    paths = ["tabs", "spaces", "both", "none"][:period]
    return [
        call("style", path, result(n * period + at))
        for n in range(times)
        for at, path in enumerate(paths)
    ]


@pytest.mark.parametrize("period", [2, 3, 4])
@pytest.mark.parametrize("what", RESULTS)
def test_a_circle_whose_results_differ_in_nothing_that_matters_is_seen(
    what: str, period: int
) -> None:
    before = rounds(AGAIN, RESULTS[what], period)
    assert not seen(lived(asked(), *before[:-1]), coming("style", "tabs"))
    found = seen(lived(asked(), *before), coming("style", "tabs"))
    assert "circle 8 times" in found
    assert "differ only in counters, times or ids" in found
    assert not seen(lived(asked(), *before), coming("style", "spaces"))  # it leaves the circle


PROGRESS: dict[str, Callable[[int], Any]] = {
    "percent": lambda n: f"{n * 2} % done",
    "so many of so many": lambda n: f"{n} of 80 files",
    "a fraction": lambda n: {"built": f"{n}/80"},
    "a countdown": lambda n: f"{300 - n} left in the queue",
    "lines, as they come": lambda n: f"{n * n % 7 + n * 10} lines so far",
    "lines that stand still at times": lambda n: {"lines": n // 3 * 40},
    "a page of numbers": lambda n: list(range(n * 10, n * 10 + 10)),
    "other words": lambda n: f"now at {'abcdefghijklmnopqrstuvwxyz'[n % 26] * (n + 1)}",
}


@pytest.mark.parametrize("what", PROGRESS)
def test_a_poller_that_sees_progress_is_left_alone(what: str) -> None:
    polls = [
        made
        for n in range(30)
        for made in (call("wait", 30, "waited 30 s"), call("status", "build", PROGRESS[what](n)))
    ]
    for upto in range(len(polls)):
        assert not seen(lived(asked(), *polls[:upto]), coming("wait", 30))
        assert not seen(lived(asked(), *polls[:upto]), coming("status", "build"))


def test_one_call_again_and_again_whose_number_grows_is_a_pager() -> None:
    pages = [call("next", None, f"page {n}") for n in range(60)]
    assert not seen(lived(asked(), *pages), coming("next"))


def test_such_a_circle_counts_by_the_threshold_that_was_given() -> None:
    three = Runaway(cycles=3)
    before = rounds(6, RESULTS["a revision"])
    assert seen(lived(*before, runaway=three), coming("style", "tabs"))
    assert not seen(lived(*before[1:], runaway=three), coming("style", "spaces"))
    off = Runaway(cycles=0)
    assert not seen(lived(*rounds(30, RESULTS["a time"]), runaway=off), coming("style", "tabs"))
    most = Runaway(cycles=16)  # no more calls are kept than that takes
    before = rounds(32, RESULTS["a time"])
    assert seen(lived(*before, runaway=most), coming("style", "tabs"))
    assert not seen(lived(*before[2:], runaway=most), coming("style", "tabs"))


def test_a_very_long_result_is_data() -> None:
    before = rounds(20, lambda n: "word " * 5000 + str(n))
    assert not seen(lived(asked(), *before), coming("style", "tabs"))


# --- no news ------------------------------------------------------------------------------------


def test_calls_that_tell_nothing_new_are_seen_whatever_their_order() -> None:
    orders = ("abcde", "badec", "ecabd", "dbaec", "cebda")
    known = [call("read", path) for order in orders for path in order]
    what = seen(lived(asked(), *known[:-1]), coming("read", "a"))
    assert "Nothing new has come of its last 19 calls: 14 of them repeated others" in what
    assert not seen(lived(asked(), *known[:21]), coming("read", "a"))  # 11 of them


def test_to_look_at_everything_again_after_a_change_is_no_runaway() -> None:
    hosts = [f"host-{n}" for n in range(20)]
    stages = [
        made
        for stage in ("staging", "canary", "all")
        for made in (call("deploy", stage), *(call("check", host, "ok") for host in hosts))
    ]
    for upto in range(len(stages)):
        for host in hosts[:3]:
            assert not seen(lived(asked(), *stages[:upto]), coming("check", host))


# --- plans --------------------------------------------------------------------------------------


def back_and_forth(times: int) -> list[Event]:
    return [plan(n, *(("rewrite",) if n % 2 else ("patch", "test"))) for n in range(times)]


def test_plans_that_are_changed_back_and_forth_are_seen() -> None:
    assert not seen(lived(back_and_forth(7)), plan(99, "rewrite"))
    what = seen(lived(back_and_forth(8)), plan(99, "patch", "test"))
    assert "the same 2 plans 4 times" in what
    assert not seen(lived(back_and_forth(8)), plan(99, "ask ana"))


def test_the_same_plan_made_again_and_again_is_seen() -> None:
    plans = [plan(n, "think") for n in range(5)]
    assert "the same plan 5 times" in seen(lived(plans), plan(99, "think"))


def test_plans_that_something_comes_of_may_be_as_alike_as_they_like() -> None:
    step = [StepStarted(step="s", name="work"), StepFinished(step="s")]
    for between in ([PlanEnded(plan="p7")], step, call("read", "new")):
        begun = back_and_forth(8)
        if isinstance(between[0], PlanEnded):
            begun[7] = Planned(plan="p7", items=())
        assert not seen(lived(begun, between), plan(99, "patch", "test"))


# --- money --------------------------------------------------------------------------------------


def paid(usd: float) -> Spent:
    return Spent(cost_usd_micros=round(usd * 1_000_000))


NEXT = StepStarted(step="m", name="model", model="m")


def test_spending_faster_than_allowed_is_seen_at_the_next_step_of_any_kind() -> None:
    run = lived([paid(2), paid(2), paid(1.5)])
    assert "spent $5.50 in 3 calls" in (what := seen(run, NEXT))
    assert "$5.00 are allowed" in what
    assert seen(run, coming("read")) == what


def test_money_that_was_spent_slowly_is_not_seen() -> None:
    assert not seen(lived([paid(2)] * 50, every_ms=30_000), NEXT)
    assert seen(lived([paid(2)] * 50, every_ms=19_000), NEXT)


def test_what_was_spent_before_a_long_call_is_over() -> None:
    run = lived([paid(2)] * 4)
    begun, ended = call("crunch")
    run = apply(run, Record("r1", run.seq + 1, run.at_ms, 1, begun))
    assert seen(run, NEXT)
    run = apply(run, Record("r1", run.seq + 1, run.at_ms + 90_000, 1, ended))
    assert not seen(run, NEXT)


def test_one_dear_call_is_not_a_rate() -> None:
    assert not seen(lived([paid(30)]), NEXT)
    assert not seen(lived([paid(3), paid(3)]), NEXT)


def test_what_nobody_knows_the_price_of_is_not_counted() -> None:
    assert not seen(lived([Spent(tokens_in=10**6)] * 50), NEXT)


def test_a_thousand_small_payments_are_all_counted() -> None:
    assert "spent $10.00 in 1000 calls" in seen(lived([paid(0.01)] * 1000, every_ms=1), NEXT)


def test_many_small_payments_count_for_a_minute_and_no_longer() -> None:
    """Two each second, for ten minutes."""
    slow = lived([paid(0.04)] * 1200, every_ms=500)
    assert not seen(slow, NEXT)
    assert len(slow.trail.spent) <= 60
    assert seen(lived([paid(0.05)] * 1200, every_ms=500), NEXT)


# --- what begins the count anew -----------------------------------------------------------------


def test_whoever_has_looked_begins_the_count_anew() -> None:
    spent = [paid(2)] * 4
    for looked in (
        [PauseRequested(by="guard"), Paused(), Resumed(by="ana")],
        [Redirected(by="ana", instruction="try b.txt")],
    ):
        run = lived(asked(), same(5), spent, looked[:1])
        for number, event in enumerate(looked[1:], start=1):
            run = apply(run, Record("r1", run.seq + 1, run.at_ms + number, 1, event))
        assert not seen(run, coming("read", "a.txt"))
        assert not run.trail.calls
        assert run.trail.is_chosen


def test_an_answer_or_the_end_of_a_wait_is_news() -> None:
    polls: list[Event] = []
    for n in range(30):
        polls += call("is_done", "job", False)
        polls.append(QuestionAsked(question=f"sleep-{n}", kind="timer"))
        polls.append(Answered(by="clock", source="clock", question=f"sleep-{n}"))
    assert not seen(lived(asked(), polls), coming("is_done", "job"))


# --- thresholds ---------------------------------------------------------------------------------


def test_what_an_agents_own_code_repeats_is_meant_unless_thresholds_were_given() -> None:
    assert not seen(lived(same(50)), coming("read", "a.txt"))
    assert seen(lived(same(5), runaway=Runaway()), coming("read", "a.txt"))


def test_thresholds_count_as_given() -> None:
    three = Runaway(same_call=3)
    assert seen(lived(same(3), runaway=three), coming("read", "a.txt"))
    assert not seen(lived(same(2), runaway=three), coming("read", "a.txt"))
    rounds = [made for _ in range(2) for made in (call("a"), call("b"))]
    assert "circle 2 times" in seen(lived(*rounds, runaway=Runaway(cycles=2)), coming("a"))


def test_nothing_is_seen_when_everything_is_off() -> None:
    off = Runaway.off()
    rounds = [made for _ in range(30) for made in (call("a"), call("b"))]
    assert not seen(lived(*rounds, [paid(9)] * 9, runaway=off), coming("a"))
    assert not seen(lived(same(60), runaway=off), coming("read", "a.txt"))
    assert not seen(lived(back_and_forth(40), runaway=off), plan(99, "rewrite"))


def test_a_tool_that_may_repeat_counts_for_nothing() -> None:
    patient = Runaway(may_repeat=("wait", "status"))
    rounds = [made for _ in range(30) for made in (call("wait", 30), call("status", "j", "runs"))]
    assert not seen(lived(*rounds, runaway=patient), coming("wait", 30))
    assert seen(lived(same(3), *rounds[:0], same(2), runaway=patient), coming("read", "a.txt"))


@pytest.mark.parametrize(
    "wrong",
    [
        Runaway(same_call=-1),
        Runaway(same_call=KEPT + 1),
        Runaway(cycles=1),
        Runaway(cycles=17),
        Runaway(no_news=49),
        Runaway(usd_per_minute=float("nan")),
        Runaway(usd_per_minute=-1),
        Runaway(same_call="5"),  # pyright: ignore[reportArgumentType]
        Runaway(may_repeat="wait"),  # pyright: ignore[reportArgumentType]
    ],
)
def test_a_threshold_that_cannot_be_kept_to_is_refused(wrong: Runaway) -> None:
    with pytest.raises(InvalidInput, match="Nothing was started"):
        check_runaway(wrong)


def test_the_trail_is_bounded() -> None:
    run = lived(asked(), *(call("read", n) for n in range(500)))
    assert len(run.trail.calls) == KEPT
