"""The life of a run, as one table. Everything else about states is derived from it.

The table lists, for each state, *every* event that may be recorded in it and the state that
follows. An event that is not listed cannot be appended: that is the whole of the gate.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Final, Literal, NamedTuple


class RunState(StrEnum):
    """Where a run is in its life. `TABLE` says what each means and what may happen in it."""

    QUEUED = "queued"
    RUNNING = "running"
    PAUSING = "pausing"
    PAUSED = "paused"
    WAITING = "waiting"
    STOPPING = "stopping"
    STOPPED = "stopped"
    CANCELLING = "cancelling"
    CANCELLED = "cancelled"
    COMPLETED = "completed"
    FAILED = "failed"


class Row(NamedTuple):
    """What one state means to a person, to an owner, and to the journal."""

    sign: str  # its shape, so that no surface needs colour to tell it from the others
    label: str
    says: str  # the consequence, in one line: what is true while this state holds
    needs_owner: bool  # a process should be driving it
    text: Literal["shown", "held", "refused"]  # what becomes of text the agent streams
    on: Mapping[str, RunState]  # event → the state after it


_S = RunState
# Evidence, attention and a title outlive the run: recorded in any state, they change none.
_LIMITS: Final = ("limits_raised", "signalled")
_ALWAYS: Final = (
    "late_result", "attention_raised", "attention_settled", "spent", "guard_tripped", "renamed",
)  # fmt: skip
_OUTCOMES: Final = ("step_finished", "step_failed", "step_interrupted", "step_in_doubt")
_UNDOING: Final = ("undo_started", "step_undone", "undo_failed")
# What an ended run has left behind can be undone later, by whoever takes it for that. Of a run that
# has completed only for the run it worked for: see `decide`.
_LATER: Final = ("undo_requested", "claimed", "child_undone", *_UNDOING)


def _stay(state: RunState, *events: str) -> dict[str, RunState]:
    return dict.fromkeys((*events, *_ALWAYS), state)


TABLE: Final[Mapping[RunState, Row]] = {
    _S.QUEUED: Row(
        "○",
        "Queued",
        "Nothing is running. The next free process that knows this agent goes on with it.",
        needs_owner=True,
        text="refused",
        on=_stay(_S.QUEUED, "redirected", "instruction_settled", "answered", "child_ended")
        | _stay(_S.QUEUED, "item_rewritten", "doubt_settled", *_LIMITS)
        | {
            "claimed": _S.RUNNING,
            "limit_reached": _S.STOPPING,
            "pause_requested": _S.PAUSED,  # nothing in flight: the pause holds at once
            "cancel_requested": _S.CANCELLING,
            "failed": _S.FAILED,
        },
    ),
    _S.RUNNING: Row(
        "●",
        "Running",
        "The agent is working. Pause keeps everything; cancel keeps what is done.",
        needs_owner=True,
        text="shown",
        on=_stay(_S.RUNNING, "redirected", "instruction_settled", "step_started", *_OUTCOMES)
        | _stay(_S.RUNNING, "text_ended", "asked", "answered", "child_born", "child_ended")
        | _stay(_S.RUNNING, "remembered", "planned", "item_rewritten", "item_started", "plan_ended")
        | _stay(_S.RUNNING, "deferred", "released", "doubt_settled", "question_withdrawn")
        | _stay(_S.RUNNING, "call_refused", "stood_still", "condition_met", *_LIMITS)
        | {
            "claimed": _S.RUNNING,  # the owner before died; this one takes over
            "requeued": _S.QUEUED,
            "pause_requested": _S.PAUSING,
            "blocked": _S.WAITING,
            "limit_reached": _S.STOPPING,
            "cancel_requested": _S.CANCELLING,
            "completed": _S.COMPLETED,
            "failed": _S.FAILED,
        },
    ),
    _S.PAUSING: Row(
        "◐",
        "Pausing",
        "Nothing new starts. What was already under way is finishing.",
        needs_owner=True,
        text="held",
        on=_stay(_S.PAUSING, "redirected", "instruction_settled", "hurried", *_OUTCOMES)
        | _stay(_S.PAUSING, "text_ended", "answered", "child_ended", "stood_still", *_LIMITS)
        | _stay(_S.PAUSING, "item_rewritten", "released", "doubt_settled", "question_withdrawn")
        | _stay(_S.PAUSING, "taken_over")  # the owner was lost: its steps are judged first
        | {
            "claimed": _S.PAUSED,  # as journals of before `taken_over` say it
            "paused": _S.PAUSED,
            "resumed": _S.RUNNING,  # a change of mind before the pause took hold
            "limit_reached": _S.STOPPING,
            "cancel_requested": _S.CANCELLING,
            "completed": _S.COMPLETED,  # what was in flight was the last of it
            "failed": _S.FAILED,
        },
    ),
    _S.PAUSED: Row(
        "‖",
        "Paused",
        "Nothing is in flight and nothing will start. Resume goes on from here, context kept.",
        needs_owner=False,
        text="refused",
        on=_stay(_S.PAUSED, "redirected", "instruction_settled", "answered", "child_ended")
        | _stay(_S.PAUSED, "text_ended", *_OUTCOMES)  # of a step that stood at its checkpoint
        | _stay(_S.PAUSED, "item_rewritten", "doubt_settled", *_LIMITS)
        | {
            "resumed": _S.QUEUED,
            "limit_reached": _S.STOPPING,
            "cancel_requested": _S.CANCELLING,
        },
    ),
    _S.WAITING: Row(
        "?",
        "Waiting",
        "The agent needs an answer, a child run or a timer before anything else can go on.",
        needs_owner=False,
        text="refused",
        on=_stay(_S.WAITING, "instruction_settled", *_LIMITS)
        | {
            "answered": _S.QUEUED,
            "child_ended": _S.QUEUED,
            "redirected": _S.QUEUED,
            "claimed": _S.RUNNING,  # its own process found something to do after all
            "limit_reached": _S.STOPPING,
            "pause_requested": _S.PAUSED,
            "cancel_requested": _S.CANCELLING,
        },
    ),
    _S.STOPPING: Row(
        "◍",
        "Stopping",
        "A limit is reached. Nothing new starts; what was under way, or a last answer, ends it.",
        needs_owner=True,
        text="shown",
        on=_stay(_S.STOPPING, "claimed", "stood_still", "step_started", *_OUTCOMES)
        | _stay(_S.STOPPING, "text_ended", "child_ended", "released", "remembered")
        | _stay(_S.STOPPING, "instruction_settled", "question_withdrawn", "call_refused")
        | _stay(_S.STOPPING, "plan_ended")
        | {
            "stopped": _S.STOPPED,
            "cancel_requested": _S.CANCELLING,
            "failed": _S.FAILED,
        },
    ),
    _S.CANCELLING: Row(
        "◌",
        "Cancelling",
        "Nothing new starts, ever. What was in flight is being stopped, what can be is undone.",
        needs_owner=True,
        text="refused",
        on=_stay(_S.CANCELLING, "claimed", "hurried", "step_interrupted", "step_in_doubt")
        | _stay(_S.CANCELLING, "cancel_requested", "stood_still")
        | _stay(_S.CANCELLING, "text_ended", "child_ended", "instruction_settled")
        | _stay(_S.CANCELLING, "released", "child_undone", *_UNDOING)
        | {"cancelled": _S.CANCELLED},
    ),
    _S.CANCELLED: Row(
        "■",
        "Cancelled",
        "Stopped for good. Finished work and partial text are kept in the thread.",
        needs_owner=False,
        text="refused",
        on=_stay(_S.CANCELLED, "forgotten", *_LATER),
    ),
    _S.STOPPED: Row(
        "⊘",
        "Stopped",
        "A limit has ended it. Finished work is kept; with a higher limit, go on from a fork.",
        needs_owner=False,
        text="refused",
        on=_stay(_S.STOPPED, "forgotten", *_LATER),
    ),
    _S.COMPLETED: Row(
        "✓",
        "Completed",
        "The agent finished. The result is kept.",
        needs_owner=False,
        text="refused",
        on=_stay(_S.COMPLETED, "forgotten", *_LATER),
    ),
    _S.FAILED: Row(
        "✕",
        "Failed",
        "The agent stopped with an error. Finished work is kept; try again from a fork.",
        needs_owner=False,
        text="refused",
        on=_stay(_S.FAILED, "forgotten", *_LATER),
    ),
}

TERMINAL: Final = frozenset(s for s, row in TABLE.items() if set(row.on.values()) == {s})
LIVING: Final = frozenset(RunState) - TERMINAL
NEEDS_OWNER: Final = frozenset(s for s, row in TABLE.items() if row.needs_owner)

ASKS: Final[Mapping[str, str]] = {
    # command → the event it causes where the table allows that event
    "pause": "pause_requested",
    "resume": "resumed",
    "redirect": "redirected",
    "answer": "answered",
    "approve": "answered",
    "edit": "answered",
    "deny": "answered",
    "cancel": "cancel_requested",
    "settle": "attention_settled",
    "undo": "undo_requested",
    "raise": "limits_raised",
    "signal": "signalled",
    "rename": "renamed",
}
OFFERED: Final[Mapping[RunState, frozenset[str]]] = {
    # the commands a surface shows as possible: every button, key and help line reads this
    # (what a completed run did only the run above it has undone: `may_be_asked_to_undo`)
    state: frozenset(
        verb
        for verb, event in ASKS.items()
        if event in row.on and not (verb == "undo" and state is RunState.COMPLETED)
    )
    for state, row in TABLE.items()
}
