"""How records become a run: `apply` one, or `replay` all. Knows nothing of who may ask what."""

from collections.abc import Callable, Iterable
from typing import Any, Final, cast

import msgspec

from pullcord.core.conditions import CalledTool, Condition, External, Said, Used, kinds_of, leaves
from pullcord.core.events import (
    TAGS,
    Answered,
    Asked,
    AttentionRaised,
    AttentionSettled,
    Blocked,
    Cancelled,
    CancelRequested,
    ChildBorn,
    ChildEnded,
    ChildUndone,
    Claimed,
    ConditionMet,
    Created,
    Deferred,
    DoubtSettled,
    Event,
    Failed,
    Forgotten,
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
    Planned,
    QuestionAsked,
    QuestionWithdrawn,
    Record,
    Redirected,
    Released,
    Renamed,
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
from pullcord.core.limits import Reached, raised
from pullcord.core.run import (
    Child,
    Cost,
    Deletion,
    Instruction,
    Plan,
    Question,
    Run,
    Step,
    StepStatus,
    Stop,
    Times,
)
from pullcord.core.runaway import follow
from pullcord.core.states import TABLE, TERMINAL, RunState
from pullcord.core.undo import (
    children_to_undo,
    may_have_happened,
    to_undo,
    undo_item,
    would_undo,
    would_undo_children,
)
from pullcord.errors import ImpossibleEvent


def replay(run_id: str, records: Iterable[Record]) -> Run:
    """Rebuild a run from its records."""
    run = Run(run_id)
    for record in records:
        evolve(run, record)
    return run


def evolve(run: Run, record: Record) -> None:
    """Change a draft that nobody else holds to what it is after `record`.

    `apply` and `replay` are made of this; so is a journal's own cache. If it raises, the draft
    is spoilt and must be thrown away.
    """
    event, seq = record.event, record.seq
    tag = TAGS[type(event)]
    if type(event) is Forgotten:
        return _forgotten(run, event, record)
    if run.forgotten:
        raise ImpossibleEvent(run.id, event=tag, why=f"its {run.forgotten}")
    if seq != run.seq + 1:
        raise ImpossibleEvent(run.id, event=tag, why=f"it has number {seq} after {run.seq}")
    if type(event) is Created:
        _created(run, event, record)
    else:
        after = TABLE[run.state].on.get(tag) if run.seq else None
        if after is None:
            state = run.state.value if run.seq else "not created yet"
            raise ImpossibleEvent(run.id, event=tag, why=f"the run is {state}")
        _count_time(run, event, record, after)
        if effect := _EFFECTS.get(type(event)):
            effect(run, event, record)
        follow(run, record)
        if isinstance(event, Asked):
            run.control_seq = seq
        if after is not run.state:
            run.state = after
            run.state_seq = seq
            if after in TERMINAL:
                _close(run, tag, seq)
    run.seq = seq
    run.at_ms, run.steady_ms = record.at_ms, record.steady_ms
    return None


def ends(event: Event) -> bool:
    """Whether a run has ended with this: nothing more has to be waited for."""
    return TAGS[type(event)] in TERMINAL or isinstance(event, Forgotten)


def _forgotten(run: Run, event: Forgotten, record: Record) -> None:
    """All that is left of the run is in this one event, whatever of it was known before: whoever
    has seen its records is left with the same as who comes later and finds nothing else."""
    after = TABLE[run.state].on.get(TAGS[Forgotten]) if run.seq == record.seq - 1 else event.state
    if record.seq <= run.seq or run.forgotten or after != event.state or after not in TERMINAL:
        why = f"it is {run.state} at record {run.seq}"
        raise ImpossibleEvent(run.id, event="forgotten", why=why)
    used = event.used or Used()
    left = Run(
        run.id,
        seq=record.seq,
        state=RunState(event.state),
        state_seq=record.seq,
        control_seq=record.seq,
        at_ms=record.at_ms,
        created_at_ms=event.created_at_ms,
        steady_ms=record.steady_ms,
        since_ms=record.steady_ms,
        agent=event.agent,
        thread=event.thread,
        parent=event.parent,
        epoch=event.epoch,
        times=Times(working_ms=used.working_ms),
        below=msgspec.structs.replace(used, working_ms=0),
        withdrawn_seq=record.seq,
        forgotten=Deletion(event.by, event.reason, record.at_ms),
    )
    for field in left.__struct_fields__:
        setattr(run, field, getattr(left, field))


def _created(run: Run, event: Created, record: Record) -> None:
    if run.seq:
        raise ImpossibleEvent(run.id, event="created", why="the run exists already")
    run.agent, run.thread, run.parent = event.agent, event.thread, event.parent
    run.code_version, run.model = event.code_version, event.model
    run.forked_from, run.forked_at = event.forked_from, event.forked_at
    run.limits, run.below, run.price = event.limits, event.used or Used(), event.price
    run.runaway, run.trace, run.depth = event.runaway, event.trace, event.depth
    run.state_seq = record.seq
    run.created_at_ms, run.since_ms = record.at_ms, record.steady_ms


def _count_time(run: Run, event: Event, record: Record, after: RunState) -> None:
    """Put the time since the last change of state where it belongs."""
    if run.ended:
        return  # its clock stands still, whatever is still undone
    if isinstance(event, Claimed) and run.state not in (RunState.QUEUED, RunState.WAITING):
        _count_a_gap(run, event.alive_ms, record)  # a takeover
    elif type(event) is StoodStill:
        _count_a_gap(run, event.alive_ms, record)
    elif after is not run.state:
        run.times = run.times.plus(run.state, record.steady_ms - run.since_ms)
    else:
        return
    run.since_ms = record.steady_ms


def _count_a_gap(run: Run, alive_ms: int, record: Record) -> None:
    """After its last sign of life nobody worked on the run, as far as anybody knows."""
    until_ms = min(max(run.steady_ms, alive_ms), record.steady_ms)
    run.times = run.times.plus(run.state, until_ms - run.since_ms)
    run.times = run.times.plus(RunState.QUEUED, record.steady_ms - until_ms)


def _close(run: Run, tag: str, seq: int) -> None:
    """What a run's end means for what was still open in it."""
    if still_open := run.open_steps():
        raise ImpossibleEvent(run.id, event=tag, why=f"step {still_open[0]} is not decided yet")
    if alive := run.living_children():
        raise ImpossibleEvent(run.id, event=tag, why=f"its child {alive[0]} has not ended yet")
    _withdraw(run, seq, kinds=None)
    for number, told in run.instructions.items():
        if told.status == "queued":  # never called delivered: it goes back to its author
            run.instructions[number] = msgspec.structs.replace(told, status="returned")


def _withdraw(run: Run, seq: int, *, kinds: frozenset[str] | None) -> None:
    for name, asked in run.questions.items():
        if asked.status == "open" and (kinds is None or asked.kind in kinds):
            run.questions[name] = msgspec.structs.replace(
                asked, status="withdrawn", settled_seq=seq
            )


def _claimed(run: Run, event: Claimed, record: Record) -> None:
    if event.epoch != run.epoch + 1:
        why = f"it claims epoch {event.epoch} after epoch {run.epoch}"
        raise ImpossibleEvent(run.id, event="claimed", why=why)
    run.epoch, run.owner = event.epoch, event.owner
    run.trace, run.life = run.trace or event.trace, event.trace or run.life
    run.code_version = event.code_version or run.code_version
    run.frozen = ()
    is_paused_with_it = run.state is RunState.PAUSING and not isinstance(event, TakenOver)
    if is_paused_with_it and run.pause:  # in a journal of before: today it is said later
        run.pause = msgspec.structs.replace(run.pause, effect_at_ms=record.at_ms, rung="abandoned")


def _pause_requested(run: Run, event: PauseRequested, record: Record) -> None:
    asked = _stop(event, record)
    if run.state is not RunState.RUNNING:  # nothing in flight: in effect as it is asked
        asked = msgspec.structs.replace(asked, effect_at_ms=record.at_ms, frozen=run.frozen)
    run.pause = msgspec.structs.replace(
        asked, hurried_seq=record.seq if event.now else 0, limits=event.limits
    )


def _resumed(run: Run, _event: Resumed, _record: Record) -> None:
    run.pause = None


def _paused(run: Run, event: Paused, record: Record) -> None:
    run.frozen = event.frozen
    if run.pause:
        run.pause = msgspec.structs.replace(
            run.pause, effect_at_ms=record.at_ms, rung=event.rung, frozen=event.frozen
        )


def _cancel_requested(run: Run, event: CancelRequested, record: Record) -> None:
    first = run.cancel or msgspec.structs.replace(
        _stop(event, record), undo=event.undo, back_to=event.back_to, family=event.family
    )
    run.cancel = msgspec.structs.replace(  # asked for again: only ever made stronger
        first,
        keep_partial=event.keep_partial and first.keep_partial,
        quarantine=event.quarantine or first.quarantine,
        hurried_seq=record.seq if event.now else first.hurried_seq,
    )
    if event.quarantine and not first.quarantine:
        run.withdrawn_seq = record.seq
    _withdraw(run, record.seq, kinds=None)


def _stop(event: PauseRequested | CancelRequested, record: Record) -> Stop:
    return Stop(record.seq, event.by, event.reason, event.source, record.at_ms)


def _cancelled(run: Run, event: Cancelled, record: Record) -> None:
    if left := children_to_undo(run):
        why = f"what its child {left[0]} did is not undone yet"
        raise ImpossibleEvent(run.id, event="cancelled", why=why)
    if run.cancel:
        run.cancel = msgspec.structs.replace(run.cancel, effect_at_ms=record.at_ms, rung=event.rung)


def _hurried(run: Run, _event: Hurried, record: Record) -> None:
    if run.state is RunState.CANCELLING and run.cancel:
        run.cancel = msgspec.structs.replace(run.cancel, hurried_seq=record.seq)
    elif run.pause:
        run.pause = msgspec.structs.replace(run.pause, hurried_seq=record.seq)


def _failed(run: Run, event: Failed, _record: Record) -> None:
    run.error = event.error


def _redirected(run: Run, event: Redirected, record: Record) -> None:
    run.instructions[record.seq] = Instruction(event.instruction, event.by)
    run.woken_seq = record.seq
    # A person's new message takes the open cards off the table; children and timers go on.
    _withdraw(run, record.seq, kinds=frozenset({"question", "approval"}))


def _instruction_settled(run: Run, event: InstructionSettled, _record: Record) -> None:
    told = run.instructions.get(event.instruction)
    if told is None or told.status != "queued":
        why = f"instruction {event.instruction} is {told.status if told else 'unknown'}"
        raise ImpossibleEvent(run.id, event="instruction_settled", why=why)
    run.instructions[event.instruction] = msgspec.structs.replace(told, status=event.outcome)


def _step_started(run: Run, event: StepStarted, record: Record) -> None:
    before = run.steps.get(event.step)
    if before is not None:
        if before.status in ("started", "finished") or event.attempt != before.attempt + 1:
            why = f"step {event.step} is {before.status} (attempt {before.attempt})"
            raise ImpossibleEvent(run.id, event="step_started", why=why)
    elif event.attempt != 1:
        why = f"step {event.step} has no attempt before {event.attempt}"
        raise ImpossibleEvent(run.id, event="step_started", why=why)
    if event.approval:
        _is_allowed(run, event)
    if run.state is RunState.STOPPING:
        _wraps_up(run, event)
    run.begun += 1
    run.called += bool(event.tool)
    if event.reserve:
        run.reserved[event.step] = event.reserve
    run.steps[event.step] = Step(
        event.name,
        record.seq,
        event.effect,
        event.undoable,
        event.attempt,
        late_seq=before.late_seq if before else 0,  # what an earlier attempt did is not forgotten
        undo=before.undo if before else "",
        maybe=before is not None and (before.maybe or may_have_happened(before)),
        tool=event.tool,
        run_in=event.run_in,
        where=event.where,
        model=event.model,
        owner=run.owner,
        cut_by_redirect=event.cut_by_redirect,
        continues=event.continues,
    )


def _wraps_up(run: Run, event: StepStarted) -> None:
    """A run whose limits are reached may make one last request, and nothing else."""
    if not may_wrap_up(run, event):
        why = "its limits are reached, and this is not its one last request"
        raise ImpossibleEvent(run.id, event="step_started", why=why)
    assert run.reached is not None
    run.reached = msgspec.structs.replace(run.reached, step=event.step)


def may_wrap_up(run: Run, event: StepStarted) -> bool:
    """Whether it is the one last request of a run whose limits are reached, or a retry of it."""
    limit = run.reached
    if limit is None or limit.then != "wrap_up":
        return False
    return event.wraps_up and limit.step in ("", event.step)


def _decided(status: StepStatus) -> Callable[[Run, Any, Record], None]:
    def decide_step(
        run: Run, event: StepFinished | StepFailed | StepInterrupted | StepInDoubt, record: Record
    ) -> None:
        known = _known(run, event)
        if known.status != "started" or event.attempt not in (0, known.attempt):
            decided = f"{known.status} by record {known.decided_seq}"
            why = f"attempt {known.attempt} of step {event.step} is {decided}"
            raise ImpossibleEvent(run.id, event=TAGS[type(event)], why=why)
        run.reserved.pop(event.step, None)
        if status == "finished" and known.tool:
            _meets(run, CalledTool, lambda leaf: leaf == CalledTool(known.tool), record)
        failed = event.happened if isinstance(event, StepFailed) else ""
        run.steps[event.step] = msgspec.structs.replace(
            known,
            status=status,
            decided_seq=record.seq,
            late_seq=record.seq if failed == "yes" else known.late_seq,
            maybe=known.maybe or failed == "maybe",
            began=not isinstance(event, StepInterrupted) or event.began,
            rung="" if isinstance(event, StepFinished) else event.rung,
            owner="",
            error=_first_line(event) if isinstance(event, StepFailed) else "",
            still_running=event.still_running,
        )

    return decide_step


def _first_line(event: StepFailed) -> str:
    """How its error begins, and where it was raised: enough for a receipt."""
    said = event.error.split("\n", 1)[0]
    said = said if len(said) <= _ERROR_LINE else f"{said[: _ERROR_LINE - 1]}…"
    return f"{said} ({event.at})" if event.at else said


def _is_allowed(run: Run, event: StepStarted) -> None:
    """An approval allows the one call whose digest was shown, as this step, and nothing else."""
    asked = run.questions.get(event.approval)
    allowed = ("approval", "approved", event.step, event.call)
    if asked is None or (asked.kind, asked.verdict, asked.step, asked.call) != allowed:
        why = f"approval {event.approval} does not allow exactly this call"
        raise ImpossibleEvent(run.id, event="step_started", why=why)


def _late_result(run: Run, event: LateResult, record: Record) -> None:
    if event.step:  # empty: the result of the run itself, which lost against a cancel
        known = _known(run, event)
        known = msgspec.structs.replace(known, still_running=event.still_running)
        # One that failed late is over: evidence, but not of an effect.
        late_seq = known.late_seq if event.error else record.seq
        run.steps[event.step] = msgspec.structs.replace(known, late_seq=late_seq)


def _doubt_settled(run: Run, event: DoubtSettled, record: Record) -> None:
    known = _known(run, event)
    if known.status != "in_doubt" or known.settled:
        why = f"step {event.step} is {known.settled or known.status}"
        raise ImpossibleEvent(run.id, event="doubt_settled", why=why)
    happened = event.choice == "happened"
    run.steps[event.step] = msgspec.structs.replace(
        known,
        settled=event.choice,
        status="finished" if happened else known.status,
        began=event.choice != "run" or event.source != "policy",  # by its probe's word it did not
        decided_seq=record.seq if happened else known.decided_seq,
    )
    run.attention.pop(event.step, None)


def _undo_requested(run: Run, event: UndoRequested, _record: Record) -> None:
    for step in would_undo(run, step=event.step, back_to=event.back_to):
        if run.steps[step].undo in ("wanted", "started"):
            continue  # it is on its way already
        wanted = msgspec.structs.replace(run.steps[step], undo="wanted", undo_attempt=0)
        run.steps[step] = wanted
        run.attention.pop(undo_item(step), None)
    is_all = not event.step and not event.back_to
    for name in would_undo_children(run) if is_all else ():
        child = msgspec.structs.replace(run.children[name], undo="wanted")
        run.children[name] = child


def _undo_started(run: Run, event: UndoStarted, _record: Record) -> None:
    known = _known(run, event)
    if to_undo(run)[:1] != [event.step] or event.attempt != known.undo_attempt + 1:
        why = f"step {event.step} is not what is to be undone next (attempt {event.attempt})"
        raise ImpossibleEvent(run.id, event="undo_started", why=why)
    run.steps[event.step] = msgspec.structs.replace(
        known,
        undo="started",
        undo_attempt=event.attempt,
        undo_in=event.run_in,
        owner=run.owner,
    )


def _step_undone(run: Run, event: StepUndone, _record: Record) -> None:
    known = _known(run, event)
    if known.undo == "undone":
        raise ImpossibleEvent(run.id, event="step_undone", why=f"step {event.step} is undone")
    for item in (event.step, undo_item(event.step)):  # whatever was in doubt about it is settled
        run.attention.pop(item, None)
    run.steps[event.step] = msgspec.structs.replace(known, undo="undone", owner="")


def _undo_failed(run: Run, event: UndoFailed, _record: Record) -> None:
    run.steps[event.step] = msgspec.structs.replace(_known(run, event), undo="failed", owner="")


def _known(
    run: Run,
    event: StepFinished
    | StepFailed
    | StepInterrupted
    | StepInDoubt
    | DoubtSettled
    | LateResult
    | UndoStarted
    | StepUndone
    | UndoFailed,
) -> Step:
    known = run.steps.get(event.step)
    if known is None:
        why = f"step {event.step} never started"
        raise ImpossibleEvent(run.id, event=TAGS[type(event)], why=why)
    return known


def _planned(run: Run, event: Planned, _record: Record) -> None:
    if event.plan in run.plans:
        raise ImpossibleEvent(run.id, event="planned", why=f"there is a plan {event.plan} already")
    run.plans[event.plan] = Plan(event.items, started=min(event.started, len(event.items)))


def _item_rewritten(run: Run, event: ItemRewritten, record: Record) -> None:
    plan = run.plans.get(event.plan)
    if plan is None or plan.next is None or plan.next.id != event.item:
        why = f"{event.item} is not the next item of plan {event.plan}"
        raise ImpossibleEvent(run.id, event="item_rewritten", why=why)
    rewritten = {**plan.rewritten, event.item: event.after}
    run.plans[event.plan] = msgspec.structs.replace(plan, rewritten=rewritten)
    number = record.seq - 1  # the redirect that did it
    if told := run.instructions.get(number):
        run.instructions[number] = msgspec.structs.replace(told, item=event.item)


def _item_started(run: Run, event: ItemStarted, _record: Record) -> None:
    plan = run.plans.get(event.plan)
    item = plan.next if plan else None
    if plan is None or item is None or item.id != event.item or plan.text(item) != event.text:
        why = f"{event.item} is not the next item of plan {event.plan}, or not with this text"
        raise ImpossibleEvent(run.id, event="item_started", why=why)
    run.plans[event.plan] = msgspec.structs.replace(plan, started=plan.started + 1)
    for number, told in run.instructions.items():
        if told.item == event.item and told.status == "queued":
            run.instructions[number] = msgspec.structs.replace(told, status="delivered")


def _plan_ended(run: Run, event: PlanEnded, _record: Record) -> None:
    plan = run.plans.get(event.plan)
    if plan is None or plan.ended or plan.next:
        why = f"plan {event.plan} is {'not at its end' if plan else 'unknown'}"
        raise ImpossibleEvent(run.id, event="plan_ended", why=why)
    run.plans[event.plan] = msgspec.structs.replace(plan, ended=True)


def _deferred(run: Run, event: Deferred, _record: Record) -> None:
    run.defers[event.defer] = event.name


def _released(run: Run, event: Released, _record: Record) -> None:
    if run.defers.pop(event.defer, None) is None:
        why = f"{event.defer} is not waiting to be released"
        raise ImpossibleEvent(run.id, event="released", why=why)


def _text_ended(run: Run, event: TextEnded, record: Record) -> None:
    if event.part in run.texts:
        why = f"part {event.part} has ended before"
        raise ImpossibleEvent(run.id, event="text_ended", why=why)
    run.texts[event.part] = event.complete
    if not event.step:
        said = event.text
        _meets(run, Said, lambda leaf: isinstance(leaf, Said) and leaf.text in said, record)


def _meets(
    run: Run, kind: type[Condition], is_met: Callable[[Condition], bool], record: Record
) -> None:
    """Note which conditions of a kind are true from here on."""
    if run.limits is not None and kind in kinds_of(run.limits.condition):
        for leaf in leaves(run.limits.condition):
            if is_met(leaf):
                run.met.setdefault(str(leaf), record.seq)


def _limit_reached(run: Run, event: LimitReached, record: Record) -> None:
    run.reached = Reached(event.leaves, event.then, says=event.reason, asked_at_ms=record.at_ms)
    run.woken_seq = record.seq
    _withdraw(run, record.seq, kinds=None)


def _limits_raised(run: Run, event: LimitsRaised, _record: Record) -> None:
    if run.limits is None:
        raise ImpossibleEvent(run.id, event="limits_raised", why="it has no limits")
    condition = raised(run.limits.condition, event.caps)
    run.limits = msgspec.structs.replace(run.limits, condition=condition)


def _signalled(run: Run, event: Signalled, record: Record) -> None:
    run.met.setdefault(str(External(event.name)), record.seq)


def _renamed(run: Run, event: Renamed, record: Record) -> None:
    run.title, run.titled_seq = event.title, record.seq


def _condition_met(run: Run, event: ConditionMet, record: Record) -> None:
    run.met.setdefault(event.condition, record.seq)


def _stopped(run: Run, event: Stopped, record: Record) -> None:
    run.error = event.error
    if run.reached:
        run.reached = msgspec.structs.replace(run.reached, effect_at_ms=record.at_ms)


def _question_asked(run: Run, event: QuestionAsked, _record: Record) -> None:
    if event.question in run.questions:
        why = f"question {event.question} was asked before"
        raise ImpossibleEvent(run.id, event="asked", why=why)
    run.questions[event.question] = Question(
        event.kind,
        event.text,
        step=event.step,
        due_ms=event.due_ms,
        tool=event.tool,
        call=event.call,
        place=event.place,
    )


def _answered(run: Run, event: Answered, record: Record) -> None:
    asked = run.questions.get(event.question)
    if asked is None or asked.status != "open":
        why = f"question {event.question} is {asked.status if asked else 'unknown'}"
        raise ImpossibleEvent(run.id, event="answered", why=why)
    run.questions[event.question] = msgspec.structs.replace(
        asked, status="answered", settled_seq=record.seq, verdict=event.verdict
    )
    run.woken_seq = record.seq


def _question_withdrawn(run: Run, event: QuestionWithdrawn, record: Record) -> None:
    asked = run.questions.get(event.question)
    if asked is None or asked.status != "open":
        why = f"question {event.question} is {asked.status if asked else 'unknown'}"
        raise ImpossibleEvent(run.id, event="question_withdrawn", why=why)
    run.questions[event.question] = msgspec.structs.replace(
        asked, status="withdrawn", settled_seq=record.seq, why=event.why
    )


def _child_born(run: Run, event: ChildBorn, _record: Record) -> None:
    if event.child in run.children:
        raise ImpossibleEvent(run.id, event="child_born", why=f"{event.child} is a child already")
    run.children[event.child] = Child(event.detached, final=event.final)
    run.begun += 1


def _child_ended(run: Run, event: ChildEnded, record: Record) -> None:
    child = run.children.get(event.child)
    if child is None or child.state:
        why = f"{event.child} is {'' if child else 'not '}a child{' that ended' if child else ''}"
        raise ImpossibleEvent(run.id, event="child_ended", why=why)
    was_final = event.left is None  # it is of a version in which every completion was
    run.children[event.child] = msgspec.structs.replace(
        child, state=event.state, final=child.final or was_final, left=event.left or child.left
    )
    run.below += event.used or Used()
    run.woken_seq = record.seq


def _child_undone(run: Run, event: ChildUndone, _record: Record) -> None:
    if event.child not in children_to_undo(run):
        why = f"nothing of {event.child} is to be undone"
        raise ImpossibleEvent(run.id, event="child_undone", why=why)
    run.children[event.child] = msgspec.structs.replace(
        run.children[event.child], undo="undone", taken_back=event.steps
    )


def _blocked(run: Run, event: Blocked, _record: Record) -> None:
    if not can_block(run, event):
        why = "nothing is open that it could wait for, or something came that it has not seen"
        raise ImpossibleEvent(run.id, event="blocked", why=why)


def can_block(run: Run, event: Blocked) -> bool:
    """Whether the owner's conclusion that nothing can go on still holds."""
    return bool(run.open_questions() or run.living_children()) and run.woken_seq <= event.seen_seq


def _spent(run: Run, event: Spent, _record: Record) -> None:
    run.cost = Cost(
        run.cost.usd_micros + (event.cost_usd_micros or 0),
        run.cost.tokens_in + (event.tokens_in or 0),
        run.cost.tokens_out + (event.tokens_out or 0),
        run.cost.unknown_calls + (event.cost_usd_micros is None),
    )


def _attention_raised(run: Run, event: AttentionRaised, _record: Record) -> None:
    run.attention[event.item] = event.text
    if event.still_running and (known := run.steps.get(event.item)) is not None:
        run.steps[event.item] = msgspec.structs.replace(known, still_running=event.still_running)


def _attention_settled(run: Run, event: AttentionSettled, _record: Record) -> None:
    if run.attention.pop(event.item, None) is None:
        why = f"{event.item} is not an open attention item"
        raise ImpossibleEvent(run.id, event="attention_settled", why=why)
    if (known := run.steps.get(event.item)) is not None:
        run.steps[event.item] = msgspec.structs.replace(known, still_running=())


# What an event means beyond the state it leads to. Those not listed mean just that.
_ERROR_LINE: Final = 300
_EFFECTS: Final = cast(
    "dict[type[Event], Callable[[Run, Event, Record], None]]",
    {
        Blocked: _blocked,
        Claimed: _claimed,
        TakenOver: _claimed,
        PauseRequested: _pause_requested,
        Resumed: _resumed,
        Paused: _paused,
        CancelRequested: _cancel_requested,
        UndoRequested: _undo_requested,
        Cancelled: _cancelled,
        Hurried: _hurried,
        Failed: _failed,
        Stopped: _stopped,
        LimitReached: _limit_reached,
        LimitsRaised: _limits_raised,
        Signalled: _signalled,
        Renamed: _renamed,
        ConditionMet: _condition_met,
        Redirected: _redirected,
        InstructionSettled: _instruction_settled,
        StepStarted: _step_started,
        StepFinished: _decided("finished"),
        StepFailed: _decided("failed"),
        StepInterrupted: _decided("interrupted"),
        StepInDoubt: _decided("in_doubt"),
        DoubtSettled: _doubt_settled,
        LateResult: _late_result,
        Planned: _planned,
        ItemRewritten: _item_rewritten,
        ItemStarted: _item_started,
        PlanEnded: _plan_ended,
        Deferred: _deferred,
        Released: _released,
        UndoStarted: _undo_started,
        StepUndone: _step_undone,
        UndoFailed: _undo_failed,
        TextEnded: _text_ended,
        QuestionAsked: _question_asked,
        Answered: _answered,
        QuestionWithdrawn: _question_withdrawn,
        ChildBorn: _child_born,
        ChildEnded: _child_ended,
        ChildUndone: _child_undone,
        Spent: _spent,
        AttentionRaised: _attention_raised,
        AttentionSettled: _attention_settled,
    },
)
