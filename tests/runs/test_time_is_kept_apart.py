"""Working, waiting, paused and queued time are kept apart; only work counts against limits."""

import asyncio
from pathlib import Path
from typing import Any

from pullcord import Context, RunHandle, RunState, StepError
from pullcord.core.events import StepStarted
from pullcord.core.run import Times
from pullcord.testing import ManualClock
from tests.runs.observed_runs import UNHURRIED, OutsideWorld, question, runtime_with, seen, settles

NIGHT_S = 8 * 3600


def worker(world: OutsideWorld) -> Any:
    async def agent(ctx: Context) -> Any:
        world.entered += 1
        await ctx.step("work", world.slow, 1)
        return await ctx.ask("go on?")

    return agent


async def waits(ctx: Context) -> Any:
    return await ctx.ask("go on?")


async def times(run: RunHandle) -> Times:
    return (await run.snapshot()).times


async def test_every_second_is_in_one_place() -> None:
    world, clock = OutsideWorld(), ManualClock()
    async with runtime_with(
        clock=clock, timing=UNHURRIED, agent=worker(world), waits=waits
    ) as runtime:
        first = await runtime.start("waits", thread="t1")
        run = await runtime.start("agent", thread="t1", if_busy="queue")
        clock.advance(5)  # behind the first
        await first.answer(await question(first))
        await seen(run, StepStarted)
        clock.advance(7)  # at work
        world.go_on.set()
        name = await question(run)
        await settles(run, clock, RunState.WAITING)
        clock.advance(11)  # for an answer
        await run.pause()
        clock.advance(13)
        await run.answer(name)
        await run.resume()
        await run.result()
        spent = await times(run)
    assert spent == Times(queued_ms=5000, working_ms=7000, waiting_ms=11_000, paused_ms=13_000)
    assert spent.wall_ms == 36_000


async def test_a_step_that_finishes_while_pausing_is_still_at_work() -> None:
    world, clock = OutsideWorld(), ManualClock()
    async with runtime_with(clock=clock, timing=UNHURRIED, agent=worker(world)) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        await run.pause()
        clock.advance(7)
        world.go_on.set()
        await run.wait_for(RunState.PAUSED)
        clock.advance(13)
        await run.cancel()
        await run.wait_for(RunState.CANCELLED)
        assert await times(run) == Times(working_ms=7000, paused_ms=13_000)


async def test_the_time_without_a_process_is_queued_time(tmp_path: Path) -> None:
    world, clock = OutsideWorld(), ManualClock()
    agent = worker(world)
    async with runtime_with(
        tmp_path / "r.db", clock=clock, timing=UNHURRIED, agent=agent
    ) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        world.go_on.set()
        await question(run)
    clock.advance(100)
    async with runtime_with(
        tmp_path / "r.db", clock=clock, timing=UNHURRIED, agent=agent
    ) as runtime:
        run = await runtime.get(run.id)
        await run.answer(await question(run))
        await run.result()
        assert await times(run) == Times(queued_ms=100_000)


async def test_the_clock_of_a_run_that_has_ended_stands_still() -> None:
    clock = ManualClock()
    async with runtime_with(clock=clock, timing=UNHURRIED, agent=waits) as runtime:
        run = await runtime.start("agent")
        name = await question(run)
        clock.advance(3)
        assert (await run.snapshot()).times_at(clock.wall_ms()).wall_ms == 3000
        await run.answer(name)
        await run.result()
        clock.advance(NIGHT_S)
        assert (await run.snapshot()).times_at(clock.wall_ms()).wall_ms == 3000


async def test_a_clock_set_back_makes_no_time_negative() -> None:
    clock = ManualClock()
    async with runtime_with(clock=clock, timing=UNHURRIED, agent=waits) as runtime:
        run = await runtime.start("agent")
        name = await question(run)
        await settles(run, clock, RunState.WAITING)
        clock.jump_wall(-3600)
        await run.answer(name)
        await run.result()
        assert await times(run) == Times()


# --- a night's pause ---


def careful(world: OutsideWorld, ctx: Context) -> Any:
    """A step that stops at a checkpoint of its own until the world goes on."""

    async def work() -> str:
        while not world.go_on.is_set():
            await asyncio.sleep(0)
            await ctx.checkpoint()
        return await world.do("worked")

    return work


async def test_a_nights_pause_does_not_time_out_a_step_at_its_checkpoint() -> None:
    world, clock = OutsideWorld(), ManualClock()

    async def agent(ctx: Context) -> Any:
        world.entered += 1
        return await ctx.step("work", careful(world, ctx), timeout_s=0.5)

    async with runtime_with(clock=clock, timing=UNHURRIED, agent=agent) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        await run.pause()
        await run.wait_for(RunState.PAUSED)
        clock.advance(NIGHT_S)
        await asyncio.sleep(0.6)  # the night, for whoever counts on the loop's own clock
        world.go_on.set()
        assert (await run.snapshot()).state is RunState.PAUSED
        assert world.did == []
        await run.resume()
        assert await run.result() == "worked"
    assert (world.did, world.entered) == (["worked"], 1)


async def test_after_the_pause_the_rest_of_its_time_goes_on() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        async def hangs() -> None:
            await ctx.checkpoint()
            while not world.did:
                await asyncio.sleep(0)
                await ctx.checkpoint()
            await asyncio.Event().wait()

        try:
            await ctx.step("work", hangs, timeout_s=0.2)
        except StepError as error:
            return error.error
        return "?"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        await run.pause()
        await run.wait_for(RunState.PAUSED)
        await world.do("resumed")
        await run.resume()
        assert "longer than 0.2 s" in await run.result()


async def test_a_nights_pause_costs_a_run_at_a_question_nothing() -> None:
    world, clock = OutsideWorld(), ManualClock()
    world.go_on.set()
    async with runtime_with(clock=clock, timing=UNHURRIED, agent=worker(world)) as runtime:
        run = await runtime.start("agent")
        name = await question(run)
        await settles(run, clock, RunState.WAITING)
        await run.pause()
        clock.advance(NIGHT_S)  # longer than any lease, and than it is kept in memory
        await run.resume()
        await run.answer(name, "good morning")
        assert await run.result() == "good morning"
        assert (await times(run)).paused_ms == NIGHT_S * 1000
    assert world.did == [1]
