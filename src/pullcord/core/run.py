"""A run as its records make it: `apply` one, or `replay` all. Knows nothing of who may ask what.

A `Run` holds no payloads: a step is known by its number in the journal, where its result is.
So the state of a thousand-step run is small, and a snapshot of it costs little.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, TypeAlias, cast

import msgspec

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
    Claimed,
    Created,
    Effect,
    Event,
    Failed,
    Hurried,
    InstructionSettled,
    LateResult,
    Paused,
    PauseRequested,
    QuestionAsked,
    Record,
    Redirected,
    Resumed,
    Rung,
    Spent,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
    StepUndone,
    TextEnded,
    UndoFailed,
)
from pullcord.core.states import TABLE, TERMINAL, RunState
from pullcord.errors import ImpossibleEvent

StepStatus: TypeAlias = Literal["started", "finished", "failed", "interrupted", "in_doubt"]
SNAPSHOT_FORMAT: Final = 1
"""Raised whenever the meaning or shape of `Run` changes: older snapshots are then folded anew."""


class Step(msgspec.Struct, frozen=True, omit_defaults=True):
    """What is known of a step. Its arguments and result are in the records it names."""

    name: str
    started_seq: int
    effect: Effect = "once"
    undoable: bool = False
    attempt: int = 1
    status: StepStatus = "started"
    decided_seq: int = 0
    late_seq: int = 0  # evidence that it happened after all
    undo: Literal["", "undone", "failed"] = ""


class Instruction(msgspec.Struct, frozen=True, omit_defaults=True):
    text: str
    by: str
    status: Literal["queued", "delivered", "returned", "withdrawn"] = "queued"


class Question(msgspec.Struct, frozen=True, omit_defaults=True):
    kind: str
    text: str = ""
    status: Literal["open", "answered", "withdrawn"] = "open"
    settled_seq: int = 0


class Child(msgspec.Struct, frozen=True, omit_defaults=True):
    detached: bool = False
    state: str = ""  # empty while it lives


class Stop(msgspec.Struct, frozen=True, omit_defaults=True):
    """A pause or cancel: who asked, why, and when it was in effect."""

    seq: int
    by: str
    reason: str
    source: str
    asked_at_ms: int
    undo: bool = True
    keep_partial: bool = True
    quarantine: bool = False
    hurried_seq: int = 0
    effect_at_ms: int = 0
    rung: Rung = ""


class Cost(msgspec.Struct, frozen=True, omit_defaults=True):
    usd_micros: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    unknown_calls: int = 0  # calls whose price nobody knows; never counted as free


class Run(msgspec.Struct, omit_defaults=True):
    """A run as of record `seq`. A value: take a copy, or `apply`, never change one in place."""

    id: str
    seq: int = 0
    state: RunState = RunState.QUEUED
    state_seq: int = 0  # the record that led to this state
    control_seq: int = 0  # the last record that somebody asked for
    woken_seq: int = 0  # the last answer, instruction or child's end
    at_ms: int = 0
    agent: str = ""
    thread: str = ""
    code_version: str = ""
    parent: str | None = None
    epoch: int = 0
    owner: str = ""
    error: str = ""
    pause: Stop | None = None
    cancel: Stop | None = None
    steps: dict[str, Step] = msgspec.field(default_factory=dict[str, Step])
    instructions: dict[int, Instruction] = msgspec.field(default_factory=dict[int, Instruction])
    questions: dict[str, Question] = msgspec.field(default_factory=dict[str, Question])
    children: dict[str, Child] = msgspec.field(default_factory=dict[str, Child])
    texts: dict[str, bool] = msgspec.field(default_factory=dict[str, bool])  # part → complete
    attention: dict[str, str] = msgspec.field(default_factory=dict[str, str])  # open item → text
    cost: Cost = Cost()

    @property
    def ended(self) -> bool:
        return self.state in TERMINAL

    def open_steps(self) -> list[str]:
        """The steps with an intent and no decision."""
        return [step for step, known in self.steps.items() if known.status == "started"]

    def copy(self) -> "Run":
        twin = msgspec.structs.replace(self)
        for field in ("steps", "instructions", "questions", "children", "texts", "attention"):
            setattr(twin, field, dict(getattr(self, field)))
        return twin


def apply(run: Run, record: Record) -> Run:
    """Return the run as it is after `record`.

    Raises:
        ImpossibleEvent: it cannot follow from `run`.
    """
    after = run.copy()
    evolve(after, record)
    return after


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
    if seq != run.seq + 1:
        raise ImpossibleEvent(run.id, event=tag, why=f"it has number {seq} after {run.seq}")
    if type(event) is Created:
        _created(run, event, record)
    else:
        after = TABLE[run.state].on.get(tag) if run.seq else None
        if after is None:
            state = run.state.value if run.seq else "not created yet"
            raise ImpossibleEvent(run.id, event=tag, why=f"the run is {state}")
        if effect := _EFFECTS.get(type(event)):
            effect(run, event, record)
        if isinstance(event, Asked):
            run.control_seq = seq
        if after is not run.state:
            run.state = after
            run.state_seq = seq
            if after in TERMINAL:
                _close(run, tag, seq)
    run.seq = seq
    run.at_ms = record.at_ms


def _created(run: Run, event: Created, record: Record) -> None:
    if run.seq:
        raise ImpossibleEvent(run.id, event="created", why="the run exists already")
    run.agent, run.thread, run.parent = event.agent, event.thread, event.parent
    run.code_version = event.code_version
    run.state_seq = record.seq


def _close(run: Run, tag: str, seq: int) -> None:
    """What a run's end means for what was still open in it."""
    if still_open := run.open_steps():
        raise ImpossibleEvent(run.id, event=tag, why=f"step {still_open[0]} is not decided yet")
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
    if run.state is RunState.PAUSING and run.pause:  # the owner died; nothing is in flight now
        run.pause = msgspec.structs.replace(run.pause, effect_at_ms=record.at_ms, rung="abandoned")


def _pause_requested(run: Run, event: PauseRequested, record: Record) -> None:
    asked = _stop(event, record)
    if run.state is not RunState.RUNNING:  # nothing in flight: in effect as it is asked
        asked = msgspec.structs.replace(asked, effect_at_ms=record.at_ms)
    run.pause = msgspec.structs.replace(asked, hurried_seq=record.seq if event.now else 0)


def _resumed(run: Run, _event: Resumed, _record: Record) -> None:
    run.pause = None


def _paused(run: Run, event: Paused, record: Record) -> None:
    if run.pause:
        run.pause = msgspec.structs.replace(run.pause, effect_at_ms=record.at_ms, rung=event.rung)


def _cancel_requested(run: Run, event: CancelRequested, record: Record) -> None:
    first = run.cancel or msgspec.structs.replace(_stop(event, record), undo=event.undo)
    run.cancel = msgspec.structs.replace(  # asked for again: only ever made stronger
        first,
        keep_partial=event.keep_partial and first.keep_partial,
        quarantine=event.quarantine or first.quarantine,
        hurried_seq=record.seq if event.now else first.hurried_seq,
    )
    _withdraw(run, record.seq, kinds=None)


def _stop(event: PauseRequested | CancelRequested, record: Record) -> Stop:
    return Stop(record.seq, event.by, event.reason, event.source, record.at_ms)


def _cancelled(run: Run, event: Cancelled, record: Record) -> None:
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
    run.steps[event.step] = Step(
        event.name,
        record.seq,
        event.effect,
        event.undoable,
        event.attempt,
        late_seq=before.late_seq if before else 0,  # what an earlier attempt did is not forgotten
        undo=before.undo if before else "",
    )


def _decided(status: StepStatus) -> Callable[[Run, Any, Record], None]:
    def decide_step(
        run: Run, event: StepFinished | StepFailed | StepInterrupted | StepInDoubt, record: Record
    ) -> None:
        known = _known(run, event)
        if known.status != "started" or event.attempt not in (0, known.attempt):
            decided = f"{known.status} by record {known.decided_seq}"
            why = f"attempt {known.attempt} of step {event.step} is {decided}"
            raise ImpossibleEvent(run.id, event=TAGS[type(event)], why=why)
        run.steps[event.step] = Step(
            known.name,
            known.started_seq,
            known.effect,
            known.undoable,
            known.attempt,
            status,
            record.seq,
            known.late_seq,
            known.undo,
        )

    return decide_step


def _late_result(run: Run, event: LateResult, record: Record) -> None:
    if event.step:  # empty: the result of the run itself, which lost against a cancel
        known = _known(run, event)
        if event.error:
            return  # it failed late: evidence, but not of an effect
        run.steps[event.step] = msgspec.structs.replace(known, late_seq=record.seq)


def _step_undone(run: Run, event: StepUndone, _record: Record) -> None:
    known = _known(run, event)
    if known.undo == "undone":
        raise ImpossibleEvent(run.id, event="step_undone", why=f"step {event.step} is undone")
    run.steps[event.step] = msgspec.structs.replace(known, undo="undone")


def _undo_failed(run: Run, event: UndoFailed, _record: Record) -> None:
    run.steps[event.step] = msgspec.structs.replace(_known(run, event), undo="failed")


def _known(
    run: Run,
    event: StepFinished
    | StepFailed
    | StepInterrupted
    | StepInDoubt
    | LateResult
    | StepUndone
    | UndoFailed,
) -> Step:
    known = run.steps.get(event.step)
    if known is None:
        why = f"step {event.step} never started"
        raise ImpossibleEvent(run.id, event=TAGS[type(event)], why=why)
    return known


def _text_ended(run: Run, event: TextEnded, _record: Record) -> None:
    if event.part in run.texts:
        why = f"part {event.part} has ended before"
        raise ImpossibleEvent(run.id, event="text_ended", why=why)
    run.texts[event.part] = event.complete


def _question_asked(run: Run, event: QuestionAsked, _record: Record) -> None:
    if event.question in run.questions:
        why = f"question {event.question} was asked before"
        raise ImpossibleEvent(run.id, event="asked", why=why)
    run.questions[event.question] = Question(event.kind, event.text)


def _answered(run: Run, event: Answered, record: Record) -> None:
    asked = run.questions.get(event.question)
    if asked is None or asked.status != "open":
        why = f"question {event.question} is {asked.status if asked else 'unknown'}"
        raise ImpossibleEvent(run.id, event="answered", why=why)
    run.questions[event.question] = msgspec.structs.replace(
        asked, status="answered", settled_seq=record.seq
    )
    run.woken_seq = record.seq


def _child_born(run: Run, event: ChildBorn, _record: Record) -> None:
    if event.child in run.children:
        raise ImpossibleEvent(run.id, event="child_born", why=f"{event.child} is a child already")
    run.children[event.child] = Child(event.detached)


def _child_ended(run: Run, event: ChildEnded, record: Record) -> None:
    child = run.children.get(event.child)
    if child is None or child.state:
        why = f"{event.child} is {'' if child else 'not '}a child{' that ended' if child else ''}"
        raise ImpossibleEvent(run.id, event="child_ended", why=why)
    run.children[event.child] = Child(child.detached, event.state)
    run.woken_seq = record.seq


def _blocked(run: Run, event: Blocked, _record: Record) -> None:
    if not can_block(run, event):
        why = "nothing is open that it could wait for, or something came that it has not seen"
        raise ImpossibleEvent(run.id, event="blocked", why=why)


def can_block(run: Run, event: Blocked) -> bool:
    """Whether the owner's conclusion that nothing can go on still holds."""
    is_open = any(question.status == "open" for question in run.questions.values())
    lives = any(not child.state and not child.detached for child in run.children.values())
    return (is_open or lives) and run.woken_seq <= event.seen_seq


def _spent(run: Run, event: Spent, _record: Record) -> None:
    run.cost = Cost(
        run.cost.usd_micros + (event.cost_usd_micros or 0),
        run.cost.tokens_in + (event.tokens_in or 0),
        run.cost.tokens_out + (event.tokens_out or 0),
        run.cost.unknown_calls + (event.cost_usd_micros is None),
    )


def _attention_raised(run: Run, event: AttentionRaised, _record: Record) -> None:
    run.attention[event.item] = event.text


def _attention_settled(run: Run, event: AttentionSettled, _record: Record) -> None:
    if run.attention.pop(event.item, None) is None:
        why = f"{event.item} is not an open attention item"
        raise ImpossibleEvent(run.id, event="attention_settled", why=why)


# What an event means beyond the state it leads to. Requeued and completed mean just that.
_EFFECTS: Final = cast(
    "dict[type[Event], Callable[[Run, Event, Record], None]]",
    {
        Blocked: _blocked,
        Claimed: _claimed,
        PauseRequested: _pause_requested,
        Resumed: _resumed,
        Paused: _paused,
        CancelRequested: _cancel_requested,
        Cancelled: _cancelled,
        Hurried: _hurried,
        Failed: _failed,
        Redirected: _redirected,
        InstructionSettled: _instruction_settled,
        StepStarted: _step_started,
        StepFinished: _decided("finished"),
        StepFailed: _decided("failed"),
        StepInterrupted: _decided("interrupted"),
        StepInDoubt: _decided("in_doubt"),
        LateResult: _late_result,
        StepUndone: _step_undone,
        UndoFailed: _undo_failed,
        TextEnded: _text_ended,
        QuestionAsked: _question_asked,
        Answered: _answered,
        ChildBorn: _child_born,
        ChildEnded: _child_ended,
        Spent: _spent,
        AttentionRaised: _attention_raised,
        AttentionSettled: _attention_settled,
    },
)
