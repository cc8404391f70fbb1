"""What happened to a run. Past tense, immutable, and enough to rebuild the run from nothing.

The run, its place in the order and the time belong to the `Record` around an event: an event
does not know when it was written. Fields are only ever added, with a default; a changed meaning
is a new type. A type this build does not know is refused by name, never skipped.
"""

from typing import Annotated, Final, Literal, TypeAlias, get_args

import msgspec

from pullcord.core.action_trail import Runaway
from pullcord.core.commands import Source
from pullcord.core.conditions import Price, Used
from pullcord.core.limits import Limits, Reserve, Then
from pullcord.core.values import NULL, VALUE_MAX_BYTES, Json
from pullcord.errors import ChainBroken, FormatUnknown, InvalidText, Unstorable

RECORD_MAX_BYTES: Final = VALUE_MAX_BYTES + 1024 * 1024

Amount: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Effect: TypeAlias = Literal["none", "idempotent", "once"]
Choice: TypeAlias = Literal["happened", "run", "skip"]
Verdict: TypeAlias = Literal["", "approved", "denied", "edited", "expired"]
RunIn: TypeAlias = Literal["", "loop", "process", "thread", "remote"]
Rung: TypeAlias = Literal[
    "",
    "cooperative",
    "task_cancel",
    "transport_closed",
    "stop_requested",
    "terminated",
    "killed",
    "abandoned",
]


class _Event(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    pass


class Asked(_Event, frozen=True, kw_only=True):
    """The part of an event that says who caused it."""

    by: str
    reason: str = ""
    source: Source = "person"
    key: str | None = None
    via: str = ""  # the surface it came by, and how whoever asks was known there


# --- the run as a whole -----------------------------------------------------------------------


class Created(_Event, frozen=True, kw_only=True, tag="created"):
    """The run exists. Always record 1; nothing has begun."""

    agent: str
    thread: str
    input: Json = NULL
    code_version: str = ""
    parent: str | None = None
    detached: bool = False
    target: str | None = None
    cwd: str | None = None
    by: str = ""
    forked_from: str | None = None  # goes on from this run's first `forked_at` records
    forked_at: int = 0
    aside: bool = False  # it only answers a question about the run it was forked from
    model: str = ""  # that its agent is to use instead of its own
    limits: Limits | None = None  # when it stops by itself
    used: Used | None = None  # of its limits, by the run it goes on from
    price: Price | None = None  # of its model, as somebody who limits it has said
    runaway: Runaway | None = None  # when it is paused for having lost its way; None: as usual
    trace: str = ""  # the span it was started in, as a W3C traceparent
    ids: int = 0  # how the ids of its steps are made: 0, with 40 bits; 1, with 130
    depth: int = 0  # how many runs it works for, one above the other


class Claimed(_Event, frozen=True, kw_only=True, tag="claimed"):
    """A process took the run. Records of any earlier epoch are refused from here on."""

    owner: str
    epoch: int
    code_version: str = ""
    alive_ms: int = 0  # when the owner before was last known to be alive, if it took it from one
    trace: str = ""  # the span of this life of the run, as a W3C traceparent
    same_owner: bool = False  # the process that had the run took it anew, as after a resume


class TakenOver(Claimed, frozen=True, kw_only=True, tag="taken_over"):
    """A process took a run whose owner was lost while it was being paused. The run is paused when
    what that owner had begun is over, or named. (Journals of before say `claimed` here, and are
    paused with it.)"""


class StoodStill(_Event, frozen=True, kw_only=True, tag="stood_still"):
    """The owner gave no sign of life for longer than its lease (it was stopped, or the machine
    slept) and goes on; or it is dead, and somebody commands the run. Nobody worked since
    `alive_ms`."""

    alive_ms: int


class Requeued(_Event, frozen=True, kw_only=True, tag="requeued"):
    """The owner gave the run back, unfinished and unharmed (a shutdown, a deploy)."""

    cause: str = "shutdown"


class Blocked(_Event, frozen=True, kw_only=True, tag="blocked"):
    """Nothing can go on until an open question is answered or a child ends. Needs no owner.

    `seen_seq` is the last record its owner had seen when it came to that conclusion: an answer,
    an instruction or a child's end behind it makes the conclusion wrong.
    """

    seen_seq: int


class Paused(_Event, frozen=True, kw_only=True, tag="paused"):
    """The pause took hold. Nothing is in flight; killing the process now loses nothing, but for
    the tools that are `frozen`: they stand still as long as this process lives."""

    rung: Rung = ""
    frozen: tuple[str, ...] = ()


class Cancelled(_Event, frozen=True, kw_only=True, tag="cancelled"):
    """The cancel is in effect. No step of this run is running or will run."""

    rung: Rung = ""


class Completed(_Event, frozen=True, kw_only=True, tag="completed"):
    """The agent returned. The first of this and a cancel to be recorded is what happened."""

    result: Json = NULL


class Stopped(_Event, frozen=True, kw_only=True, tag="stopped"):
    """A limit has ended the run: these leaves of its condition were true. What it has done is
    kept; `result` is its last answer, if it came to give one."""

    leaves: tuple[str, ...]
    result: Json = NULL
    error: str = ""  # that it met while it was winding up


class Failed(_Event, frozen=True, kw_only=True, tag="failed"):
    """The agent raised, or could not be started."""

    error: str


# --- controls: somebody asked, and it was accepted --------------------------------------------


class PauseRequested(Asked, frozen=True, kw_only=True, tag="pause_requested"):
    """Accepted: from here nothing starts. `paused` follows when nothing is in flight."""

    now: bool = False
    limits: tuple[str, ...] = ()  # the leaves that were true, if a limit asks for it


class Resumed(Asked, frozen=True, kw_only=True, tag="resumed"):
    """Accepted: the run may go on."""


class Redirected(Asked, frozen=True, kw_only=True, tag="redirected"):
    """A new instruction is queued for the agent. Its id is the number of this record."""

    instruction: str


class InstructionSettled(_Event, frozen=True, kw_only=True, tag="instruction_settled"):
    """What became of an instruction. Each one is settled exactly once, in order."""

    instruction: int
    outcome: Literal["delivered", "returned", "withdrawn"]


class CancelRequested(Asked, frozen=True, kw_only=True, tag="cancel_requested"):
    """Accepted: no model or tool call is issued from here on, by anyone, ever."""

    undo: bool = True
    keep_partial: bool = True
    quarantine: bool = False
    now: bool = False
    back_to: str = ""  # a step: what was done up to it is not undone
    family: str = ""  # the cancelled run it works for, which has what this one did undone


class UndoRequested(Asked, frozen=True, kw_only=True, tag="undo_requested"):
    """Accepted, of a run that has ended: what it left behind is to be undone, newest first."""

    step: str = ""  # only this one
    back_to: str = ""  # only what was done after this one


class Hurried(Asked, frozen=True, kw_only=True, tag="hurried"):
    """The second press: stop waiting for what is under way."""


# --- limits -------------------------------------------------------------------------------------


class LimitReached(Asked, frozen=True, kw_only=True, tag="limit_reached"):
    """Nothing new starts, but with `wrap_up` one last request to the model. `stopped` follows."""

    leaves: tuple[str, ...]
    then: Then


class LimitsRaised(Asked, frozen=True, kw_only=True, tag="limits_raised"):
    """Somebody has set other caps: by their names, as in `steps`, `usd`."""

    caps: dict[str, float]


class Signalled(Asked, frozen=True, kw_only=True, tag="signalled"):
    """Somebody outside has said so: the condition `External(name)` is true from here on."""

    name: str


class Renamed(Asked, frozen=True, kw_only=True, tag="renamed"):
    """It has this title from here on, by which people tell it from others. Empty: it has none."""

    title: str


class ConditionMet(_Event, frozen=True, kw_only=True, tag="condition_met"):
    """A condition that only its owner can ask is true from here on."""

    condition: str


# --- steps: intent before effect, outcome after -----------------------------------------------


class StepStarted(_Event, frozen=True, kw_only=True, tag="step_started"):
    """The intent, durable before the effect may begin. One attempt at a time."""

    step: str
    name: str
    attempt: int = 1
    effect: Effect = "once"
    undoable: bool = False
    digest: str = ""
    args: Json = NULL
    scope: str = ""
    place: int = 0  # the n-th step of this name in its scope, whatever its arguments
    tool: str = ""  # the tool it is a call of
    where: str = ""  # where that is found, as module:name; empty: only its agent knows
    run_in: RunIn = ""  # what a `thread` does cannot be stopped, and that is said here, before
    model: str = ""  # it is a request to this model
    approval: str = ""  # the question by which somebody has allowed it
    call: str = ""  # the digest of the exact call
    reserve: Reserve | None = None  # what it may cost, set aside until it is decided
    wraps_up: bool = False  # it is the one last request of a run whose limits are reached
    cut_by_redirect: bool = False  # a new instruction stops it; a request to a model always is
    continues: bool = False  # an answer to it that is cut is gone on with, not asked for again


class StepFinished(_Event, frozen=True, kw_only=True, tag="step_finished"):
    """The step's one decision: it happened, with this result."""

    step: str
    attempt: int = 0  # 0: the one under way
    result: Json = NULL
    still_running: tuple[str, ...] = ()  # of one that was cut and finished: what it has started


class StepFailed(_Event, frozen=True, kw_only=True, tag="step_failed"):
    """The step's one decision: it raised. It may have had its effect all the same."""

    step: str
    attempt: int = 0  # 0: the one under way
    error: str
    happened: Literal["", "yes", "maybe"] = ""
    rung: Rung = ""  # that was needed to stop it, if it took too long
    at: str = ""  # where in a sync tool's own code: `shop.py:12, in charge`
    traceback: str = ""  # of a sync tool: the frames of its own code
    still_running: tuple[str, ...] = ()  # what of it goes on although it was cut


class StepInterrupted(_Event, frozen=True, kw_only=True, tag="step_interrupted"):
    """The step's one decision: a control stopped it. A result that still arrives is evidence."""

    step: str
    attempt: int = 0  # 0: the one under way
    rung: Rung = ""
    began: bool = True  # False: it was stopped before anything of it had begun
    redirected: bool = False  # it was a redirect that stopped it
    ladder_ms: dict[str, float] = {}  # of a process: each rung, and when it was reached
    still_running: tuple[str, ...] = ()  # what of it goes on all the same: itself, what it started


class StepInDoubt(_Event, frozen=True, kw_only=True, tag="step_in_doubt"):
    """The step's one decision: it began, and nobody knows whether it happened."""

    step: str
    attempt: int = 0  # 0: the one under way
    why: str = ""
    rung: Rung = ""  # that was needed to stop it, if it took too long
    still_running: tuple[str, ...] = ()  # what of it goes on although it was cut


class DoubtSettled(Asked, frozen=True, kw_only=True, tag="doubt_settled"):
    """A person has said what became of a step in doubt, or what is to become of it."""

    step: str
    choice: Choice
    result: Json = NULL  # with `happened`: what the agent is told


class LateResult(_Event, frozen=True, kw_only=True, tag="late_result"):
    """The effect happened although the step was decided otherwise. Never shown to the agent."""

    step: str
    attempt: int = 0  # 0: the one under way
    result: Json = NULL
    error: str = ""
    still_running: tuple[str, ...] = ()  # what it has started, and goes on


class CallRefused(_Event, frozen=True, kw_only=True, tag="call_refused"):
    """The agent was told that a call is not made. It is told the same whenever it asks again."""

    step: str
    name: str
    outcome: Literal["denied", "not_started", "unknown"]
    why: str = ""


class UndoStarted(_Event, frozen=True, kw_only=True, tag="undo_started"):
    """The intent to take an effect back, durable before that may begin. Newest first."""

    step: str
    attempt: int = 1
    error: str = ""  # why the attempt before this one failed
    run_in: RunIn = ""  # where it is carried out; empty: of before it was told


class StepUndone(_Event, frozen=True, kw_only=True, tag="step_undone"):
    """The effect was taken back."""

    step: str


class UndoFailed(_Event, frozen=True, kw_only=True, tag="undo_failed"):
    """The effect could not be taken back; an attention item stays until someone settles it."""

    step: str
    error: str


# --- what an agent has to find again when it is entered anew ------------------------------------


class Remembered(_Event, frozen=True, kw_only=True, tag="remembered"):
    """A value the agent was given that would be another the next time: a clock, a dice."""

    key: str
    value: Json = NULL


class PlanItem(msgspec.Struct, frozen=True):
    """One line of a plan, as it was first written."""

    id: str
    title: str


class Planned(_Event, frozen=True, kw_only=True, tag="planned"):
    """What the agent means to do, in order. People see it queued."""

    plan: str
    items: tuple[PlanItem, ...]
    started: int = 0  # in a fork: how many had begun in the run it goes on from


class ItemRewritten(_Event, frozen=True, kw_only=True, tag="item_rewritten"):
    """A redirect has changed the next item of a plan. The record before it says who and why."""

    plan: str
    item: str
    before: str
    after: str


class ItemStarted(_Event, frozen=True, kw_only=True, tag="item_started"):
    """The agent was handed this item with this text; whoever enters again is handed the same."""

    plan: str
    item: str
    text: str
    told: tuple[str, ...] = ()  # what people said that made it so, in order


class PlanEnded(_Event, frozen=True, kw_only=True, tag="plan_ended"):
    """The agent has gone through the whole plan."""

    plan: str


class Deferred(_Event, frozen=True, kw_only=True, tag="deferred"):
    """Something must be released however the run ends."""

    defer: str
    name: str


class Released(_Event, frozen=True, kw_only=True, tag="released"):
    """It was released, or (with `error`) could not be."""

    defer: str
    error: str = ""


# --- text, questions, children, cost, attention -----------------------------------------------


class TextEnded(_Event, frozen=True, kw_only=True, tag="text_ended"):
    """A streamed part is complete, or was cut. Replaces its live rows."""

    part: str
    text: str
    complete: bool = True
    step: str = ""  # what a tool has put out or a model has thought, not what the agent has said


class QuestionAsked(_Event, frozen=True, kw_only=True, tag="asked"):
    """Something outside must answer: a person, an approver, a clock."""

    question: str
    kind: Literal["question", "approval", "timer", "doubt"] = "question"
    text: str = ""
    details: Json = NULL
    step: str = ""  # with `doubt` or `approval`: the step it is about
    due_ms: int = 0  # of a timer: when it is due; of an approval: when it expires; steady clock
    tool: str = ""  # with `approval`: whose call
    call: str = ""  # with `approval`: the digest of the exact call, which is all it allows
    place: str = ""  # with `approval`: where in the agent's code the call stands


class Answered(Asked, frozen=True, kw_only=True, tag="answered"):
    """An open question has its one answer."""

    question: str
    value: Json = NULL
    verdict: Verdict = ""  # of an approval; with `edited`, `value` are the arguments to ask about


class QuestionWithdrawn(_Event, frozen=True, kw_only=True, tag="question_withdrawn"):
    """What was asked is no longer of interest: the call has changed, or nobody waits for it."""

    question: str
    why: str = ""


class ChildBorn(_Event, frozen=True, kw_only=True, tag="child_born"):
    """A run was started under this one, in the same transaction."""

    child: str
    detached: bool = False
    agent: str = ""
    final: bool = False  # what it did is kept once it has completed, whatever becomes of this run
    scope: str = ""
    place: int = 0  # the n-th of its agent in its scope; 0: not known


class Left(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run, and everybody who worked for it, has left behind that a cancel is about."""

    undo: int = 0  # effects that say how they are undone
    kept: int = 0  # effects that do not
    names: tuple[str, ...] = ()  # of those: a few of their names


class ChildEnded(_Event, frozen=True, kw_only=True, tag="child_ended"):
    """A child run reached its end."""

    child: str
    state: str
    used: Used | None = None  # by it and everybody who worked for it
    left: Left | None = None  # None: it ended when a child's completion was final


class ChildUndone(_Event, frozen=True, kw_only=True, tag="child_undone"):
    """What a child, and everybody who worked for it, did is undone, as far as it can be; what
    could not be is named. Of so many steps it was taken back."""

    child: str
    steps: int = 0


class Spent(_Event, frozen=True, kw_only=True, tag="spent"):
    """What a call cost. `None` means unknown, which is never counted as nothing."""

    cost_usd_micros: Amount | None = None
    tokens_in: Amount | None = None
    tokens_out: Amount | None = None
    step: str = ""
    estimated: bool = False  # the call was cut before its provider had said


class AttentionRaised(_Event, frozen=True, kw_only=True, tag="attention_raised"):
    """Something a person has to look at, also after the run has ended."""

    item: str
    kind: Literal["in_doubt", "undo_failed", "not_stoppable", "other"] = "other"
    text: str = ""
    still_running: tuple[str, ...] = ()  # with a step's id as `item`: what it started and goes on


class AttentionSettled(Asked, frozen=True, kw_only=True, tag="attention_settled"):
    """A person has dealt with it."""

    item: str


class GuardTripped(_Event, frozen=True, kw_only=True, tag="guard_tripped"):
    """A guard has found what it watches for, before anybody has seen it. The stop that follows is
    recorded with it. `evidence` is what was kept back: in the journal only, never shown."""

    guard: str
    on_hit: Literal["pause", "cancel"]
    step: str = ""  # in what came of this step
    part: str = ""  # in this part of text; `result`: in what the run was to end with
    evidence: str = ""


class Forgotten(Asked, frozen=True, kw_only=True, tag="forgotten"):
    """The payloads of all records before this one are deleted, on purpose. Always the last record.

    What is still told of the run is in here, so that the chain covers it: no words of anybody's,
    but who had it deleted, and why.
    """

    agent: str
    thread: str
    state: str
    epoch: int
    created_at_ms: int
    ended_at_ms: int
    parent: str | None = None
    used: Used | None = None


Event: TypeAlias = (
    Created
    | Claimed
    | TakenOver
    | StoodStill
    | Requeued
    | Blocked
    | Paused
    | Cancelled
    | Completed
    | Stopped
    | Failed
    | PauseRequested
    | Resumed
    | Redirected
    | InstructionSettled
    | CancelRequested
    | UndoRequested
    | Hurried
    | LimitReached
    | LimitsRaised
    | Signalled
    | Renamed
    | ConditionMet
    | StepStarted
    | StepFinished
    | StepFailed
    | StepInterrupted
    | StepInDoubt
    | DoubtSettled
    | LateResult
    | CallRefused
    | UndoStarted
    | StepUndone
    | UndoFailed
    | Remembered
    | Planned
    | ItemRewritten
    | ItemStarted
    | PlanEnded
    | Deferred
    | Released
    | TextEnded
    | QuestionAsked
    | Answered
    | QuestionWithdrawn
    | ChildBorn
    | ChildEnded
    | ChildUndone
    | Spent
    | AttentionRaised
    | AttentionSettled
    | GuardTripped
    | Forgotten
)

__all__ = [  # what a program can match: `pullcord.events` offers these
    "Answered",
    "AttentionRaised",
    "AttentionSettled",
    "Blocked",
    "CallRefused",
    "CancelRequested",
    "Cancelled",
    "ChildBorn",
    "ChildEnded",
    "ChildUndone",
    "Claimed",
    "Completed",
    "ConditionMet",
    "Created",
    "Deferred",
    "DoubtSettled",
    "Event",
    "Failed",
    "Forgotten",
    "GuardTripped",
    "Hurried",
    "InstructionSettled",
    "ItemRewritten",
    "ItemStarted",
    "LateResult",
    "Left",
    "LimitReached",
    "LimitsRaised",
    "PauseRequested",
    "Paused",
    "PlanEnded",
    "PlanItem",
    "Planned",
    "QuestionAsked",
    "QuestionWithdrawn",
    "Record",
    "Redirected",
    "Released",
    "Remembered",
    "Renamed",
    "Requeued",
    "Resumed",
    "Signalled",
    "Spent",
    "StepFailed",
    "StepFinished",
    "StepInDoubt",
    "StepInterrupted",
    "StepStarted",
    "StepUndone",
    "StoodStill",
    "Stopped",
    "TakenOver",
    "TextEnded",
    "UndoFailed",
    "UndoRequested",
    "UndoStarted",
]

Control: TypeAlias = (
    PauseRequested
    | Resumed
    | Redirected
    | CancelRequested
    | Hurried
    | Answered
    | Claimed
    | TakenOver
    | LimitReached
)
"""What an owner must hear of at once: a person's control, or that another has taken the run."""

TAGS: Final[dict[type[Event], str]] = {
    kind: str(kind.__struct_config__.tag) for kind in get_args(Event)
}
"""Each event type's name on the wire, in the table and in the log."""


class Record(msgspec.Struct, frozen=True):
    """An event in its place: the journal adds who it belongs to, its number and when."""

    run_id: str
    seq: int
    at_ms: int  # wall clock, for people; no decision depends on it
    epoch: int  # of the owner that wrote it; 0 for a control
    event: Event
    drift_ms: int = 0  # how far the wall clock was ahead of the clock that never jumps

    @property
    def steady_ms(self) -> int:
        """When it was written, on the clock by which everything is decided."""
        return self.at_ms - self.drift_ms


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Event)
_tag_only: Final = msgspec.json.Decoder(dict[str, msgspec.Raw])


def encode_event(event: Event) -> bytes:
    """Return the event as it is stored and hashed."""
    return _encoder.encode(event)


def check_event(event: Event) -> Event:
    """Return `event` if it will come back from storage as what it is.

    An event is only checked when it is read, and one that cannot be read would lock everybody
    out of its run: so what is about to be written is read once before.

    Raises:
        InvalidInput: names the event and what is wrong with it.
    """
    name = type(event).__name__
    try:
        payload = _encoder.encode(event)
        payload.decode()  # the values in it were encoded elsewhere
        _decoder.decode(payload)
    except UnicodeEncodeError as error:
        why = f"it has half of a surrogate pair at position {error.start}"
        raise InvalidText(f"text of {name}", why=why) from None
    except (msgspec.DecodeError, UnicodeError, TypeError, OverflowError, RecursionError) as error:
        raise Unstorable(name, why=str(error)) from None
    if len(payload) > RECORD_MAX_BYTES:
        why = f"it has {len(payload):,} bytes, and {RECORD_MAX_BYTES:,} are allowed"
        raise Unstorable(name, why=why)
    return event


def decode_event(payload: bytes, *, run_id: str, seq: int) -> Event:
    """Return the event stored as `payload`.

    Raises:
        FormatUnknown: a type of a newer build. Names it.
        ChainBroken: a type this build knows, with contents it cannot have written.
    """
    try:
        return _decoder.decode(payload)
    except msgspec.DecodeError as error:
        raise _refusal(payload, run_id, seq, error) from None


def _refusal(
    payload: bytes, run_id: str, seq: int, error: Exception
) -> FormatUnknown | ChainBroken:
    try:
        tag = msgspec.json.decode(_tag_only.decode(payload)["type"], type=str)
    except (msgspec.DecodeError, KeyError):
        return ChainBroken(run_id, seq=seq, why="it is not an event")
    if tag in TAGS.values():
        return ChainBroken(run_id, seq=seq, why=f"'{tag}' with contents it cannot have: {error}")
    return FormatUnknown(
        f"Record {seq} of run {run_id}",
        found=f"the type '{tag}'",
        known=f"{len(TAGS)} other types",
    )
