"""What it costs a step that somebody looks at what it starts, and how soon that is stopped with it.

CPU time of the whole process, with and without in turns, so that a busy machine is fair to both.
"""

import asyncio
import gc
import sys
import time
from pathlib import Path

import pullcord
from bench.figures import Figure, p50
from pullcord import Context, Timing

STEPS = 200
TURNS = 60
CANCELS = 20


async def measure(folder: Path) -> list[Figure]:
    return [await _cost(), await _stopping(folder)]


async def _cost() -> Figure:
    async def work(number: int) -> int:
        return number

    async def agent(ctx: Context) -> None:
        for number in range(STEPS):
            await ctx.step("work", work, number)

    async def cpu_s(timing: Timing) -> float:
        async with pullcord.open(":memory:", agents={"agent": agent}, timing=timing) as runtime:
            began = time.process_time()
            await (await runtime.start("agent")).result()
            return time.process_time() - began

    seen, unseen = Timing(), Timing(watch_starts=False)
    await cpu_s(seen)
    ratios: list[float] = []
    for number in range(TURNS):
        took: dict[bool, float] = {}
        for timing in (seen, unseen) if number % 2 else (unseen, seen):
            gc.collect()  # what the one has left is not the other's cost
            took[timing.watch_starts] = await cpu_s(timing)
        ratios.append(took[True] / took[False])
    more = (p50(ratios) - 1) * 100  # of neighbours: the machine is as busy for both
    over = f"the median of {TURNS} pairs of runs of {STEPS} steps each, in turns"
    return Figure("CPU that a step costs more when its starts are seen", more, 3, "%", over)


async def _stopping(folder: Path) -> Figure:
    begun = asyncio.Event()

    async def work() -> None:
        program = [sys.executable, "-S", "-c", "import time; time.sleep(3600)"]
        child = await asyncio.create_subprocess_exec(*program)
        begun.set()
        await child.wait()

    async def agent(ctx: Context) -> None:
        await ctx.step("work", work)

    took: list[float] = []
    async with pullcord.open(folder / "stopped.db", agents={"agent": agent}) as runtime:
        for _ in range(CANCELS):
            begun.clear()
            run = await runtime.start("agent")
            await begun.wait()
            asked = time.perf_counter()
            await run.cancel(by="bench")
            receipt = await run.receipt()
            took.append((time.perf_counter() - asked) * 1000)
            assert receipt.interrupted == ("work",)
    over = f"{CANCELS} cancelled steps with a subprocess"
    what = "a cancel until a step and its subprocess are gone, p50"
    return Figure(what, p50(took), 500, "ms", over)
