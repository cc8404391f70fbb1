"""What a control surface shows of a run: its state in words, its cost, and what each button does.

Every surface that has buttons or keys shows this, and decides nothing of it itself.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
from msgspec.structs import asdict

from pullcord.core.conditions import (
    MaxSteps,
    MaxToolCalls,
    Spent,
    Tokens,
    Used,
    WorkingTime,
    leaves,
)
from pullcord.core.limits import CAPS, caps_in, progress
from pullcord.core.receipts import heading, kept_for_good, not_attempted
from pullcord.core.resting import needs_no_agent_to_end
from pullcord.core.run import Cost, Deletion, Run, Stop
from pullcord.core.show import words
from pullcord.core.states import NEEDS_OWNER, OFFERED, TABLE, RunState
from pullcord.core.undo import (
    children_to_undo,
    may_be_asked_to_undo,
    stays,
    to_undo,
    would_undo,
    would_undo_children,
)

_S = RunState
_TICKING: Final = {
    _S.QUEUED: "queued_ms",
    _S.WAITING: "waiting_ms",
    _S.PAUSED: "paused_ms",
}


_NEAR: Final = 0.8  # of a cap
_DECIDED: Final = {
    "approved": "approved, made on resume",
    "edited": "changed, asked about again on resume",
    "denied": "denied, told on resume",
}


class Button(msgspec.Struct, frozen=True, kw_only=True):
    """One thing a person can do now. `says`: what it will do; `off`: why it cannot be done."""

    verb: str
    label: str
    says: str = ""
    body: dict[str, bool] = {}
    off: str = ""
    strong: bool = False  # the one that the run is waiting for


class Items(msgspec.Struct, frozen=True):
    """How far a plan has got."""

    at: int
    of: int


class Next(msgspec.Struct, frozen=True):
    """The next item of the plan, as it was written and as somebody has rewritten it."""

    before: str
    after: str


class Meter(msgspec.Struct, frozen=True):
    """How much of one cap is used up."""

    cap: str
    used: float
    of: float
    says: str


class Reading(msgspec.Struct, frozen=True):
    """A number beside the clock. `near`: at four fifths of its cap, or beyond."""

    says: str
    near: bool = False


class Raisable(msgspec.Struct, frozen=True):
    """A cap that has stopped the run, and what it could be raised to."""

    cap: str
    used: float
    of: float
    suggest: float
    says: str = ""


class Panel(msgspec.Struct, frozen=True, kw_only=True):
    """A run as a control surface shows it."""

    run: str
    agent: str
    thread: str
    title: str = ""  # that somebody has given it
    parent: str | None
    seq: int
    state: RunState
    sign: str
    label: str
    says: str
    ended: bool
    at_ms: int  # wall clock, when this was looked at
    created_at_ms: int
    updated_at_ms: int
    doing: str  # what it does, waits for, or is stopping
    by: str  # who has paused, cancelled or stopped it, and why
    reason: str
    source: str
    hold_left_ms: int | None  # while pausing: how long the answer may still go on, unseen
    times: dict[str, int]
    ticking: str  # which of them grows now
    steps: int
    items: Items | None
    meters: tuple[Meter, ...]
    cost: dict[str, int]
    next: Next | None
    told: tuple[str, ...]  # instructions that wait to be handed over
    buttons: tuple[Button, ...]
    wants: int  # open approvals and questions
    attention: int
    raise_: tuple[Raisable, ...] = msgspec.field(name="raise")
    tally: dict[str, int]
    error: str
    driven: bool
    alone: str  # that no process drives it, although one should, or that it does not move
    still: str  # why the process that drives it does not move, if that is known
    quarantined: bool
    who: str = ""  # who stopped it, as it follows the label
    did: str = ""  # the tally in words
    readings: tuple[Reading, ...] = ()  # steps and spend, and whatever else is nearly used up
    spent: str = ""  # what that is made of
    needs: str = ""  # what it needs somebody for


def panel(
    run: Run,
    used: Used,
    *,
    now_ms: int,
    wall_ms: int,
    driven: bool,
    hold_s: float = 10.0,
    workers: Sequence[Run] = (),
    alive_ms: int = 0,
    still: str = "",
) -> Panel:
    """Return the run as a control surface shows it now.

    `used`: by it and everybody who works for it. `now_ms`: the steady clock. `driven`: a living
    process holds it. `hold_s`: how long a pause lets a model finish its answer. `workers`: those
    who work for it now. `alive_ms`: the last sign of life of whoever drove it. `still`: why whoever
    drives it does not move, if that is known.
    """
    row, hidden = TABLE[run.state], run.is_quarantined
    is_cared_for = driven or run.state not in NEEDS_OWNER
    stop = _in_force(run)
    raisable = tuple(_raisable(run, used))
    wants = sum(run.questions[name].kind != "timer" for name in run.open_questions())
    attention = len(run.to_look_at())
    meters, tally = tuple(_meters(run, used)), _tally(run)
    return Panel(
        run=run.id,
        agent=run.agent,
        thread=run.thread,
        title="" if hidden else run.title,
        parent=run.parent,
        seq=run.seq,
        state=run.state,
        sign=row.sign,
        label=row.label,
        says=_says(run),
        ended=run.ended,
        at_ms=wall_ms,
        created_at_ms=run.created_at_ms,
        updated_at_ms=run.at_ms,
        doing="" if hidden else str(run.forgotten or _doing(run)),
        by=stop.by if stop else "",
        reason=stop.reason if stop else "",
        source=stop.source if stop else "",
        hold_left_ms=_hold_left(run, wall_ms, hold_s),
        times=asdict(run.times_at(now_ms if is_cared_for else _last_worked(run, alive_ms, now_ms))),
        ticking=_TICKING.get(run.state, "working_ms") if is_cared_for and not run.ended else "",
        steps=run.begun,
        items=_items(run),
        meters=meters,
        cost=asdict(run.cost),
        next=None if hidden else _next(run),
        told=() if hidden else tuple(_told(run)),
        buttons=tuple(_buttons(run, raisable, workers)),
        wants=wants,
        attention=attention,
        raise_=raisable,
        tally=tally,
        did=words.tally(tally),
        who=words.by_whom(stop.by, stop.source) if stop else "",
        readings=tuple(_readings(run, meters)),
        spent=_spent(run.cost),
        needs=_needs(wants, attention, raisable),
        error="" if hidden else run.error,
        driven=driven,
        still=still,
        alone=_still(run, still) if driven else "" if is_cared_for else _alone(run),
        quarantined=hidden,
    )


# --- the line that says how it is ---------------------------------------------------------------


def _in_force(run: Run) -> Stop | None:
    """Who stopped it, if it is stopped or stopping."""
    if run.cancel:
        return run.cancel
    if run.reached:
        return Stop(0, "limits", run.reached.says, "limit", run.reached.asked_at_ms)
    if run.pause is None or run.state not in (_S.PAUSING, _S.PAUSED):
        return None
    if run.pause.source != "kill_switch":
        return run.pause
    return msgspec.structs.replace(run.pause, by=f"the kill switch ({run.pause.by})")


def _says(run: Run) -> str:
    """What is true while it is in this state, also of what is frozen or could not be stopped."""
    if run.forgotten:
        return _gone(run.forgotten)
    if run.state is _S.PAUSED and run.frozen:
        return (
            f"Nothing runs and nothing will start; {len(run.frozen)} frozen, as long as its "
            "process lives. Resume goes on from here, context kept."
        )
    left = [s for s in run.steps.values() if heading(s, ended=run.ended) == "still_running"]
    if run.state is _S.CANCELLED and left:
        goes_on = "still runs" if len(left) == 1 else "still run"
        return (
            f"Nothing new starts, but {', '.join(step.name for step in left)} could not be "
            f"stopped and {goes_on}. Finished work is kept."
        )
    return TABLE[run.state].says


def _gone(deleted: Deletion) -> str:
    return f"Its {deleted}. That it ran, how it ended and the chain of its records are kept."


def _doing(run: Run) -> str:
    match run.state:
        case _S.RUNNING | _S.STOPPING:
            return _under_way(run)
        case _S.PAUSING:
            if _answering(run):
                return "letting the answer finish"
            return f"letting {_names(run)} finish" if run.open_steps() else ""
        case _S.PAUSED:
            if run.frozen:
                return words.frozen(run.frozen)
            return ", ".join(f"{tool}: {_DECIDED[said]}" for tool, said in _decided(run))
        case _S.WAITING:
            return _waited_for(run)
        case _S.CANCELLING:
            return _stopping(run)
        case _:
            return ""


def _decided(run: Run) -> Iterator[tuple[str, str]]:
    """The calls that somebody has decided about since the pause: nothing has come of it yet."""
    if run.pause is None or run.state is not _S.PAUSED:
        return
    for asked in run.questions.values():
        if asked.verdict in _DECIDED and asked.settled_seq > run.pause.seq:
            yield asked.tool, asked.verdict


def _under_way(run: Run) -> str:
    for plan in reversed(run.plans.values()):
        if plan.started and not plan.ended:
            return plan.text(plan.items[plan.started - 1])
    if names := _names(run):
        return names
    return "the model is answering" if _answering(run) else ""


def _waited_for(run: Run) -> str:
    for name in run.open_questions():
        asked = run.questions[name]
        if asked.kind == "approval":
            return f"approve {asked.tool}"
        if asked.kind != "timer":
            return asked.text
    if children := run.living_children():
        return f"run {children[0]}"
    return "a timer" if run.open_questions() else ""


def _stopping(run: Run) -> str:
    left = to_undo(run)
    if not left and (children := children_to_undo(run)) and not run.living_children():
        return f"undoing what run {children[0]} did"
    if now := [step for step in left if run.steps[step].undo == "started"]:
        done = sum(step.undo in ("undone", "failed") for step in run.steps.values())
        return f"undoing {run.steps[now[0]].name} ({done + 1} of {done + len(left)})"
    if names := _names(run):
        return f"stopping {names}"
    if _answering(run):
        return "cutting the answer"
    if children := run.living_children():
        return f"stopping run {children[0]}"
    return ""


def _answering(run: Run) -> bool:
    return any(run.steps[step].model for step in run.open_steps())


def _names(run: Run) -> str:
    """What is under way, but for requests to models."""
    is_open = (run.steps[step] for step in run.open_steps())
    return ", ".join(dict.fromkeys(run.name_of(step) for step in is_open if not step.model))


def _hold_left(run: Run, wall_ms: int, hold_s: float) -> int | None:
    is_held = run.state is _S.PAUSING and _answering(run)
    if not is_held or run.pause is None or run.pause.hurried_seq:
        return None
    return max(round(hold_s * 1000) - max(wall_ms - run.pause.asked_at_ms, 0), 0)


def _last_worked(run: Run, alive_ms: int, now_ms: int) -> int:
    """Up to when somebody has worked on a run that nobody drives, as far as anybody knows."""
    return min(max(run.steady_ms, alive_ms), now_ms)


def _still(run: Run, why: str) -> str:
    if not why or run.state not in NEEDS_OWNER:
        return ""
    return f"It has not answered: {why}. What is asked of it stands, and counts when it goes on."


def _alone(run: Run) -> str:
    if run.cancel and run.pause and run.pause.source == "kill_switch":
        return (
            "The kill switch held it when it was cancelled. What is left is undone and released "
            "when the switch is released: pullcord kill-switch release"
        )
    if run.state is _S.CANCELLING and needs_no_agent_to_end(run):
        return (
            "Its process is gone, and nothing is left to undo or release. The next one that comes "
            f"here ends it; from a terminal: pullcord cancel {run.id}"
        )
    if run.cancel and run.state is _S.CANCELLING:
        here = f"; from a terminal: pullcord undo {run.id}" if run.cancel.undo else ""
        return (
            f"No process drives it. The next one that knows {run.agent} undoes and releases what "
            f"is left, and ends it{here}"
        )
    return (
        f"No process drives it. The next one that knows {run.agent} goes on with it; from a "
        f"terminal: pullcord resume {run.id}"
    )


def _needs(wants: int, attention: int, raisable: Sequence[Raisable]) -> str:
    said = (f"{wants} to answer" if wants else "", f"{attention} to look at" if attention else "")
    return ", ".join(filter(None, said)) or ("a limit to raise" if raisable else "")


# --- what it has used ---------------------------------------------------------------------------


def _meters(run: Run, used: Used) -> Iterator[Meter]:
    if run.limits is None:
        return
    names = {kind: name for name, kind in CAPS.items()}
    for leaf in leaves(run.limits.condition):
        if isinstance(leaf, MaxSteps | MaxToolCalls | Tokens | Spent | WorkingTime):
            says = progress(leaf, used)[0]
            yield Meter(names[type(leaf)], leaf.used(used), leaf.cap, says)


def _readings(run: Run, meters: Sequence[Meter]) -> Iterator[Reading]:
    said = {meter.cap: Reading(meter.says, meter.used >= _NEAR * meter.of) for meter in meters}
    steps = said.pop("steps", None) or Reading(words.count(run.begun, "step"))
    spend = said.pop("usd", None) or Reading(words.price(run.cost.usd_micros, 0))
    yield from (reading for reading in said.values() if reading.near)
    yield steps
    if spend.says != "$0.00":  # what has cost nothing needs no number
        yield spend


def _spent(cost: Cost) -> str:
    unknown = f"{words.count(cost.unknown_calls, 'call')} of unknown price"
    said = (words.tokens(cost.tokens_in, cost.tokens_out), unknown if cost.unknown_calls else "")
    return ", ".join(filter(None, said))


def _raisable(run: Run, used: Used) -> Iterator[Raisable]:
    if run.pause is None or run.state not in (_S.PAUSING, _S.PAUSED):
        return
    wanted = caps_in(run.pause.limits)
    for meter in _meters(run, used):
        if meter.cap in wanted:
            unit = "US dollars, " if meter.cap == "usd" else ""
            says = f"{unit}{meter.says} used"
            yield Raisable(meter.cap, meter.used, meter.of, meter.of * 2 or 1, says)


def _tally(run: Run) -> dict[str, int]:
    found = Counter(heading(s, ended=run.ended) for s in run.steps.values() if not s.model)
    unbegun = sum(1 for _ in not_attempted(run))
    headings = ("done", "undone", "could_not_undo", "in_doubt", "failed", "interrupted")
    tally = {name: found[name] for name in (*headings, "still_running", "under_way")}
    tally["not_attempted"] = found["not_attempted"] + unbegun
    tally["no_undo"] = len(kept_for_good(run))
    for child in run.children.values():
        if run.cancel and child.is_provisional:
            left = child.left
            unsettled = left.undo - child.taken_back
            tally["undone"] += child.taken_back
            tally["could_not_undo" if child.undo == "undone" else "done"] += max(unsettled, 0)
            tally["done"] += left.kept
            tally["no_undo"] += left.kept
    return tally


# --- what comes next ----------------------------------------------------------------------------


def _items(run: Run) -> Items | None:
    for plan in reversed(run.plans.values()):
        return Items(plan.started, len(plan.items))
    return None


def _next(run: Run) -> Next | None:
    is_over = run.ended or run.state in (_S.CANCELLING, _S.STOPPING)
    if is_over or (found := run.next_item()) is None:
        return None
    plan, item = found
    return Next(item.title, run.plans[plan].text(item))


def _told(run: Run) -> Iterator[str]:
    return (t.text for t in run.instructions.values() if t.status == "queued" and not t.item)


# --- the buttons --------------------------------------------------------------------------------


def _buttons(run: Run, raisable: tuple[Raisable, ...], workers: Sequence[Run]) -> Iterator[Button]:
    if run.ended:
        yield from _after_the_end(run)
        return
    if any(run.questions[name].kind != "timer" for name in run.open_questions()):
        yield Button(verb="review", label="Review", says="it waits for your word", strong=True)
    if raisable:
        caps = ", ".join(one.cap for one in raisable)
        yield Button(verb="raise", label="Raise the limit", says=f"more {caps}", strong=True)
    yield _pause_or_resume(run, raisable)
    yield _redirect(run)
    yield _cancel(run, workers)


def _pause_or_resume(run: Run, raisable: tuple[Raisable, ...]) -> Button:
    if run.state is _S.PAUSED:
        off = "raise the limit first: it would stop again at once" if raisable else ""
        changed = _next(run)
        is_new = any(_told(run)) or (changed and changed.before != changed.after)
        allowed = dict.fromkeys(tool for tool, said in _decided(run) if said == "approved")
        says = "goes on with the new instruction" if is_new else _goes_on(run)
        if allowed and not is_new:
            says = f"makes {', '.join(allowed)}, and goes on"
        return Button(verb="resume", label="Resume", says=says, off=off, strong=not raisable)
    if run.state is _S.PAUSING:
        is_hurried = run.pause is not None and run.pause.hurried_seq > 0
        says = _cutting(run) if _answering(run) else "stops what may be redone"
        off = "it is being cut" if is_hurried else _cannot_cut(run)
        return Button(verb="pause", label="Cut now", says=says, body={"now": True}, off=off)
    return Button(
        verb="pause", label="Pause", says="resume keeps context", off=_cannot(run, "pause")
    )


def _goes_on(run: Run) -> str:
    """What resume does, if nothing new was said."""
    cut = [step for step in run.steps.values() if step.model and step.status == "interrupted"]
    is_guarded = run.pause is not None and run.pause.source == "guard"  # not to be led there again
    asks_again = any(is_guarded or not step.continues for step in cut)
    return "asks again for the answer that was cut" if asks_again else "goes on where it stopped"


def _cutting(run: Run) -> str:
    asked = [run.steps[step] for step in run.open_steps() if run.steps[step].model]
    goes_on = all(step.continues for step in asked)
    return f"cuts the answer; resume {'goes on from there' if goes_on else 'asks again'}"


def _cannot_cut(run: Run) -> str:
    """Why the second press would change nothing: what may not be done twice is not cut."""
    is_open = [run.steps[step] for step in run.open_steps()]
    if not is_open or any(step.effect != "once" for step in is_open):
        return ""
    return f"{_names(run)} may not be done twice, so it is let finish"


def _redirect(run: Run) -> Button:
    says = "rewrites the next step" if _next(run) else _is_told(run)
    return Button(verb="redirect", label="Redirect", says=says, off=_cannot(run, "redirect"))


def _is_told(run: Run) -> str:
    """When an instruction reaches the agent: at once only if nothing has to end before."""
    if run.state in (_S.PAUSING, _S.PAUSED):
        return "it is told when resumed"
    if run.state is _S.QUEUED:
        return "it is told when it goes on"
    is_open = [run.steps[step] for step in run.open_steps()]
    if waits := [step for step in is_open if not (step.model or step.cut_by_redirect)]:
        names = ", ".join(dict.fromkeys(map(run.name_of, waits)))
        return f"it is told when {names} {'ends' if len(waits) == 1 else 'end'}"
    is_idle = run.state is _S.RUNNING and not is_open
    return "the agent is told at its next step" if is_idle else "the agent is told at once"


def _cancel(run: Run, workers: Sequence[Run]) -> Button:
    if run.state is _S.CANCELLING:
        is_hurried = run.cancel is not None and run.cancel.hurried_seq > 0
        kills = any(run.steps[s].run_in == "process" for s in run.open_steps())
        says = "kills the tool, may leave it half done" if kills else "does not wait any longer"
        says += _unstoppable(run)
        off = "it is being stopped as fast as it can be" if is_hurried else ""
        return Button(verb="cancel", label="Stop now", says=says, body={"now": True}, off=off)
    says = f"saves partial work · {_undoing(run, *workers)}{_unstoppable(run, *workers)}"
    return Button(verb="cancel", label="Cancel", says=says)


def _unstoppable(*family: Run) -> str:
    """What is under way in a thread, which goes on whatever is pressed. Said before the press."""
    names = dict.fromkeys(
        run.steps[step].name
        for run in family
        for step in run.open_steps()
        if run.steps[step].run_in == "thread"
    )
    return f" · cannot stop {', '.join(names)}" if names else ""


def _undoing(*family: Run) -> str:
    """What a cancel would mean for what these did, and those who have worked for them."""
    undone, kept, names = 0, 0, dict[str, None]()
    for one in family:
        undone += len(would_undo(one)) + sum(one.steps[s].undoable for s in one.open_steps())
        own = [step.name for step in one.steps.values() if stays(step)]
        kept, names = kept + len(own), names | dict.fromkeys(own)
        for child in one.children.values():
            if child.is_provisional:
                undone, kept = undone + child.left.undo, kept + child.left.kept
                names |= dict.fromkeys(child.left.names)
    if not undone and not kept:
        return "nothing to undo"
    named = f": {', '.join(names)}" if 0 < len(names) <= 2 else ""
    said = (f"undoes {undone}" if undone else "", f"cannot undo {kept}{named}" if kept else "")
    return ", ".join(filter(None, said))


def _cannot(run: Run, verb: str) -> str:
    if verb in OFFERED[run.state]:
        return ""
    if run.state is _S.CANCELLING:
        return "it is being cancelled"
    return "a limit is ending it" if run.state is _S.STOPPING else f"it is {run.state}"


def _after_the_end(run: Run) -> Iterator[Button]:
    if run.forgotten or run.is_quarantined:
        return
    if run.state is _S.FAILED:
        says = "what it finished is not repeated"
        yield Button(verb="fork", label="Try again", says=says, strong=True)
    if run.state is _S.STOPPED:
        says = "goes on from what it has done, with more"
        yield Button(verb="fork", label="Go on", says=says, strong=True)
    says = "you say what comes next"
    yield Button(verb="continue", label="Continue from here", says=says)
    left = len(would_undo(run)) + sum(
        run.children[name].left.undo - run.children[name].taken_back
        for name in would_undo_children(run)
    )
    if left and may_be_asked_to_undo(run):
        yield Button(verb="undo", label="Undo", says=f"takes back {left}")
