"""Whether a run seems to have lost its way: asked of every step and plan that is about to begin.

It is asked about what is *coming*, not about what was: a run that has done the same thing many
times and now does another one has found its way by itself. What an agent's own code repeats is
meant; calls are counted where a model chooses them, or where somebody has set thresholds.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

from pullcord.core.action_trail import (
    KEPT,
    PERIODS,
    WINDOW_S,
    Made,
    Runaway,
    Trail,
    call_mark,
    plan_mark,
)
from pullcord.core.events import (
    Answered,
    ChildEnded,
    Event,
    PlanEnded,
    Planned,
    Record,
    Redirected,
    Resumed,
    Spent,
    StepFailed,
    StepFinished,
    StepStarted,
)
from pullcord.core.likeness import is_progress
from pullcord.core.run import Run

_CALLS_FOR_A_RATE: Final = 3
_MICROS: Final = 1_000_000
_NOT_BEGUN: Final = "That call was not begun."


def seen(run: Run, coming: Event) -> str:
    """Say what makes the run look lost if `coming` were to begin now. Empty: nothing does."""
    limits = run.runaway or Runaway()
    match coming:
        case Planned():
            titles = (item.title for item in coming.items)
            return _plans(run.trail.plans, plan_mark(titles), limits)
        case StepStarted():
            return _spending(run, limits) or _repeating(run, coming, limits)
        case _:
            return ""


def _repeating(run: Run, coming: StepStarted, limits: Runaway) -> str:
    if not coming.tool or not _is_counted(run) or coming.attempt > 1:
        return ""
    calls = [made for made in run.trail.calls if made.tool not in limits.may_repeat]
    return _calls(calls, call_mark(coming.tool, coming.args), coming.tool, limits)


def _calls(calls: list[Made], call: str, tool: str, limits: Runaway) -> str:
    known = [made.known for made in calls]
    if _is_repeated(known, limits.same_call) and calls[-1].call == call:
        return (
            f"It has called {tool} {_times(limits.same_call)} in a row with the same arguments "
            f"and the same result, and was about to call it again. {_NOT_BEGUN}"
        )
    period = _circle(known, limits.cycles)
    if period and calls[-period].call == call:
        tools = " → ".join(made.tool for made in calls[-period:])
        return (
            f"It has gone round in a circle {_times(limits.cycles)}, with the same arguments "
            f"and the same results: {tools}. It was about to go round again. {_NOT_BEGUN}"
        )
    return _alike(calls, call, limits.cycles) or _no_news(calls, call, limits.no_news)


def _alike(calls: list[Made], call: str, cycles: int) -> str:
    """A circle whose results differ only in counters, times or ids. It takes twice as many rounds
    to be called one, and none of the counters may tell of progress."""
    for period in PERIODS if cycles else ():
        rounds = min(2 * cycles, KEPT // period)
        last = calls[-period * rounds :]
        is_circle = _goes_round([made.alike for made in last], period, rounds)
        if not is_circle or last[0].call != call:
            continue
        if any(is_progress([made.numbers for made in last[n::period]]) for n in range(period)):
            continue
        tools = " → ".join(made.tool for made in last[:period])
        return (
            f"It has gone round in a circle {_times(rounds)}, with the same arguments and with "
            f"results that differ only in counters, times or ids: {tools}. It was about to go "
            f"round again. {_NOT_BEGUN}"
        )
    return ""


def _no_news(calls: list[Made], call: str, most: int) -> str:
    """Calls that repeat others, all of them made since anything new came of one. To look at
    everything once more after something has changed is not that."""
    if not most or len(calls) < most or all(made.call != call for made in calls):
        return ""
    stretch = calls[_last_news(calls) :]
    first: set[object] = set()
    repeated: list[Made] = []
    for made in stretch:
        if made.known in first:
            repeated.append(made)
        first.add(made.known)
    if len(repeated) < most or all(made.call != call for made in stretch):
        return ""
    tools = ", ".join(sorted({made.tool for made in repeated}))
    return (
        f"Nothing new has come of its last {len(stretch)} calls: {len(repeated)} of them repeated "
        f"others among them, with the same arguments and the same results ({tools}). {_NOT_BEGUN}"
    )


def _last_news(calls: list[Made]) -> int:
    """The place behind the last call of which something came that had not come before."""
    before: set[tuple[str, str]] = set()
    place = 0
    for number, made in enumerate(calls, start=1):
        if made.known is None or made.known not in before:
            place = number
        if made.known is not None:
            before.add(made.known)
    return place


def _plans(plans: Sequence[str], coming: str, limits: Runaway) -> str:
    if _is_repeated(plans, limits.same_call) and plans[-1] == coming:
        return (
            f"It has made the same plan {_times(limits.same_call)} in a row without anything new "
            "in between, and was about to make it again."
        )
    period = _circle(plans, limits.cycles)
    if period and plans[-period] == coming:
        return (
            f"It has gone through the same {period} plans {_times(limits.cycles)}, one after the "
            "other and without anything new in between, and was about to do it again."
        )
    return ""


def _spending(run: Run, limits: Runaway) -> str:
    if not run.trail.spent:
        return ""
    since = working_ms(run, run.steady_ms) // 1000 - WINDOW_S
    recent = [paid for paid in run.trail.spent if paid.second > since]
    usd = sum(paid.usd_micros for paid in recent) / _MICROS
    calls = sum(paid.calls for paid in recent)
    if not limits.usd_per_minute or calls < _CALLS_FOR_A_RATE or usd <= limits.usd_per_minute:
        return ""
    return (
        f"It has spent ${usd:,.2f} in {calls} calls within one minute of its working time, "
        f"and ${limits.usd_per_minute:,.2f} are allowed. The next one was not begun."
    )


def working_ms(run: Run, at_ms: int) -> int:
    """The clock that spending is measured by: it stands still while the run does."""
    return run.times_at(at_ms).working_ms


def _circle(items: Sequence[object], times: int) -> int:
    """How many different things the last of `items` are a repetition of, so many times. Or 0."""
    periods = (period for period in PERIODS if times and _goes_round(items, period, times))
    return next(periods, 0)


def _goes_round(items: Sequence[object], period: int, times: int) -> bool:
    last = items[-period * times :]
    is_long = len(last) == period * times
    return is_long and None not in last and len(set(last)) > 1 and last[period:] == last[:-period]


def _is_repeated(items: Sequence[object], times: int) -> bool:
    """Whether the last of `items` are all the same, so many times."""
    last = items[-times:] if times else ()
    return len(last) == times > 0 and None not in last and len(set(last)) == 1


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


# --- keeping the trail --------------------------------------------------------------------------


def follow(run: Run, record: Record) -> None:
    """Keep the trail of a draft that `record` has just changed. Part of `evolve`."""
    if keep := _KEEPS.get(type(record.event)):
        run.trail = keep(run, record.event, record.steady_ms)


def _is_counted(run: Run) -> bool:
    """Whether its calls count: a model chooses them, or somebody has set thresholds."""
    return run.runaway is not None or run.trail.is_chosen


def _started(run: Run, event: StepStarted, _at_ms: int) -> Trail:
    if event.tool and not _is_counted(run):
        return run.trail.worked()
    if event.tool:
        again = event.attempt > 1
        return run.trail.called(event.step, event.tool, event.args, again=again)
    return run.trail.chosen() if event.model else run.trail


def _decided(run: Run, event: StepFinished | StepFailed, _at_ms: int) -> Trail:
    step = run.steps[event.step]
    if step.model:
        return run.trail
    if not step.tool or not _is_counted(run):
        return run.trail.worked()
    if isinstance(event, StepFinished):
        return run.trail.came(event.step, "finished", bytes(event.result))
    return run.trail.came(event.step, "failed", event.error)


def _spent(run: Run, event: Spent, at_ms: int) -> Trail:
    if not event.cost_usd_micros:
        return run.trail
    return run.trail.paid(working_ms(run, at_ms), event.cost_usd_micros)


_KEEPS: Final[dict[type[Event], Callable[[Run, Any, int], Trail]]] = {
    StepStarted: _started,
    StepFinished: _decided,
    StepFailed: _decided,
    Spent: _spent,
    Planned: lambda run, event, _at_ms: run.trail.planned(item.title for item in event.items),
    PlanEnded: lambda run, _event, _at_ms: run.trail.worked(),
    Answered: lambda run, _event, _at_ms: run.trail.news(),
    ChildEnded: lambda run, _event, _at_ms: run.trail.news(),
    Resumed: lambda run, _event, _at_ms: run.trail.anew(),
    Redirected: lambda run, _event, _at_ms: run.trail.anew(),
}
