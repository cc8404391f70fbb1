"""The receipt of a stop: what had happened, what was taken back, what nobody knows."""

from collections.abc import Iterator, Mapping

import msgspec

from pullcord.core.events import Effect, Rung
from pullcord.core.limits import progress
from pullcord.core.run import Cost, Run, Step, Stop, Times
from pullcord.core.states import RunState
from pullcord.errors import RunForgotten


class StepLine(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One step of a receipt: what became of it, and what could be done about that."""

    step: str
    name: str
    heading: str
    tool: str = ""
    effect: Effect = "once"
    undoable: bool = False
    rung: Rung = ""  # that was needed to stop it
    model: str = ""  # it is a request to this model, and only listed here


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a run left behind, by step name in the order the steps began. Derived; never stored.

    Every step that began is in exactly one of `done`, `undone`, `could_not_undo`, `in_doubt`,
    `failed`, `interrupted` and, as long as the run has not ended, `under_way`; `steps` has them
    all, with their ids. `not_attempted` are calls that were not allowed or were stopped
    before they began, the items of a plan that never began, and instructions never delivered.
    `no_undo` are those of `done` that changed something and do not say how to take it back; none
    of a run that has completed, unless something of it was undone.
    """

    run_id: str
    state: RunState
    done: tuple[str, ...]
    undone: tuple[str, ...]
    could_not_undo: tuple[str, ...]
    in_doubt: tuple[str, ...]
    failed: tuple[str, ...]
    interrupted: tuple[str, ...]
    under_way: tuple[str, ...]  # a tool that is frozen, say
    not_attempted: tuple[str, ...]
    partial_text: tuple[str, ...]  # the parts that were cut
    attention: tuple[str, ...]
    steps: tuple[StepLine, ...]
    error: str  # of a failed run
    detached: tuple[str, ...]  # children that do not share its fate and may live on
    cost: Cost
    times: Times
    by: str
    reason: str
    source: str
    asked_at_ms: int
    effect_at_ms: int  # 0: not in effect yet
    rung: Rung
    limits: tuple[str, ...] = ()  # that have stopped or paused it
    used: tuple[str, ...] = ()  # of its limits, in words, by the run itself
    no_undo: tuple[str, ...] = ()  # could_not_undo: it says how, and that failed


def receipt(run: Run, texts: Mapping[str, str] | None = None) -> Receipt:
    """Return the receipt of the run as it is. Before its end it is the receipt so far.

    `texts`: what was said in each part, if at hand; without it a cut part is known by its id. Of a
    quarantined run it says what happened, and nothing of what was said.

    Raises:
        RunForgotten: nobody knows any more.
    """
    if run.forgotten:  # "done: nothing" would not be true
        raise RunForgotten(run.id, deleted=str(run.forgotten), what="show the receipt of")
    is_hidden = run.cancel is not None and run.cancel.quarantine
    said = {} if is_hidden else texts or {}
    steps = tuple(_line(name, step, ended=run.ended) for name, step in run.steps.items())

    def under(heading: str) -> tuple[str, ...]:
        return tuple(s.name for s in steps if s.heading == heading and not s.model)

    stop = run.cancel or run.pause
    limits = run.reached.leaves if run.reached else stop.limits if stop else ()
    if run.reached and not run.cancel:
        was = run.reached
        stop = Stop(0, "limits", was.says, "limit", was.asked_at_ms, effect_at_ms=was.effect_at_ms)
    used = progress(run.limits.condition, run.used_at(run.steady_ms)) if run.limits else []
    return Receipt(
        run_id=run.id,
        state=run.state,
        done=under("done"),
        undone=under("undone"),
        could_not_undo=under("could_not_undo"),
        in_doubt=under("in_doubt"),
        failed=under("failed"),
        interrupted=under("interrupted"),
        under_way=under("under_way"),
        not_attempted=() if is_hidden else (*under("not_attempted"), *not_attempted(run)),
        partial_text=tuple(
            said.get(part, part)
            for part, complete in run.texts.items()
            if not complete and not part.startswith("think-")
        ),
        attention=tuple(run.attention if is_hidden else run.attention.values()),
        steps=steps,
        error="" if is_hidden else run.error,
        detached=tuple(n for n, child in run.children.items() if child.detached),
        cost=run.cost,
        times=run.times,
        limits=limits,
        used=tuple(used),
        no_undo=kept_for_good(run),
        by=stop.by if stop else "",
        reason=stop.reason if stop else "",
        source=stop.source if stop else "",
        asked_at_ms=stop.asked_at_ms if stop else 0,
        effect_at_ms=stop.effect_at_ms if stop else 0,
        rung=stop.rung if stop else "",
    )


def not_attempted(run: Run) -> Iterator[str]:
    """What was planned, asked about or told, and never begun."""
    for plan in run.plans.values():
        yield from (plan.text(item) for item in plan.items[plan.started :])
    cards = {
        asked.step: asked for asked in run.questions.values() if asked.tool
    }  # the last of each
    for step, asked in cards.items():
        if step not in run.steps:
            yield f"{asked.tool} ({asked.verdict or asked.status})"
    for told in run.instructions.values():
        if told.status in ("queued", "returned") and not told.item:
            yield told.text


def has_no_undo(step: Step) -> bool:
    """Whether it changes something, and nothing says how to take that back."""
    return not step.model and step.effect != "none" and not step.undoable


def kept_for_good(run: Run) -> tuple[str, ...]:
    """What was done and cannot be undone, because nothing says how. Of a run that has completed
    nobody wanted it back, unless something of it was undone."""
    steps = run.steps.values()
    if run.state is RunState.COMPLETED and not any(step.undo for step in steps):
        return ()
    done = (step for step in steps if heading(step, ended=run.ended) == "done")
    return tuple(step.name for step in done if has_no_undo(step))


def _line(name: str, step: Step, *, ended: bool) -> StepLine:
    return StepLine(
        step=name,
        name=step.name,
        heading=heading(step, ended=ended),
        tool=step.tool,
        effect=step.effect,
        undoable=step.undoable,
        rung=step.rung,
        model=step.model,
    )


def heading(step: Step, *, ended: bool) -> str:
    """The one part of a receipt that this step belongs to. `ended`: its run has."""
    if step.status == "started" and not step.late_seq and not ended:
        return "under_way"
    if step.undo in ("undone", "failed"):
        return "undone" if step.undo == "undone" else "could_not_undo"
    if step.late_seq or step.status == "finished":  # late evidence says it did happen
        return "done"
    if not step.began:
        return "not_attempted"
    return "in_doubt" if step.status in ("in_doubt", "started") else step.status
