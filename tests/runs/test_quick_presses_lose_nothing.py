"""However quickly somebody presses one button after the other, the last press is what holds."""

import asyncio
from pathlib import Path
from typing import Any

from pullcord import Context, RunState
from pullcord.core.events import StepStarted
from tests.runs.observed_runs import OutsideWorld, runtime_with, seen

PRESSES = 60


async def test_pause_and_resume_in_quick_succession_end_as_the_last_one_says() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> Any:
        while not world.go_on.is_set():
            await ctx.checkpoint()
            await asyncio.sleep(0)
        return await ctx.step("after", world.do, "after")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.RUNNING)
        for _ in range(PRESSES):
            await run.pause()
            await run.resume()
        for _ in range(PRESSES):
            await run.pause()
            await run.wait_for(RunState.PAUSED)
            await run.resume()
            await run.pause()
            await run.resume()
        world.go_on.set()
        assert await run.result() == "after"
    assert world.did == ["after"]


async def test_a_cancel_right_after_other_presses_is_in_effect_at_once() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> Any:
        await ctx.step("work", world.slow, 1)
        await ctx.ask("go on?")

    async with runtime_with(agent=agent) as runtime:
        for _ in range(PRESSES):
            run = await runtime.start("agent")
            await seen(run, StepStarted)
            await run.pause()
            world.go_on.set()
            await run.wait_for(RunState.PAUSED)
            await run.resume()
            await run.pause()
            await run.cancel()
            await run.wait_for(RunState.CANCELLED)


async def test_branches_at_checkpoints_survive_every_press() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        async def branch(n: int) -> None:
            while not world.go_on.is_set():
                await asyncio.sleep(n / 5000)
                await ctx.checkpoint()

        await asyncio.gather(*(branch(n) for n in range(20)))
        return "survived"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.RUNNING)
        for _ in range(PRESSES):
            await run.pause()
            await run.wait_for(RunState.PAUSED)
            await run.resume()
            await run.wait_for(RunState.RUNNING)
        world.go_on.set()
        assert await run.result() == "survived"


async def test_a_run_that_is_taken_up_while_its_runtime_closes_is_given_back(
    tmp_path: Path,
) -> None:
    async def agent(ctx: Context) -> float:
        return await ctx.now()

    for n in range(20):
        async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
            await runtime.start("agent", run_id=f"r{n}")
            for _ in range(n % 5):  # a little later each time
                await runtime.journal.head(f"r{n}")
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        for n in range(20):
            await (await runtime.get(f"r{n}")).result()
