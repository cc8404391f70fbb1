"""What a driver does next: a pure function of the run and of facts about this process.

`moves` is to a driver what `decide` is to a command. It keeps nothing and awaits nothing: the same
run and the same facts give the same moves. `Driver` states the facts, performs the moves, and looks
again whenever something may have changed. So the table need not foresee any order of events.

A run that comes to its end here climbs a ladder. Its steps land, its agent unwinds, its children
end, and the kill switch allows the rest. Then the driver undoes its effects and releases what it
holds. `LADDERS` has the rungs of every way to end. The run stands on a rung while that rung returns
moves.
"""

from collections.abc import Callable
from enum import Enum
from typing import Final, Literal, TypeAlias

import msgspec

from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.core.undo import is_anything_left_to_undo

_S = RunState
Agent: TypeAlias = Literal["out", "inside", "unwinding", "returned", "raised"]
"""Where the agent's coroutine is: `out` of memory (never entered, unwound, or left behind),
`inside`, `unwinding` (inside, with every door closed), or ended by itself."""
Leaving: TypeAlias = Literal["", "asked", "now"]
"""Whether the runtime closes. `asked`: steps may finish. `now`: the time for that is over."""


class Here(msgspec.Struct, frozen=True, kw_only=True):
    """The facts about a run in this process, beside its records."""

    agent: Agent = "out"
    has_asides: bool = False  # calls that the agent does not wait for are under way
    is_flying: bool = False  # a step is under way
    is_moving: bool = False  # a step is under way that does not stand still
    is_busy: bool = False  # a door is doing something for the agent
    is_waiting: bool = False  # a door waits for an answer, a child or a timer
    is_backing_off: bool = False  # a door waits in memory alone, before another attempt
    is_at_gate: bool = False  # the agent or a step waits at the gate
    is_quiet: bool = False  # it has waited for `quiet_s`: it counts as waiting
    is_idle: bool = False  # it has rested for `park_after_s`: it may leave the memory
    caught: Literal["", "untold", "told"] = ""  # a guard found something in how the agent ended
    is_switched_off: bool = False  # the kill switch holds it
    was_cut: bool = False  # the kill switch has cut it, and the journal does not know yet
    leaving: Leaving = ""
    was_ended: bool = False  # it had ended before this claim: an undo is left
    knows_how: bool = True  # how to undo and release, or has asked the agent
    is_undoing: bool = False  # an undo is under way
    is_releasing: bool = False  # a release is under way


class Move(Enum):
    """A move of a driver. Awaited moves come last in `Moves`: the run may change meanwhile."""

    OPEN_GATE = "let the agent begin things"
    SHUT_GATE = "hold the agent at its next door"
    CLOSE_GATE = "turn the agent away at its next door, for good"
    GO_ON = "let steps that stand still go on, and stop those that an instruction overtakes"
    THAW = "let steps that stand still go on"
    HOLD = "have steps stand still, stop or finish, as each declares for a pause"
    LAND = "stop the steps under way, as a cancel or a shutdown does"
    HURRY = "take the next rung of stopping at once"
    UNWIND = "have the agent leave the memory"
    ASK_HOW = "enter the agent once more, only to say how to undo and to release"
    UNDO = "undo what it did"
    RELEASE = "release what it holds"
    COUNT_QUIET = "count how long it waits"
    COUNT_IDLE = "count how long it rests"
    # The driver awaits each of these but the last.
    TELL_OF_CUT = "have the run paused that the kill switch has cut"
    BLOCK = "record that it waits"
    PAUSE = "record that it is paused, when the agent has had its turn"
    NAME = "name what goes on although the run rests"
    TAKE_AGAIN = "go on with it under a new lease"
    TRIP = "record what a guard has found in how the agent ended"
    CANCEL_CHILDREN = "cancel its children"
    FINISH = "record how its agent ended"
    STOP = "record that a limit has stopped it"
    CANCEL = "record that it is cancelled"
    REQUEUE = "record that another process goes on with it"
    GIVE_BACK = "let go of the lease"
    BE_OVER = "let go of the run, which has ended"


M = Move
TO_OTHERS: Final = frozenset((M.PAUSE, M.REQUEUE, M.GIVE_BACK))
"""The moves after which another process may take the run up."""
Moves: TypeAlias = tuple[Move, ...]
Rung: TypeAlias = Callable[[Run, Here], Moves | None]
"""One rung of a ladder: returns the moves while the run stands on it. None: it has passed it."""


def enters(run: Run, here: Here) -> bool:
    """Return whether a driver enters the agent when it begins: the agent has work to do."""
    has_work = run.state is _S.RUNNING or (run.state is _S.STOPPING and _may_wrap_up(run))
    return has_work and not here.was_cut


def moves(run: Run, here: Here) -> Moves:
    """Return the next moves of a driver. Empty: it waits for a change."""
    if here.was_cut and run.state in (_S.RUNNING, _S.QUEUED, _S.WAITING):
        return (M.TELL_OF_CUT,)
    todo = _ROWS[run.state](run, here)
    # Until a release is over, nobody else may call it.
    return tuple(move for move in todo if move not in TO_OTHERS) if here.is_releasing else todo


# --- one row for each state ---


def _running(run: Run, here: Here) -> Moves:
    is_ending = _is_through(here) and not here.is_flying and not run.living_children()
    # Gone without leaving: the kill switch has unwound it, and a person resumed it before the
    # driver recorded the pause.
    if (here.leaving or _is_gone(here)) and not is_ending:
        return (M.SHUT_GATE, *_climb("hand over", run, here))
    if here.is_switched_off:
        return ()
    if _is_through(here):
        return (M.OPEN_GATE, M.GO_ON, *_finishing(run, here))
    is_still = not (here.is_busy or here.is_flying or here.is_at_gate or here.is_backing_off)
    if here.is_waiting and is_still:
        return (M.OPEN_GATE, M.GO_ON, M.BLOCK if here.is_quiet else M.COUNT_QUIET)
    return (M.OPEN_GATE, M.GO_ON)


def _pausing(run: Run, here: Here) -> Moves:
    if here.leaving == "now" and (here.is_flying or here.is_busy):
        return (M.SHUT_GATE, M.HOLD, M.LAND, *([M.UNWIND] if here.is_busy else []))
    if here.is_moving or here.is_busy:
        return (M.SHUT_GATE, M.HOLD)
    is_last = _is_through(here) and not run.living_children() and here.caught != "told"
    if is_last and not (here.is_switched_off and run.defers):
        return _finishing(run, here)
    return (M.SHUT_GATE, M.HOLD, M.PAUSE)


def _resting(run: Run, here: Here) -> Moves:
    """Paused or waiting: the agent stays in memory for a while, ready to go on at once."""
    is_kept = not (here.leaving or here.is_idle or here.is_switched_off or _is_gone(here))
    has_ended = _is_through(here) and not run.living_children()
    if run.state is _S.WAITING and (here.is_at_gate or has_ended) and is_kept:
        return (M.SHUT_GATE, M.TAKE_AGAIN)  # a parallel branch has work again
    # A step that stands at its checkpoint keeps the run in memory: unwinding would cut it.
    if is_kept or (here.is_flying and not here.leaving):
        return (M.SHUT_GATE, M.COUNT_IDLE, *([M.NAME] if run.state is _S.PAUSED else []))
    return (M.SHUT_GATE, M.COUNT_IDLE, *_climb("rest elsewhere", run, here))


def _queued(run: Run, here: Here) -> Moves:
    """Resumed, answered or redirected: the process that holds the run goes on with it first."""
    if here.leaving or here.is_switched_off or _is_gone(here):
        return _climb("rest elsewhere", run, here)
    return (M.TAKE_AGAIN,)


def _stopping(run: Run, here: Here) -> Moves:
    """A limit is reached. Steps under way end by themselves, or the agent has a last word."""
    if _may_wrap_up(run) and here.leaving:  # another life says the last word
        return (M.THAW, M.CLOSE_GATE, *_climb("wrap up elsewhere", run, here))
    if _may_wrap_up(run) and not _is_gone(here):
        if _is_through(here):
            return (M.THAW, *_finishing(run, here))
        return (M.THAW,) if here.is_switched_off else (M.THAW, M.OPEN_GATE)
    return (M.THAW, M.CLOSE_GATE, *_climb("stop", run, here))


def _cancelling(run: Run, here: Here) -> Moves:
    is_hurried = run.cancel is not None and run.cancel.hurried_seq > 0
    return (M.CLOSE_GATE, *([M.HURRY] if is_hurried else []), *_climb("cancel", run, here))


def _ended(run: Run, here: Here) -> Moves:
    return _climb("undo later", run, here) if here.was_ended else (M.BE_OVER,)


def _finishing(run: Run, here: Here) -> Moves:
    """The agent returned or raised. The driver closes what it leaves open, then records that."""
    return (M.CLOSE_GATE, *_climb("finish", run, here))


_ROWS: Final[dict[RunState, Callable[[Run, Here], Moves]]] = {
    _S.RUNNING: _running,
    _S.PAUSING: _pausing,
    _S.PAUSED: _resting,
    _S.WAITING: _resting,
    _S.QUEUED: _queued,
    _S.STOPPING: _stopping,
    _S.CANCELLING: _cancelling,
    _S.CANCELLED: _ended,
    _S.COMPLETED: _ended,
    _S.FAILED: _ended,
    _S.STOPPED: _ended,
}


# --- the rungs on which a run comes to rest ---


def _landed(_run: Run, here: Here) -> Moves | None:
    return (M.LAND,) if here.is_flying else None


def _landed_by_itself(_run: Run, here: Here) -> Moves | None:
    """Steps finish, as long as the process has time."""
    if not here.is_flying:
        return None
    return (M.LAND,) if here.leaving == "now" else ()


def _at_rest(_run: Run, here: Here) -> Moves | None:
    """Steps finish. A door at work is turned away: nothing that it looks into can begin."""
    if here.is_flying:
        return ()
    return (M.UNWIND,) if here.is_busy else None


def _unwound(_run: Run, here: Here) -> Moves | None:
    is_inside = here.agent in ("inside", "unwinding")
    return (M.UNWIND,) if is_inside or here.is_busy else None


def _clean(_run: Run, here: Here) -> Moves | None:
    return (M.TRIP,) if here.caught == "untold" else None


def _children_ended(run: Run, here: Here) -> Moves | None:
    if not run.living_children():
        return None
    return (M.GIVE_BACK,) if here.leaving == "now" else ()


def _children_finished(run: Run, here: Here) -> Moves | None:
    if not run.living_children():
        return None
    cancels = (M.CANCEL_CHILDREN,) if here.agent == "raised" else ()
    return (*cancels, M.BLOCK) if run.state is _S.RUNNING else cancels


def _switch_lets_release(run: Run, here: Here) -> Moves | None:
    return _wait_for_switch(here) if here.is_switched_off and run.defers else None


def _switch_lets_undo(run: Run, here: Here) -> Moves | None:
    has_work = bool(run.defers) or is_anything_left_to_undo(run)
    return _wait_for_switch(here) if here.is_switched_off and has_work else None


def _wait_for_switch(here: Here) -> Moves:
    return (M.GIVE_BACK,) if here.leaving and not here.is_undoing else ()


def _switch_lets_anything(_run: Run, here: Here) -> Moves | None:
    if not here.is_switched_off:
        return None
    return () if here.is_undoing else (M.GIVE_BACK,)


def _knows_how(_run: Run, here: Here) -> Moves | None:
    if here.knows_how:
        return None
    return (M.GIVE_BACK,) if here.leaving else (M.ASK_HOW,)


def _undone(run: Run, here: Here) -> Moves | None:
    if not is_anything_left_to_undo(run):
        return None
    return (M.GIVE_BACK,) if here.leaving and not here.is_undoing else (M.UNDO,)


def _released(run: Run, _here: Here) -> Moves | None:
    return (M.RELEASE,) if run.defers else None


Ending: TypeAlias = Literal[
    "hand over", "rest elsewhere", "wrap up elsewhere", "finish", "stop", "cancel", "undo later"
]
LADDERS: Final[dict[Ending, tuple[tuple[Rung, ...], Move]]] = {
    "hand over": ((_landed, _unwound), M.REQUEUE),
    "rest elsewhere": ((_landed, _unwound), M.GIVE_BACK),
    "wrap up elsewhere": ((_landed_by_itself, _unwound), M.GIVE_BACK),
    "finish": ((_at_rest, _clean, _children_finished, _switch_lets_release, _released), M.FINISH),
    "stop": (
        (
            *(_landed_by_itself, _unwound, _children_ended, _switch_lets_release),
            *(_knows_how, _released),
        ),
        M.STOP,
    ),
    "cancel": (
        (
            *(_landed, _unwound, _children_ended, _switch_lets_undo),
            *(_knows_how, _undone, _released),
        ),
        M.CANCEL,
    ),
    "undo later": ((_unwound, _switch_lets_anything, _knows_how, _undone), M.GIVE_BACK),
}


def _climb(ending: Ending, run: Run, here: Here) -> Moves:
    rungs, end = LADDERS[ending]
    for rung in rungs:
        if (stands := rung(run, here)) is not None:
            return stands
    return (end,)


# --- what the facts mean ---


def _is_through(here: Here) -> bool:
    """Return whether the agent has ended by itself. If it returned, so have its asides."""
    return here.agent == "raised" or (here.agent == "returned" and not here.has_asides)


def _is_gone(here: Here) -> bool:
    return here.agent in ("out", "unwinding")


def _may_wrap_up(run: Run) -> bool:
    return run.reached is None or run.reached.then == "wrap_up"
