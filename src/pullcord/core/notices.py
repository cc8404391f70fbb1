"""What a hook is told: that a run has moved, or that it waits for an answer. Made from records, so
whoever reads the same record tells the same. No text of agents or tools is in a `Moved`."""

from typing import Any, Final, NamedTuple

import msgspec

from pullcord.core.events import (
    TAGS,
    Asked,
    Completed,
    Created,
    Failed,
    QuestionAsked,
    Record,
    Requeued,
    Rung,
)
from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.core.values import load

_S = RunState
WORKING: Final = frozenset((_S.RUNNING, _S.PAUSING, _S.STOPPING, _S.CANCELLING))
"""The states in which something of a run may be under way."""


class Moved(msgspec.Struct, frozen=True, kw_only=True):
    """A run has moved from one state to another: into work, or out of it.

    `seq` is the number of the record that moved it: with `run_id` it is the same however often
    this is told. `working` says whether anything of the run may be under way now. Of a stop,
    `by`, `source` and `reason` are those of whoever asked, also when it takes hold later.
    """

    run_id: str
    agent: str
    thread: str
    seq: int
    event: str  # the name of that record, as in `pause_requested`
    before: str  # empty: there was none
    after: RunState
    working: bool
    at_ms: int
    by: str = ""
    source: str = ""  # person, limit, guard, parent, kill_switch, shutdown, agent, ...
    reason: str = ""
    via: str = ""  # the surface it came by, and how whoever asked was known there
    asked_at_ms: int = 0  # of a stop: when it was asked for
    effect_at_ms: int = 0  # and when it had taken hold; 0: not yet
    rung: Rung = ""  # of the ladder, that was needed
    limits: tuple[str, ...] = ()  # that have stopped it
    parent: str | None = None


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """Something outside must answer: a call waits for somebody's approval."""

    run_id: str
    question: str
    kind: str
    text: str
    tool: str = ""
    args: Any = None
    call: str = ""  # the digest of the exact call
    expires_at_ms: int = 0


class _Why(NamedTuple):
    """Who moved it, and for which reason; of a stop also since when."""

    by: str = ""
    source: str = ""
    reason: str = ""
    asked_at_ms: int = 0
    effect_at_ms: int = 0
    rung: Rung = ""
    limits: tuple[str, ...] = ()


def moved(before: RunState | None, run: Run, record: Record) -> Moved | None:
    """What is to be told of `record`, which has led from `before` to `run`. None: nothing."""
    if before is run.state:
        return None
    why = _why(run, record)
    return Moved(
        run_id=run.id,
        agent=run.agent,
        thread=run.thread,
        parent=run.parent,
        seq=record.seq,
        event=TAGS[type(record.event)],
        before=before.value if before else "",
        after=run.state,
        working=run.state in WORKING,
        at_ms=record.at_ms,
        via=record.event.via if isinstance(record.event, Asked) else "",
        **why._asdict(),
    )


def waits(record: Record) -> Notice | None:
    """What is to be told of a record that asks for an approval."""
    asked = record.event
    if not isinstance(asked, QuestionAsked) or asked.kind != "approval":
        return None
    details = load(asked.details)
    return Notice(
        run_id=record.run_id,
        question=asked.question,
        kind=asked.kind,
        text=asked.text,
        tool=asked.tool,
        args=details.get("args") if isinstance(details, dict) else None,
        call=asked.call,
        expires_at_ms=asked.due_ms,
    )


def _why(run: Run, record: Record) -> _Why:
    event = record.event
    if run.state in (_S.STOPPING, _S.STOPPED) and (limit := run.reached):
        times = (limit.asked_at_ms, limit.effect_at_ms)
        return _Why("limits", "limit", limit.says, *times, limits=limit.leaves)
    if stop := _stop_of(run):
        times = (stop.asked_at_ms, stop.effect_at_ms)
        return _Why(stop.by, stop.source, stop.reason, *times, stop.rung, stop.limits)
    match event:
        case Asked():
            return _Why(event.by, event.source, event.reason)
        case Created():
            return _Why(event.by)
        case Requeued():
            return _Why(source="shutdown", reason=event.cause)
        case Completed() | Failed():
            return _Why(source="agent")
        case _:
            return _Why()


def _stop_of(run: Run) -> Any:
    if run.state in (_S.CANCELLING, _S.CANCELLED):
        return run.cancel
    return run.pause if run.state in (_S.PAUSING, _S.PAUSED) else None
