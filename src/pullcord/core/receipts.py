"""The receipt of a stop: what had happened, what was taken back, what nobody knows."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import msgspec

from pullcord.core.events import Effect, Record, Rung, TextEnded
from pullcord.core.limits import progress
from pullcord.core.run import Cost, Run, Step, Stop, Times
from pullcord.core.states import RunState
from pullcord.core.undo import has_no_undo as has_no_undo
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
    error: str = ""  # it failed: how its error begins, and where in a sync tool it was raised
    still_running: tuple[str, ...] = ()  # what of it went on, or may, although it was stopped
    run: str = ""  # of a run that worked for this one; empty: its own
    final: bool = False  # that run was started as final, or worked for one, which has completed

    @property
    def said(self) -> str:
        """Its name, and whose it is."""
        if not self.run:
            return self.name
        return f"{self.name} (in {self.run}{', final' if self.final else ''})"


class Receipt(msgspec.Struct, frozen=True, kw_only=True):
    """What a run left behind, by step name in the order the steps began. Derived; never stored.

    With it, and behind its own, what those left behind who worked for it, each with its run. Cost,
    times and text are the run's own.

    Every step that began and is no request to a model is in exactly one of `done`, `undone`,
    `could_not_undo`, `in_doubt`, `failed`, `interrupted`, `still_running` (it was interrupted, and
    could not be stopped: it or what it has started) and, as long as the run has not ended,
    `under_way`. `steps` has them all and the requests, with their ids and what of each still runs.
    `not_attempted` are calls that were not allowed or were stopped before they began, the items of
    a plan that never began, and instructions never delivered.
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
    partial_text: tuple[str, ...]  # the parts that were cut; empty where that is withheld
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
    still_running: tuple[str, ...] = ()


def ended_texts(records: Iterable[Record]) -> dict[str, str]:
    """Return what was said in each part that has ended."""
    return {r.event.part: r.event.text for r in records if isinstance(r.event, TextEnded)}


def receipt(
    run: Run, texts: Mapping[str, str] | None = None, family: Sequence[tuple[Run, bool]] = ()
) -> Receipt:
    """Return the receipt of the run as it is. Before its end it is the receipt so far.

    `family`: those who work for it or have worked for it, and of each whether its work is final.

    `texts`: what was said in each part, if at hand; a cut part that is not in it is empty. Of a
    quarantined run it says what happened, and nothing of what was said.

    Raises:
        RunForgotten: nobody knows any more.
    """
    if run.forgotten:  # "done: nothing" would not be true
        raise RunForgotten(run.id, deleted=str(run.forgotten), what="show the receipt of")
    is_hidden = run.is_quarantined
    said = {} if is_hidden else texts or {}
    own = (_line(run, name, is_hidden=is_hidden) for name in run.steps)
    steps = (*own, *(line for one, final in family for line in _lines_of(run, one, final=final)))

    def under(heading: str) -> tuple[str, ...]:
        return tuple(s.said for s in steps if s.heading == heading and not s.model)

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
        still_running=under("still_running"),
        not_attempted=() if is_hidden else (*under("not_attempted"), *not_attempted(run)),
        partial_text=tuple(
            said.get(part, "")
            for part, complete in run.texts.items()
            if not complete and not part.startswith("think-")
        ),
        attention=tuple(
            text
            for one in (run, *(one for one, _ in family))
            for text in _open(one, is_hidden=is_hidden or one.is_quarantined)
        ),
        steps=steps,
        error="" if is_hidden else run.error,
        detached=tuple(n for n, child in run.children.items() if child.detached),
        cost=run.cost,
        times=run.times,
        limits=limits,
        used=tuple(used),
        no_undo=(*kept_for_good(run), *_kept_by(run, steps)),
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
            is_lost = run.ended and asked.verdict == "approved"
            said = "approved; nothing was called" if is_lost else asked.verdict or asked.status
            yield f"{asked.tool} ({said})"
    for told in run.instructions.values():
        if told.status in ("queued", "returned") and not told.item:
            yield told.text


def kept_for_good(run: Run) -> tuple[str, ...]:
    """What was done and cannot be undone, because nothing says how. Of a run that has completed
    nobody wanted it back, unless something of it was undone."""
    steps = run.steps.values()
    if run.state is RunState.COMPLETED and not any(step.undo for step in steps):
        return ()
    done = (step for step in steps if heading(step, ended=run.ended) == "done")
    return tuple(run.name_of(step) for step in done if has_no_undo(step))


def _kept_by(run: Run, steps: Sequence[StepLine]) -> Iterator[str]:
    """The same of those who worked for it."""
    theirs = [line for line in steps if line.run]
    is_wanted = run.state is not RunState.COMPLETED or any(s.heading == "undone" for s in theirs)
    for line in theirs if is_wanted else ():
        if line.heading == "done" and not (line.model or line.effect == "none" or line.undoable):
            yield line.said


def _open(run: Run, *, is_hidden: bool) -> Iterator[str]:
    """What a person has to look at; of a run whose payloads were deleted, that nobody can."""
    if run.forgotten:
        yield f"What run {run.id} did is not known any more: its {run.forgotten}."
    yield from run.to_look_at() if is_hidden else run.to_look_at().values()


def _lines_of(run: Run, one: Run, *, final: bool) -> Iterator[StepLine]:
    """What somebody did who worked for the run. Of what is still wanted back when that has ended,
    nobody has come who knows how."""
    is_hidden = one.is_quarantined or run.is_quarantined
    for name, step in one.steps.items():
        line = _line(one, name, is_hidden=is_hidden)
        if run.ended and step.undo in ("wanted", "started"):
            line = msgspec.structs.replace(line, heading="could_not_undo")
        yield msgspec.structs.replace(line, run=one.id, final=final)


def _line(run: Run, name: str, *, is_hidden: bool) -> StepLine:
    step = run.steps[name]
    return StepLine(
        step=name,
        name=run.name_of(step),
        heading=heading(step, ended=run.ended),
        tool=step.tool,
        effect=step.effect,
        undoable=step.undoable,
        rung=step.rung,
        model=step.model,
        error="" if is_hidden else step.error,
        still_running=step.still_running,
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
    if step.status == "interrupted" and step.still_running:
        return "still_running"
    may_have = step.status == "failed" and step.maybe and step.effect != "none"
    return "in_doubt" if may_have or step.status in ("in_doubt", "started") else step.status
