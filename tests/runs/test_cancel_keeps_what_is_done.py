"""Cancel: nothing starts any more; what was done is kept and named; what is held is released."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest

from pullcord import Context, Interrupted, Record, RunHandle, RunState, Runtime, Timing
from pullcord.core.events import (
    AttentionRaised,
    Deferred,
    LateResult,
    StepFinished,
    StepStarted,
)
from pullcord.core.values import load
from tests.runs.observed_runs import (
    HASTY,
    PARKING,
    OutsideWorld,
    happened,
    names,
    question,
    runtime_with,
    seen,
    two_lives,
    unowned,
)

PATIENT = Timing(stop_grace_s=3600)


def worker(world: OutsideWorld) -> Any:
    async def agent(ctx: Context) -> Any:
        world.entered += 1
        await ctx.step("a", world.do, "a")
        await ctx.step("b", world.slow, "b")
        return await ctx.step("c", world.do, "c")

    return agent


async def never() -> None:
    await asyncio.Event().wait()


# --- when it comes ---


async def test_before_any_process_has_entered_it_nothing_ever_runs() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=worker(world)) as runtime:
        first = await runtime.start("agent", thread="t1")
        run = await runtime.start("agent", thread="t1", if_busy="queue")
        ack = await run.cancel()
        assert (ack.verdict, ack.state) == ("applied", RunState.CANCELLED)
        world.go_on.set()
        await first.result()
        assert await names(runtime, run.id) == ["created", "cancel_requested", "cancelled"]
    assert world.entered == 1


async def test_before_the_first_step_no_step_runs() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> None:
        world.entered += 1
        world.noticed.set()
        await never()
        await ctx.step("a", world.do, "a")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await world.noticed.wait()
        await run.cancel()
        await run.wait_for(RunState.CANCELLED)
        assert await happened(runtime, run.id, StepStarted) == []
    assert (world.did, world.entered) == ([], 1)


async def test_during_a_step_it_is_stopped_and_what_was_done_before_is_kept() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=worker(world)) as runtime:
        run = await runtime.start("agent")
        await world.begun.wait()
        await run.cancel(by="ana", reason="wrong path")
        receipt = await run.receipt()
        world.go_on.set()
    assert (receipt.done, receipt.interrupted) == (("a",), ("b",))
    assert (receipt.by, receipt.reason, receipt.rung) == ("ana", "wrong path", "task_cancel")
    assert world.did == ["a"]


async def test_between_steps_the_agent_is_told_where_it_stands_and_may_clean_up() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> None:
        await ctx.step("a", world.do, "a")
        try:
            world.noticed.set()
            await never()
        finally:
            world.did.append("cleaned up")
        await ctx.step("b", world.do, "b")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await world.noticed.wait()
        await run.cancel()
        assert (await run.receipt()).done == ("a",)
    assert world.did == ["a", "cleaned up"]


async def test_before_a_door_the_agent_is_told_by_the_door() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> None:
        await ctx.step("a", world.slow, "a")
        try:
            await ctx.ask("go on?")
        except Interrupted:
            world.did.append("interrupted")
            raise

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        world.go_on.set()
        await question(run)
        await run.cancel()
        assert (await run.receipt()).rung == "cooperative"
    assert world.did == ["a", "interrupted"]


async def test_an_agent_that_swallows_it_finds_every_door_closed() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        for n in range(3):
            try:
                await ctx.step("try", world.slow, n)
            except BaseException:
                world.entered += 1
        return "I go on"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        await run.cancel()
        await run.wait_for(RunState.CANCELLED)
        assert len(await happened(runtime, run.id, StepStarted)) == 1
    assert (world.did, world.entered) == ([], 3)


async def test_a_waiting_run_that_no_process_has_is_cancelled_at_once(tmp_path: Path) -> None:
    async def agent(ctx: Context) -> None:
        await ctx.ask("go on?")

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.WAITING)
    async with runtime_with(tmp_path / "runs.db") as elsewhere:
        ack = await (await elsewhere.get(run.id)).cancel()
        assert (ack.verdict, ack.state) == ("applied", RunState.CANCELLED)


async def test_a_cancel_from_another_runtime_stops_the_step(tmp_path: Path) -> None:
    world = OutsideWorld()
    async with runtime_with(tmp_path / "runs.db", agent=worker(world)) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted, name="b")
        async with runtime_with(tmp_path / "runs.db") as elsewhere:
            other = await elsewhere.get(run.id)
            await other.cancel(by="bo")
            assert (await other.receipt()).by == "bo"
    assert world.did == ["a"]


async def test_of_an_ended_run_it_names_the_record_that_ended_it() -> None:
    world = OutsideWorld()
    world.go_on.set()
    async with runtime_with(agent=worker(world)) as runtime:
        run = await runtime.start("agent")
        await run.result()
        ack = await run.cancel()
        assert (ack.verdict, ack.reason, ack.state) == ("too_late", "ended", RunState.COMPLETED)
        assert ack.seq == (await run.snapshot()).seq


async def test_of_a_cancelled_run_it_holds_already() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=worker(world)) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted, name="b")
        await run.cancel()
        end = await run.wait_for(RunState.CANCELLED)
        ack = await run.cancel()
        assert (ack.verdict, ack.seq) == ("already", end.state_seq)


# --- what does not want to be stopped ---


def stubborn(world: OutsideWorld) -> Any:
    """An agent whose one step ignores every cancel until the world goes on."""

    async def ignores() -> str:
        world.begun.set()
        while not world.go_on.is_set():
            try:
                await world.go_on.wait()
            except asyncio.CancelledError:
                world.noticed.set()
        return await world.do("happened after all")

    async def agent(ctx: Context) -> Any:
        return await ctx.step("pay", ignores)

    return agent


async def late_result(runtime: Runtime, run: RunHandle) -> Any:
    """Wait for evidence that comes after the run has ended."""
    async with aclosing(runtime.journal.changes.subscribe(run.id)) as stream:
        async for _, item in stream:
            if isinstance(item, Record) and isinstance(item.event, LateResult):
                return load(item.event.result)
    return None


async def test_a_step_that_ignores_it_is_left_behind_named_and_its_result_kept_as_evidence() -> (
    None
):
    world = OutsideWorld()
    async with runtime_with(agent=stubborn(world), timing=HASTY) as runtime:
        run = await runtime.start("agent")
        await world.begun.wait()
        await run.cancel()
        receipt = await run.receipt()
        assert (receipt.state, receipt.rung) == (RunState.CANCELLED, "abandoned")
        assert receipt.still_running == ("pay",)
        assert ["'pay'" in item for item in receipt.attention] == [True]
        world.go_on.set()
        assert await late_result(runtime, run) == "happened after all"
        assert (await run.receipt()).done == ("pay",)
        assert (await run.snapshot()).state is RunState.CANCELLED
        [item] = (await run.snapshot()).attention
        assert (await run.settle(item, by="ana")).verdict == "applied"
        assert (await run.receipt()).attention == ()


async def test_a_step_that_finishes_all_the_same_is_evidence_and_not_a_result() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> None:
        await stubborn(world)(ctx)
        await ctx.step("after", world.do, "after")

    async with runtime_with(agent=agent, timing=PATIENT) as runtime:
        run = await runtime.start("agent")
        await world.begun.wait()
        await run.cancel()
        await world.noticed.wait()
        world.go_on.set()
        assert (await run.receipt()).done == ("pay",)
        order = await names(runtime, run.id)
        assert await happened(runtime, run.id, StepFinished) == []
    assert order[-3:] == ["step_interrupted", "late_result", "cancelled"]
    assert world.did == ["happened after all"]


async def test_a_second_press_does_not_wait_for_the_grace() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=stubborn(world), timing=PATIENT) as runtime:
        run = await runtime.start("agent")
        await world.begun.wait()
        await run.cancel()
        await world.noticed.wait()
        assert (await run.snapshot()).state is RunState.CANCELLING
        assert (await run.cancel(now=True)).verdict == "applied"
        assert (await run.receipt()).rung == "abandoned"
        world.go_on.set()


async def test_an_agent_that_ignores_it_is_left_behind() -> None:
    world = OutsideWorld()

    async def agent(_: Context) -> None:
        world.noticed.set()
        while not world.go_on.is_set():
            try:
                await world.go_on.wait()
            except asyncio.CancelledError:
                pass

    async with runtime_with(agent=agent, timing=HASTY) as runtime:
        run = await runtime.start("agent")
        await world.noticed.wait()
        await run.cancel()
        assert (await run.receipt()).rung == "abandoned"
        world.go_on.set()


# --- what must be released however the run ends ---


def holder(world: OutsideWorld, ending: str) -> Any:
    async def agent(ctx: Context) -> None:
        world.entered += 1
        await ctx.defer(world.do, "lock")
        await ctx.defer(world.do, "session")
        if ending == "failed":
            raise ValueError("oh")
        if ending != "completed":
            await ctx.ask("go on?")

    return agent


@pytest.mark.parametrize("ending", ["completed", "failed", "cancelled", "cancelled while parked"])
async def test_what_was_deferred_is_released_once_last_one_first(ending: str) -> None:
    world = OutsideWorld()
    timing = PARKING if ending == "cancelled while parked" else None
    async with runtime_with(agent=holder(world, ending), timing=timing) as runtime:
        run = await runtime.start("agent")
        if ending.startswith("cancelled"):
            await run.wait_for(RunState.WAITING)
            if timing:
                await unowned(runtime, run)
            await run.cancel()
        end = await run.wait_for(RunState.COMPLETED, RunState.FAILED, RunState.CANCELLED)
        assert end.state == ending.split()[0]
        assert end.defers == {}
    assert world.did == ["session", "lock"]


async def test_what_was_deferred_is_released_by_the_next_process(tmp_path: Path) -> None:
    world = OutsideWorld()
    async with runtime_with(tmp_path / "runs.db", agent=holder(world, "cancelled")) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.WAITING)
    assert world.did == []
    async with runtime_with(tmp_path / "runs.db") as elsewhere:
        ack = await (await elsewhere.get(run.id)).cancel()
        assert ack.state is RunState.CANCELLING  # who knows how to release is not here
    async with runtime_with(tmp_path / "runs.db", agent=holder(world, "cancelled")) as runtime:
        await (await runtime.get(run.id)).wait_for(RunState.CANCELLED)
    assert world.did == ["session", "lock"]


async def test_a_release_that_fails_is_named_and_keeps_no_other_from_being_released() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        await ctx.defer(world.do, "lock")
        await ctx.defer(world.fails, "gone")
        return "done"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == "done"
        [item] = (await run.snapshot()).attention.values()
    assert item == "'fails' could not be released: ValueError: gone"
    assert world.did == ["gone", "lock"]


@pytest.mark.parametrize("door", ["checkpoint", "child"])
async def test_a_parked_run_finds_its_way_back_to_what_it_holds(door: str) -> None:
    world = OutsideWorld()

    async def kid(_: Context) -> None: ...

    async def agent(ctx: Context) -> None:
        if door == "child":
            await (await ctx.spawn("kid")).result()
        else:
            await ctx.checkpoint()
        await ctx.defer(world.do, "lock")
        await ctx.ask("go on?")

    async with runtime_with(agent=agent, kid=kid, timing=PARKING) as runtime:
        run = await runtime.start("agent")
        await question(run)
        await run.wait_for(RunState.WAITING)
        await unowned(runtime, run)
        await run.cancel()
        await run.wait_for(RunState.CANCELLED)
        assert await happened(runtime, run.id, AttentionRaised) == []
    assert world.did == ["lock"]


async def test_a_release_that_uses_a_door_does_not_keep_the_run_from_ending() -> None:
    async def agent(ctx: Context) -> None:
        async def farewell() -> None:
            await ctx.say("bye")

        await ctx.defer(farewell)
        await ctx.ask("go on?")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.WAITING)
        await run.cancel()
        assert (await run.receipt()).attention != ()


async def test_a_release_that_hangs_has_a_deadline_too() -> None:
    async def agent(ctx: Context) -> None:
        await ctx.defer(never)
        await ctx.ask("go on?")

    async with runtime_with(agent=agent, timing=HASTY) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.WAITING)
        await run.cancel()
        await run.cancel(now=True)
        assert (await run.receipt()).attention != ()


async def test_a_release_that_hangs_does_not_keep_a_runtime_from_closing(tmp_path: Path) -> None:
    async def agent(ctx: Context) -> None:
        await ctx.defer(never)

    async with runtime_with(tmp_path / "runs.db", agent=agent, timing=HASTY) as runtime:
        run = await runtime.start("agent")
        await seen(run, Deferred)


async def test_a_step_its_agent_left_behind_does_not_keep_a_runtime_from_closing(
    tmp_path: Path,
) -> None:
    tasks: list[asyncio.Future[Any]] = []

    async def agent(ctx: Context) -> None:
        tasks.append(asyncio.ensure_future(ctx.step("background", never)))
        await ctx.checkpoint()

    async with runtime_with(tmp_path / "runs.db", agent=agent, timing=HASTY) as runtime:
        await seen(await runtime.start("agent", run_id="r1"), StepStarted)
    async with runtime_with(tmp_path / "runs.db") as elsewhere:
        assert (await (await elsewhere.get("r1")).snapshot()).attention != {}
    with pytest.raises(Interrupted):
        await tasks[0]


# --- what would be another the next time ---


async def test_now_random_and_uuid_are_the_same_in_every_life(tmp_path: Path) -> None:
    lives: list[list[object]] = []

    async def agent(ctx: Context) -> None:
        found: list[object] = [await ctx.now(), await ctx.random(), await ctx.random()]
        lives.append([*found, await ctx.uuid(), await ctx.uuid()])
        await ctx.ask("go on?")

    await two_lives(tmp_path / "runs.db", agent, agent)
    assert len(lives) == 2
    assert lives[0] == lives[1]
    assert len(set(lives[0])) == 5
