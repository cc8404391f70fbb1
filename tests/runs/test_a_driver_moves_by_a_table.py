"""What a driver does next, for every state and every combination of facts that can be.

The laws are about the whole table: nothing starts under the kill switch, nothing begins after a
cancel, nothing is called over that goes on, no shutdown hangs. They are tested in turn: without any
one rung of a ladder, a law is broken.
"""

from collections.abc import Iterator
from itertools import product

import pytest
from msgspec.structs import replace

from pullcord.core.limits import Reached
from pullcord.core.run import Child, Run, Step, Stop
from pullcord.core.states import RunState
from pullcord.core.undo import is_anything_left_to_undo
from pullcord.runtime.driving import moves as table
from pullcord.runtime.driving.driver import Driver
from pullcord.runtime.driving.moves import Here, Move, Moves, enters, moves

M = Move
ENDED = (RunState.CANCELLED, RunState.COMPLETED, RunState.FAILED, RunState.STOPPED)
CLOSING = (RunState.STOPPING, RunState.CANCELLING, *ENDED)
RESTING = (RunState.PAUSED, RunState.WAITING)
STARTS = {M.OPEN_GATE, M.ASK_HOW, M.UNDO, M.RELEASE, M.TAKE_AGAIN, M.GO_ON}
AWAITED = {
    *(M.TELL_OF_CUT, M.BLOCK, M.PAUSE, M.NAME, M.TAKE_AGAIN, M.TRIP, M.CANCEL_CHILDREN),
    *(M.FINISH, M.STOP, M.CANCEL, M.REQUEUE, M.GIVE_BACK),
}
ENDS = {M.FINISH, M.STOP, M.CANCEL, M.REQUEUE}
LETS_GO = {*ENDS, M.GIVE_BACK, M.BE_OVER}
TURNS_AWAY = {M.UNWIND, M.TELL_OF_CUT, M.BE_OVER}
YES_NO = (False, True)
_BY_ITSELF = ("returned", "raised")
ASKED = Stop(seq=2, by="ana", reason="", source="person", asked_at_ms=0)


def run_of(
    state: RunState, *, child: bool, defer: bool, undo: bool, limit: str, hurried: bool
) -> Run:
    run = Run(id="r1", seq=9, state=state)
    run.children = {"c1": Child()} if child else {}
    run.defers = {"d1": "a lock"} if defer else {}
    wanted = "wanted" if state in ENDED else ""
    step = Step("book", 4, undoable=True, status="finished", decided_seq=5, undo=wanted)
    run.steps = {"s1": step} if undo else {}
    if state in (RunState.CANCELLING, RunState.CANCELLED):
        run.cancel = replace(ASKED, hurried_seq=3 if hurried else 0)
    if state is RunState.PAUSING:
        run.pause = replace(ASKED, hurried_seq=3 if hurried else 0)
    run.reached = Reached(leaves=(), then=limit) if limit else None  # pyright: ignore
    return run


def runs(state: RunState) -> Iterator[Run]:
    limits = ("stop", "wrap_up") if state is RunState.STOPPING else ("",)
    hurries = YES_NO if state in (RunState.CANCELLING, RunState.PAUSING) else (False,)
    undos = YES_NO if state in (RunState.CANCELLING, *ENDED) else (False,)
    defers = (False,) if state in ENDED else YES_NO
    for child, defer, undo, limit, hurried in product(YES_NO, defers, undos, limits, hurries):
        yield run_of(state, child=child, defer=defer, undo=undo, limit=limit, hurried=hurried)


def facts(run: Run) -> Iterator[Here]:
    """Every combination that can be true of such a run: an agent that is out has nothing under way
    beside it, only a run at rest can be idle, and so on."""
    is_closing = run.state in CLOSING
    has_left = bool(run.defers) or is_anything_left_to_undo(run)
    for agent, leaving, is_off in product(
        ("out", "inside", "unwinding", "returned", "raised"), ("", "asked", "now"), YES_NO
    ):
        for steps, busy, waiting, at_gate, asides in product(
            ("none", "held", "moving") if run.state not in ENDED else ("none",),
            YES_NO,
            YES_NO if agent == "inside" else (False,),
            YES_NO if agent == "inside" else (False,),
            YES_NO if run.state is RunState.RUNNING else (False,),
        ):
            for quiet, idle, caught, was_ended, releasing, knows, undoing, was_cut in product(
                YES_NO if waiting else (False,),
                YES_NO if run.state in RESTING else (False,),
                ("", "untold", "told") if agent == "raised" else ("",),
                YES_NO if run.state in ENDED else (False,),
                YES_NO if run.defers and agent not in ("inside", "unwinding") else (False,),
                # An agent that has ended has said how, in this life.
                YES_NO if is_closing and has_left and agent not in _BY_ITSELF else (True,),
                YES_NO if is_closing and has_left else (False,),
                (True,) if is_off else YES_NO,  # the look before has cut it
            ):
                if releasing and not knows:
                    continue  # it asks how before it releases
                yield Here(
                    agent=agent,
                    has_asides=asides,
                    is_flying=steps != "none",
                    is_moving=steps == "moving",
                    is_busy=busy,
                    is_waiting=waiting,
                    is_at_gate=at_gate,
                    is_quiet=quiet,
                    is_idle=idle,
                    caught=caught,
                    is_switched_off=is_off,
                    was_cut=was_cut,
                    leaving=leaving,
                    was_ended=was_ended,
                    knows_how=knows,
                    is_undoing=undoing,
                    is_releasing=releasing,
                )


def broken_laws(run: Run, here: Here, todo: Moves) -> Iterator[str]:
    did, state = set(todo), run.state
    awaited = [n for n, move in enumerate(todo) if move in AWAITED]
    if awaited and awaited[0] + len(awaited) != len(todo):
        yield "what awaits comes last"
    if len(awaited) > 1 and todo[awaited[0] :] != (M.CANCEL_CHILDREN, M.BLOCK):
        yield "one thing is awaited at a time"
    if here.is_switched_off and did & STARTS:
        yield "nothing starts under the kill switch"
    if state in (RunState.CANCELLING, *ENDED) and did & {
        M.OPEN_GATE,
        M.GO_ON,
        M.TAKE_AGAIN,
        M.BLOCK,
    }:
        yield "nothing begins after a cancel, or an end"
    if here.leaving and did & {M.TAKE_AGAIN, M.ASK_HOW}:
        yield "a process that leaves takes up nothing"
    if did & LETS_GO and (here.is_flying or (here.is_busy and M.BE_OVER not in did)):
        yield "nothing is let go of while a step or a door of it does something"
    is_inside = here.agent in ("inside", "unwinding")
    if did & {M.FINISH, M.STOP, M.CANCEL, M.REQUEUE, M.GIVE_BACK} and is_inside:
        yield "nothing is let go of while its agent is inside"
    if did & {M.FINISH, M.STOP, M.CANCEL} and run.living_children():
        yield "a parent does not end before its children"
    if did & {M.FINISH, M.STOP, M.CANCEL} and run.defers:
        yield "what it holds is released before it ends"
    if M.CANCEL in did and is_anything_left_to_undo(run):
        yield "what it did is undone before it is called cancelled"
    may_leave_it = bool(here.leaving) or here.is_switched_off
    if M.GIVE_BACK in did and is_anything_left_to_undo(run) and not may_leave_it:
        yield "what is left to be undone is not left to others without need"
    if did & {M.PAUSE, M.REQUEUE, M.GIVE_BACK} and here.is_releasing:
        yield "a release that goes on is called by nobody else"
    if M.CANCEL in did and state is not RunState.CANCELLING:
        yield "only a cancel cancels"
    if did & {M.UNDO, M.RELEASE} and not here.knows_how:
        yield "nothing is undone or released without knowing how"
    if M.FINISH in did and (here.agent not in ("returned", "raised") or here.caught == "untold"):
        yield "only an agent that has ended finishes, and guards come first"
    if M.PAUSE in did and (here.is_moving or here.is_busy or here.is_releasing):
        yield "paused is said when everything stands still"
    if state is RunState.RUNNING and here.agent == "out" and not todo:
        yield "a run without its agent is not left standing"
    is_working = here.is_flying or here.is_undoing or here.is_releasing
    is_still = not (is_working or here.is_busy or is_inside)
    if here.leaving == "now" and here.is_busy and not is_working and not did & TURNS_AWAY:
        yield "a shutdown waits for no door"
    if here.leaving == "now" and is_still and not did & {*AWAITED, M.RELEASE, M.BE_OVER}:
        yield "a shutdown does not hang"
    if (M.BE_OVER in did) != (state in ENDED and not here.was_ended and not here.was_cut) and (
        not here.was_cut
    ):
        yield "a run that has ended is let go of, unless it was taken up for its undos"


def everything(state: RunState) -> Iterator[tuple[Run, Here, Moves]]:
    for run in runs(state):
        for here in facts(run):
            yield run, here, moves(run, here)


@pytest.mark.parametrize("state", list(RunState))
def test_every_law_holds_for_every_fact(state: RunState) -> None:
    count = 0
    for run, here, todo in everything(state):
        count += 1
        broken = list(broken_laws(run, here, todo))
        assert not broken, f"{broken}: {run.state.name} {here} → {[m.name for m in todo]}"
    assert count > 100, count


WHERE: dict[table.Ending, tuple[RunState, ...]] = {
    "hand over": (RunState.RUNNING,),
    "rest elsewhere": (RunState.PAUSED, RunState.WAITING, RunState.QUEUED),
    "wrap up elsewhere": (RunState.STOPPING,),
    "finish": (RunState.RUNNING, RunState.PAUSING, RunState.STOPPING),
    "stop": (RunState.STOPPING,),
    "cancel": (RunState.CANCELLING,),
    "undo later": (RunState.CANCELLED,),
}
RUNGS = [(ending, n) for ending, (rungs, _) in table.LADDERS.items() for n in range(len(rungs))]


@pytest.mark.parametrize(("ending", "nth"), RUNGS)
def test_without_any_one_rung_a_law_is_broken(
    ending: table.Ending, nth: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rungs, end = table.LADDERS[ending]
    monkeypatch.setitem(
        table.LADDERS,
        ending,
        ((*rungs[:nth], *rungs[nth + 1 :]), end),
    )
    found = (True for state in WHERE[ending] for one in everything(state) if any(broken_laws(*one)))
    assert next(found, False), f"nobody misses {rungs[nth].__name__} when it is to {ending}"


def test_a_driver_can_do_every_move() -> None:
    known = Driver.__init__.__code__.co_names
    assert {move.name for move in Move} <= set(known)


def test_a_run_that_is_resumed_before_the_switch_had_paused_it_is_handed_over() -> None:
    run = run_of(RunState.RUNNING, child=False, defer=False, undo=False, limit="", hurried=False)
    assert moves(run, Here(agent="out")) == (M.SHUT_GATE, M.REQUEUE)
    assert moves(run, Here(agent="unwinding")) == (M.SHUT_GATE, M.UNWIND)


def test_an_agent_is_entered_only_where_it_has_something_to_do() -> None:
    def is_entered(state: RunState, limit: str = "", *, was_cut: bool = False) -> bool:
        run = run_of(state, child=False, defer=True, undo=False, limit=limit, hurried=False)
        return enters(run, Here(was_cut=was_cut))

    assert is_entered(RunState.RUNNING)
    assert is_entered(RunState.STOPPING, "wrap_up")
    assert not is_entered(RunState.STOPPING, "stop")
    assert not is_entered(RunState.RUNNING, was_cut=True)
    assert not any(is_entered(state) for state in (RunState.PAUSED, RunState.CANCELLING, *ENDED))
