"""What the kill switch means for a run: held where it is, refused to go on, and nothing lost."""

import asyncio
import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

import pytest

from pullcord import Call, Context, RunState, Timing, tool
from pullcord.core.events import (
    Created,
    PauseRequested,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
    UndoStarted,
)
from pullcord.core.run import Run
from pullcord.errors import InvalidInput, KillSwitchEngaged
from pullcord.journal.facets.kill_switch import KillSwitch
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append
from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.journal.store import Transaction, View
from pullcord.journal.stored_runs.run_records import records_of
from pullcord.killswitch.engaging import pull
from pullcord.killswitch.flags import Flags, Scope, new_note
from pullcord.killswitch.presence import present
from pullcord.process import new_owner
from pullcord.runtime.driving import driver, live_run
from pullcord.runtime.runtime import worker_of
from pullcord.runtime.steps.memory import Memory, remember
from tests.agents.line import line
from tests.agents.provider.reply import say
from tests.runs.observed_runs import (
    BOUND_S,
    HASTY,
    OutsideWorld,
    happened,
    names,
    runtime_with,
    shown,
)
from tests.switch.pulling import ALL, engage, release

T = TypeVar("T")


async def test_a_run_is_paused_by_it_and_goes_on_only_after_release_and_resume(
    tmp_path: Path,
) -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        await ctx.step("look", world.slow, "looked", effect="none")
        return await ctx.step("do", world.do, "done")

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await world.begun.wait()
        assert (await engage(runtime)).left == []
        await run.wait_for(RunState.PAUSED)
        [paused] = await happened(runtime, "r1", PauseRequested)
        assert (paused.by, paused.source, paused.reason) == ("ana", "kill_switch", "it went wild")
        refused = await run.resume(by="bo", key="k1")
        assert (refused.verdict, refused.reason) == ("rejected", "kill_switch")
        assert "release it first" in refused.message
        world.go_on.set()
        await release(runtime)
        assert (await run.snapshot()).state is RunState.PAUSED
        assert (await run.resume(by="bo", key="k1")).verdict == "applied"  # it was not for ever
        assert await run.result() == "done"
    assert world.did == ["looked", "done"]


@pytest.mark.parametrize("effect", ["none", "idempotent", "once"])
async def test_what_it_cuts_is_begun_again_or_in_doubt(tmp_path: Path, effect: str) -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        return await ctx.step("do", world.slow, "done", effect=effect)  # pyright: ignore[reportArgumentType]

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await world.begun.wait()
        await engage(runtime)
        await run.wait_for(RunState.PAUSED)
        doubts = await happened(runtime, "r1", StepInDoubt)
        cuts = await happened(runtime, "r1", StepInterrupted)
        assert (len(doubts), len(cuts)) == ((1, 0) if effect == "once" else (0, 1))
        assert not doubts or "kill switch" in doubts[0].why


async def test_nothing_new_is_started_while_it_is_engaged(tmp_path: Path) -> None:
    world = OutsideWorld()

    async def agent(ctx: Context, what: str) -> str:
        return await ctx.step("do", world.do, what)

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        done = await runtime.start("agent", "before")
        await done.result()
        await engage(runtime)
        with pytest.raises(KillSwitchEngaged, match=r"by ana: it went wild.*kill-switch release"):
            await runtime.start("agent", "after")
        with pytest.raises(KillSwitchEngaged):
            await done.fork(by="ana")
        assert len(await runtime.list()) == 1
        await release(runtime)
        assert await (await runtime.start("agent", "later")).result() == "later"
    assert world.did == ["before", "later"]


async def test_nobody_takes_a_run_while_it_is_engaged(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "runs.db") as journal:
        born = Append(run_id="r1", events=[Created(agent="churn", thread="q3")], expected_seq=0)
        await journal.append(born)
        for scope in (ALL, Scope("agent", "churn"), Scope("thread", "q3")):
            journal.kill_switch.flags.raise_it(scope, new_note(by="ana", reason="", via="test"))
            assert await journal.acquire("r1", owner="somebody", ttl_s=60) is None
            journal.kill_switch.flags.lower(scope)
        assert await journal.acquire("r1", owner="somebody", ttl_s=60)


async def test_however_many_runs_there_are_all_are_held(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "runs.db") as journal:
        names = [f"r{number}" for number in range(450)]
        born = (Created(agent="churn", thread=name) for name in names)
        await journal.append(
            *(
                Append(run_id=n, events=[b], expected_seq=0)
                for n, b in zip(names, born, strict=True)
            )
        )
        journal.kill_switch.flags.raise_it(ALL, new_note(by="ana", reason="", via="test"))
        assert sorted(await journal.kill_switch.hold()) == sorted(names)
        heads = await journal.runs(states=RunState, limit=1000)
        assert {head.state for head in heads} == {RunState.PAUSED}


async def test_who_drives_a_run_here_and_was_not_asked_is_named(tmp_path: Path) -> None:
    """It has opened the store by another name, say, and looks at another switch."""
    async with Journal.open(tmp_path / "runs.db") as journal:
        born = Append(run_id="r1", events=[Created(agent="churn", thread="q3")], expected_seq=0)
        await journal.append(born)
        assert await journal.acquire("r1", owner=new_owner(), ttl_s=60)
        note = new_note(by="ana", reason="", via="test")
        pulled = await asyncio.to_thread(pull, journal.kill_switch.flags, journal.side, ALL, note)
        assert (pulled.asked, pulled.left) == (0, [])
        [left] = (await journal.kill_switch.answered(ALL, pulled)).left
        assert left.what == f"process {os.getpid()}"
        assert "another name" in left.why
        _, [kept] = await journal.kill_switch.held()
        assert kept.left == [left]


async def test_between_the_intent_of_a_step_and_its_call_it_is_looked_at_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, write = OutsideWorld(), SqliteStore.write

    async def agent(ctx: Context) -> str:
        return await ctx.step("do", world.do, "done")

    def has_its_intent(view: View) -> bool:
        records = records_of(view, "r1") if view.head("r1") else []
        return any(isinstance(record.event, StepStarted) for record in records)

    def pulled_behind_the_intent(store: SqliteStore, job: Callable[[Transaction], T]) -> T:
        result, flags = write(store, job), Flags(store.name)
        if store.read(has_its_intent) and not flags.is_any_raised():
            flags.raise_it(ALL, new_note(by="ana", reason="", via="test"))
        return result

    monkeypatch.setattr(SqliteStore, "write", pulled_behind_the_intent)
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await run.wait_for(RunState.PAUSED)
        assert [type(one) for one in await happened(runtime, "r1", StepInterrupted)]
    assert world.did == []


async def test_a_run_that_was_just_taken_is_not_entered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = OutsideWorld()

    async def agent(_ctx: Context) -> None:
        world.did.append("entered")

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:

        async def remembered(journal: Journal, run: Run) -> Memory:
            found = await remember(journal, run)
            runtime.journal.kill_switch.flags.raise_it(
                ALL, new_note(by="ana", reason="", via="test")
            )
            worker_of(runtime).switch.look()
            while not worker_of(runtime).switch.raised:  # noqa: ASYNC110 (its thread brings it about)
                await asyncio.sleep(0)
            return found

        monkeypatch.setattr(driver, "remember", remembered)
        run = await runtime.start("agent", run_id="r1")
        await run.wait_for(RunState.PAUSED)
    assert world.did == []


async def test_a_run_is_cut_also_while_its_driver_waits_for_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where there are many runs, the journal's answers to the others are before it."""
    world, look = OutsideWorld(), live_run.LiveRun.next_look

    async def looks_later(self: live_run.LiveRun) -> None:
        if worker_of(runtime).switch.raised:
            await world.go_on.wait()
        await look(self)

    async def agent(ctx: Context) -> None:
        await ctx.step("look", world.slow, "looked", effect="none")

    monkeypatch.setattr(live_run.LiveRun, "next_look", looks_later)
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await world.begun.wait()
        assert (await engage(runtime)).left == []
        world.go_on.set()
        await run.wait_for(RunState.PAUSED)
    assert world.did == []


async def test_what_a_runtime_has_cut_it_pauses_whoever_else_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its housekeeping, and whoever pulls it, come later; by then it may be released again."""
    world = OutsideWorld()

    async def nobody(_: KillSwitch) -> list[str]:
        return []

    async def agent(ctx: Context) -> None:
        await ctx.step("look", world.slow, "looked", effect="none")

    monkeypatch.setattr(KillSwitch, "hold", nobody)
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await world.begun.wait()
        await engage(runtime)
        await run.wait_for(RunState.PAUSED)


async def test_and_between_the_intent_of_an_undo_and_its_call(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, write = OutsideWorld(), SqliteStore.write

    async def take_back(call: Call) -> None:
        await world.do(f"took {call.result} back")

    @tool(undo=take_back)
    async def send() -> str:
        return await world.do("letter")

    async def agent(ctx: Context) -> None:
        await ctx.tool(send)
        await ctx.ask("And now?")

    def has_its_intent(view: View) -> bool:
        records = records_of(view, "r1") if view.head("r1") else []
        return any(isinstance(record.event, UndoStarted) for record in records)

    def pulled_behind_the_intent(store: SqliteStore, job: Callable[[Transaction], T]) -> T:
        result, flags = write(store, job), Flags(store.name)
        if store.read(has_its_intent) and not pulled.is_set():
            pulled.set()
            flags.raise_it(ALL, new_note(by="ana", reason="", via="test"))
        return result

    pulled = threading.Event()
    monkeypatch.setattr(SqliteStore, "write", pulled_behind_the_intent)
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await run.wait_for(RunState.WAITING)
        await run.cancel(by="ana")
        await asyncio.to_thread(pulled.wait)
        assert (await engage(runtime)).left == []
        assert world.did == ["letter"]
        await release(runtime)
        await run.wait_for(RunState.CANCELLED)
    assert world.did == ["letter", "took letter back"]


async def test_an_agent_that_asks_for_more_meanwhile_waits_at_the_door(tmp_path: Path) -> None:
    """Its own code cannot be stopped; every door of its context is shut."""
    world, go = OutsideWorld(), asyncio.Event()

    async def child(ctx: Context) -> str:
        return await ctx.step("do", world.do, "child")

    async def agent(ctx: Context) -> list[object]:
        world.begun.set()
        await go.wait()
        one = ctx.step("do", world.do, "step")
        spawned = await ctx.spawn("child", None)
        return [await one, await spawned.result()]

    async with runtime_with(tmp_path / "runs.db", agent=agent, child=child) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await world.begun.wait()
        await engage(runtime)
        await run.wait_for(RunState.PAUSED)
        go.set()
        for _ in range(50):
            await asyncio.sleep(0)
        assert world.did == []
        await release(runtime)
        await run.resume(by="ana")
        assert await run.result() == ["step", "child"]


class Deaf:
    """Code that ignores being cancelled, until the test is over."""

    def __init__(self) -> None:
        self.begun, self.may_end = asyncio.Event(), asyncio.Event()
        asyncio.get_running_loop().call_later(30, self.may_end.set)  # also if the test has failed

    async def goes_on(self) -> None:
        self.begun.set()
        while not self.may_end.is_set():
            with suppress(asyncio.CancelledError):
                await self.may_end.wait()


async def test_an_agent_that_ignores_being_cancelled_is_named(tmp_path: Path) -> None:
    deaf = Deaf()

    async def agent(_ctx: Context) -> None:
        await deaf.goes_on()

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        await runtime.start("agent", run_id="r1")
        await deaf.begun.wait()
        pulled = await engage(runtime)
        [left] = pulled.left
        assert left.what.startswith("the agent of run r1 in process ")
        assert "being cancelled" in left.why
        deaf.may_end.set()
        await (await runtime.get("r1")).wait_for(RunState.PAUSED)
        assert (await engage(runtime)).left == []


async def test_a_run_that_is_resumed_before_it_was_paused_begins_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The switch has unwound it: nobody would go on with what is left in memory."""
    world, lives = OutsideWorld(), list[str]()

    async def agent(ctx: Context) -> str:
        lives.append("entered")
        return await ctx.step("look", world.slow, "done", effect="none")

    async with asyncio.timeout(BOUND_S), runtime_with(tmp_path / "runs.db", agent=agent) as runtime:

        async def resumed_meanwhile(*_: object) -> None:
            if not world.go_on.is_set():
                await release(runtime)
                assert (await run.resume(by="ana")).state is RunState.RUNNING
                world.go_on.set()

        run = await runtime.start("agent", run_id="r1")
        await world.begun.wait()
        monkeypatch.setattr(driver, "name_what_goes_on", resumed_meanwhile)
        await engage(runtime)
        assert await run.result() == "done"
    assert lives == ["entered", "entered"]


async def test_a_step_that_heeds_only_the_second_cancellation_is_not_named(tmp_path: Path) -> None:
    """It comes at once, and not after the grace that a step has otherwise."""
    world = OutsideWorld()

    async def hesitant() -> None:
        world.begun.set()
        with suppress(asyncio.CancelledError):
            await world.go_on.wait()
        await world.go_on.wait()

    async def agent(ctx: Context) -> None:
        await ctx.step("hesitate", hesitant)

    timing = Timing(stop_grace_s=BOUND_S)
    async with runtime_with(tmp_path / "runs.db", timing=timing, agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await world.begun.wait()
        assert (await engage(runtime)).left == []
        await run.wait_for(RunState.PAUSED)


async def test_what_outlives_its_runtime_is_still_found_and_named(tmp_path: Path) -> None:
    deaf = Deaf()

    async def agent(ctx: Context) -> None:
        await ctx.step("deaf", deaf.goes_on)

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await deaf.begun.wait()
        await run.cancel(by="ana")
        await run.cancel(by="ana", now=True)
        await run.wait_for(RunState.CANCELLED)
    pulled = await engage(runtime)
    [left] = pulled.left
    assert left.what.startswith("step 'deaf' of run r1 in process ")
    deaf.may_end.set()
    async with asyncio.timeout(120):
        while present(runtime.journal.side):  # noqa: ASYNC110 (a thread tells nobody)
            await asyncio.sleep(0.01)
    assert (await engage(runtime)).asked == 0


async def test_an_undo_stops_too_and_goes_on_after_the_release(tmp_path: Path) -> None:
    world = OutsideWorld()

    async def take_back(call: Call) -> None:
        world.begun.set()
        await world.go_on.wait()
        await world.do(f"took {call.result} back")

    @tool(undo=take_back)
    async def send(what: str) -> str:
        return await world.do(what)

    async def agent(ctx: Context) -> None:
        await ctx.tool(send, "letter")
        await ctx.ask("go on?")

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await run.wait_for(RunState.WAITING)
        await run.cancel(by="ana")
        await world.begun.wait()
        await engage(runtime)
        assert (await run.snapshot()).state is RunState.CANCELLING
        assert world.did == ["letter"]
        world.go_on.set()
        begun = len(await happened(runtime, "r1", UndoStarted))
        await release(runtime)
        await run.wait_for(RunState.CANCELLED)
        assert len(await happened(runtime, "r1", UndoStarted)) == begun + 1
    assert world.did == ["letter", "took letter back"]


@pytest.mark.parametrize("how", ["deferred", "not awaited"])
async def test_an_agent_that_has_returned_goes_on_with_the_calls_that_were_cut(
    tmp_path: Path, how: str
) -> None:
    """They were cut, and then the run was called completed."""
    world = OutsideWorld()

    @tool(effect="idempotent", deferred=how == "deferred")
    async def pay() -> None:
        world.begun.set()
        await world.go_on.wait()
        world.did.append("paid")

    async def agent(ctx: Context) -> str:
        world.begun.clear()
        if how == "deferred":
            await ctx.tool(pay)
        else:
            asyncio.ensure_future(ctx.tool(pay))  # noqa: RUF006
            await world.begun.wait()
        return "done"

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await world.begun.wait()
        await engage(runtime)
        await run.wait_for(RunState.PAUSED)
        await release(runtime)
        world.go_on.set()
        await run.resume(by="ana")
        assert await run.result() == "done"
        assert world.did == ["paid"]


async def test_a_release_that_ignores_being_cut_is_not_called_again_beside_itself(
    tmp_path: Path,
) -> None:
    world, at_once = OutsideWorld(), list[int]()
    calls = 0

    async def lets_go() -> None:
        nonlocal calls
        calls += 1
        at_once.append(calls)
        world.begun.set()
        while not world.go_on.is_set():
            with suppress(asyncio.CancelledError):
                await world.go_on.wait()
        calls -= 1

    async def agent(ctx: Context) -> str:
        await ctx.defer(lets_go)
        return "done"

    try:
        async with runtime_with(tmp_path / "runs.db", timing=HASTY, agent=agent) as runtime:
            run = await runtime.start("agent", run_id="r1")
            await world.begun.wait()
            runtime.journal.kill_switch.flags.raise_it(
                ALL, new_note(by="ana", reason="", via="test")
            )
            assert await run.result() == "done"
            assert at_once == [1]
            [named] = (await run.receipt()).attention
            assert "lets_go" in named
    finally:
        world.go_on.set()


async def test_a_model_call_is_cut_at_its_socket(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with line("chat", say("And so on. " * 50, stall_after=9), path=path) as here:
        run = await here.start("write")
        await shown(run, "And so")
        await engage(here.runtime)
        await asyncio.to_thread(here.provider.wait_closed, 0)
        await run.wait_for(RunState.PAUSED)
        assert len(here.provider.seen) == 1


async def test_also_while_somebody_holds_the_loop(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with line("chat", say("And so on. " * 50, stall_after=9), path=path) as here:
        run = await here.start("write")
        await shown(run, "And so")
        note = new_note(by="ana", reason="", via="test")
        here.runtime.journal.kill_switch.flags.raise_it(ALL, note)
        here.provider.wait_closed(0)  # in this very loop
        await run.wait_for(RunState.PAUSED)


async def test_what_is_not_engaged_cannot_be_released(tmp_path: Path) -> None:
    async with runtime_with(tmp_path / "runs.db", agent=_nothing) as runtime:
        await engage(runtime, Scope("agent", "other"))
        with pytest.raises(InvalidInput, match="not engaged for everything"):
            await release(runtime)
        assert await (await runtime.start("agent")).result() is None
        await release(runtime, Scope("agent", "other"))
        assert runtime.journal.kill_switch.flags.raised() == []


async def test_a_store_in_memory_has_none(tmp_path: Path) -> None:
    async with runtime_with(agent=_nothing) as runtime:
        assert not runtime.journal.kill_switch.flags
        run = await runtime.start("agent")
        await run.result()
        assert "completed" in await names(runtime, run.id)


async def _nothing(ctx: Context) -> None:
    return None
