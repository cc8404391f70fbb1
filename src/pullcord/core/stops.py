"""What the stop log says: who asked for a stop, what it met, how it took hold, who had seen what.

Pure: what is said follows from a run and the record that has just changed it. How entries are
kept and chained is in `journal/stoplog`. Fields are only ever added, with a default.
"""

from collections.abc import Iterator, Mapping
from typing import Final, Literal, TypeAlias, TypedDict

import msgspec

from pullcord.core.commands import Source
from pullcord.core.conditions import Used
from pullcord.core.events import (
    Asked,
    Cancelled,
    CancelRequested,
    Claimed,
    Completed,
    Effect,
    Event,
    Failed,
    Hurried,
    LimitReached,
    Paused,
    PauseRequested,
    Record,
    Redirected,
    Requeued,
    Resumed,
    Rung,
    RunIn,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
    Stopped,
)
from pullcord.core.receipts import heading
from pullcord.core.run import Run, Step
from pullcord.core.states import RunState

LISTED_MAX: Final = 200
"""Of a long list no more than the latest so many are named; how many there are is always said."""

Verb: TypeAlias = Literal["pause", "cancel", "limit", "requeue", "redirect"]
Scope: TypeAlias = Literal["all", "agent", "thread"]


class _Act(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="what"):
    pass


class InFlight(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A step with an intent and no decision, when the stop was asked for."""

    step: str
    name: str
    tool: str = ""
    model: str = ""
    effect: Effect = "once"
    run_in: RunIn = ""
    attempt: int = 1


class Effects(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the run had done to the world by then, by the ids of its steps."""

    done: int = 0
    steps: tuple[str, ...] = ()  # the latest of them
    undoable: tuple[str, ...] = ()
    in_doubt: tuple[str, ...] = ()


class StopAsked(_Act, frozen=True, kw_only=True, tag="asked"):
    """Somebody, or something, asked for a stop, and it was accepted."""

    verb: Verb
    by: str
    source: Source
    state: RunState  # that it met
    via: str = ""  # the surface it came by, and how whoever asked was known there
    reason: str = ""
    key: str | None = None
    now: bool = False
    quarantine: bool = False
    again: bool = False  # a cancel was asked for before, and this one asks for more
    limits: tuple[str, ...] = ()  # the leaves that were true
    in_flight: tuple[InFlight, ...] = ()
    said: dict[str, int] = {}  # text that had not ended: characters in the journal, by part
    questions: tuple[str, ...] = ()  # that were open
    children: tuple[str, ...] = ()  # that share its fate
    effects: Effects = Effects()
    used: Used = Used()


class StopHurried(_Act, frozen=True, kw_only=True, tag="hurried"):
    """The second press: no more waiting for what was under way."""

    by: str
    source: Source
    state: RunState
    via: str = ""
    reason: str = ""
    key: str | None = None


class StepEnd(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a step that was in flight: a heading of the receipt."""

    step: str
    name: str
    became: str
    rung: Rung = ""


class StopTookHold(_Act, frozen=True, kw_only=True, tag="in_effect"):
    """The stop that was asked for by record `asked_seq` holds."""

    verb: Verb
    asked_seq: int
    rung: Rung = ""
    frozen: tuple[str, ...] = ()  # tools that stand still and live on
    steps: tuple[StepEnd, ...] = ()
    undone: tuple[str, ...] = ()
    could_not_undo: tuple[str, ...] = ()


class StopLapsed(_Act, frozen=True, kw_only=True, tag="lapsed"):
    """It never took hold: the run had ended first, or something stronger came, or it went on."""

    verb: Verb
    asked_seq: int
    state: RunState  # what it is instead


class Viewer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What had been handed to somebody's connection or terminal. Not: what was read by eyes."""

    who: str
    via: str = ""
    seq: int = 0  # every record up to this one
    said: dict[str, int] = {}  # of text that had not ended: characters, by part
    sending: bool = False  # a further piece was on its way, and may have arrived


class StopShown(_Act, frozen=True, kw_only=True, tag="shown"):
    """Who was watching when the stop of record `asked_seq` was heard, and how far they were."""

    asked_seq: int
    viewers: tuple[Viewer, ...] = ()
    others: int = 0  # that watched, too, and were no further than the last one listed


class SwitchEngaged(_Act, frozen=True, kw_only=True, tag="engaged"):
    """The kill switch was set. It may have been before this could be written."""

    by: str
    scope: Scope = "all"
    name: str = ""  # of the agent or thread
    via: str = ""
    reason: str = ""
    engaged_at_ms: int = 0  # by the wall clock
    flag: str = ""  # the id of that flag: it is written down once
    held: tuple[str, ...] = ()  # the runs that it holds, or the newest of them


class Unstopped(msgspec.Struct, frozen=True, kw_only=True):
    """What went on although the kill switch was pulled."""

    what: str
    why: str


class SwitchAnswered(_Act, frozen=True, kw_only=True, tag="answered"):
    """What pulling the kill switch had done when it was acknowledged."""

    flag: str  # the id of the one that was pulled
    asked: int  # processes that drove runs of this store
    took_ms: int
    killed: tuple[int, ...] = ()  # processes that did not answer, or could not stop what they did
    left: tuple[Unstopped, ...] = ()
    by: str = ""  # who pulled it this time: it may have been engaged before
    via: str = ""
    reason: str = ""


class SwitchReleased(_Act, frozen=True, kw_only=True, tag="released"):
    """The kill switch was taken back. Nothing goes on by itself."""

    by: str
    scope: Scope = "all"
    name: str = ""
    via: str = ""
    reason: str = ""


class PayloadsForgotten(_Act, frozen=True, kw_only=True, tag="forgotten"):
    """What these runs had said and done was deleted. That it was there is still known."""

    by: str
    runs: tuple[str, ...]
    via: str = ""
    reason: str = ""
    records: int = 0


Act: TypeAlias = (
    StopAsked
    | StopHurried
    | StopTookHold
    | StopLapsed
    | StopShown
    | SwitchEngaged
    | SwitchAnswered
    | SwitchReleased
    | PayloadsForgotten
)


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One line of the stop log: what happened, when by a clock that never jumps, and up to where
    that run's own records are vouched for. Its number and wall time are its place's."""

    act: Act
    run: str = ""
    agent: str = ""
    thread: str = ""
    seq: int = 0  # of the run's record that this is about, or its last one
    hash: str = ""  # of that record, in hex
    steady_ms: int = 0
    boot: str = ""
    boot_ms: int = 0  # since that boot


_encoder: Final = msgspec.json.Encoder()
_decoder: Final = msgspec.json.Decoder(Entry)


def encode_entry(entry: Entry) -> bytes:
    """Return the entry as it is stored and hashed."""
    return _encoder.encode(entry)


def decode_entry(payload: bytes) -> Entry:
    """Return the entry stored as `payload`.

    Raises:
        msgspec.DecodeError: it is none that this build knows.
    """
    return _decoder.decode(payload)


# --- what a record means for the log --------------------------------------------------------------

_VERBS: Final[Mapping[type[Event], Verb]] = {
    PauseRequested: "pause",
    CancelRequested: "cancel",
    LimitReached: "limit",
    Requeued: "requeue",
}
_TAKES_HOLD: Final[Mapping[RunState, tuple[Verb, RunState]]] = {
    # while a stop is on its way → which, and where it leads to
    RunState.PAUSING: ("pause", RunState.PAUSED),
    RunState.STOPPING: ("limit", RunState.STOPPED),
    RunState.CANCELLING: ("cancel", RunState.CANCELLED),
}
ASKS: Final = frozenset(_VERBS) | {Redirected}
HEARD: Final = ASKS - {Requeued}
"""What is asked of a run that a viewer may be watching. The viewers are then noted; those of a
redirect that cuts nothing are dropped, because it is no stop."""
_DECIDED: Final = frozenset({StepFinished, StepFailed, StepInterrupted, StepInDoubt})
NOTED: Final = (
    ASKS
    | _DECIDED
    | {
        *(Hurried, Paused, Cancelled, Stopped),
        Claimed,  # journals of before say so when the owner of a pausing run was lost
        *(Resumed, Completed, Failed),  # may come before a pause has taken hold
    }
)
"""The only events that the stop log looks at: all others cost it nothing."""


def acts(
    was: RunState, since: int, run: Run, record: Record, said: Mapping[str, int]
) -> Iterator[Act]:
    """What the log says of `record`, which made `run` of one in state `was` since record `since`.

    `said`: how much of each part of text that has not ended is in the journal.
    """
    event, is_held = record.event, False
    if verb := _VERBS.get(type(event)):
        yield _asked(verb, was, run, record, said)
        is_held = verb == "requeue" or (verb == "pause" and run.state is RunState.PAUSED)
        if is_held:  # nothing was in flight, or it was awaited before: in effect as it is asked
            yield _took_hold(verb, record.seq, run)
    elif isinstance(event, Hurried):
        yield StopHurried(state=was, **_who(event))
    elif isinstance(event, Redirected):
        if any(_is_cut(run.steps[step]) for step in run.open_steps()):
            yield _asked("redirect", was, run, record, said)
    elif isinstance(event, StepFinished | StepFailed | StepInterrupted | StepInDoubt):
        yield from _redirected(run, run.steps[event.step], record.seq)
    if was in _TAKES_HOLD and run.state is not was:
        verb, end = _TAKES_HOLD[was]
        if run.state is end:
            yield _took_hold(verb, since, run)
        else:
            yield StopLapsed(verb=verb, asked_seq=since, state=run.state)


def _is_cut(step: Step) -> bool:
    """Whether a redirect stops this step: a request to a model, or a tool that asks for it."""
    return bool(step.model) or step.cut_by_redirect


def _redirected(run: Run, decided: Step, seq: int) -> Iterator[Act]:
    """What became of the redirects that met this step in flight, now that record `seq` has decided
    it: each holds, or comes to nothing, with the last of the steps that it was to cut."""
    asked = [n for n in run.instructions if decided.started_seq < n < seq and _is_cut(decided)]
    for asked_seq in asked:
        met = [s for s in run.steps.values() if _is_cut(s) and s.started_seq < asked_seq]
        if any(step.status == "started" for step in met):
            continue
        cut = [s for s in met if s.decided_seq > asked_seq and s.status == "interrupted"]
        if cut:
            held = _took_hold("redirect", asked_seq, run)
            yield msgspec.structs.replace(held, rung=cut[-1].rung)
        else:
            yield StopLapsed(verb="redirect", asked_seq=asked_seq, state=run.state)


class _Who(TypedDict):
    by: str
    source: Source
    via: str
    reason: str
    key: str | None


def _who(event: Asked) -> _Who:
    return {
        "by": event.by,
        "source": event.source,
        "via": event.via,
        "reason": event.reason,
        "key": event.key,
    }


def _asked(
    verb: Verb, was: RunState, run: Run, record: Record, said: Mapping[str, int]
) -> StopAsked:
    event = record.event
    cause = event.cause if isinstance(event, Requeued) else ""
    owner: _Who = {
        "by": run.owner,
        "source": "shutdown",
        "via": "",
        "reason": cause,
        "key": None,
    }
    who = _who(event) if isinstance(event, Asked) else owner
    cut = run.cancel if verb == "cancel" else None
    return StopAsked(
        **who,
        verb=verb,
        state=was,
        now=isinstance(event, PauseRequested | CancelRequested) and event.now,
        quarantine=isinstance(event, CancelRequested) and event.quarantine,
        again=cut is not None and cut.seq != record.seq,
        limits=_leaves(event),
        in_flight=tuple(_in_flight(step, run.steps[step]) for step in run.open_steps()),
        said=dict(said),
        questions=tuple(
            name
            for name, asked in run.questions.items()
            if asked.status == "open" or asked.settled_seq == record.seq  # the stop withdrew it
        ),
        children=tuple(run.living_children()),
        effects=_effects(run),
        used=run.used_at(record.steady_ms),
    )


def _leaves(event: Event) -> tuple[str, ...]:
    if isinstance(event, LimitReached):
        return event.leaves
    return event.limits if isinstance(event, PauseRequested) else ()


def _in_flight(step: str, known: Step) -> InFlight:
    return InFlight(
        step=step,
        name=known.name,
        tool=known.tool,
        model=known.model,
        effect=known.effect,
        run_in=known.run_in,
        attempt=known.attempt,
    )


def _effects(run: Run) -> Effects:
    """Only steps that do something to the world: to read, or to ask a model, changes nothing."""
    under = {
        step: heading(known, ended=run.ended)
        for step, known in run.steps.items()
        if known.effect != "none" and not known.model
    }
    done = [step for step, where in under.items() if where == "done"]
    in_doubt = [step for step, where in under.items() if where == "in_doubt"]
    undoable = [step for step in done if run.steps[step].undoable]
    return Effects(
        done=len(done),
        steps=tuple(done[-LISTED_MAX:]),
        undoable=tuple(undoable[-LISTED_MAX:]),
        in_doubt=tuple(in_doubt[-LISTED_MAX:]),
    )


def _took_hold(verb: Verb, asked_seq: int, run: Run) -> StopTookHold:
    stop = {"pause": run.pause, "cancel": run.cancel}.get(verb)
    known = run.steps.items()
    return StopTookHold(
        verb=verb,
        asked_seq=asked_seq,
        rung=stop.rung if stop else "",
        frozen=run.frozen if verb == "pause" else (),
        steps=tuple(
            StepEnd(
                step=step,
                name=one.name,
                became=heading(one, ended=run.ended),
                rung=one.rung,
            )
            for step, one in known
            if one.started_seq < asked_seq
            and (one.status == "started" or one.decided_seq > asked_seq)
        ),
        undone=tuple(step for step, one in known if one.undo == "undone"),
        could_not_undo=tuple(step for step, one in known if one.undo == "failed"),
    )
