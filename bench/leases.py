"""What a lease means in the world: how soon the tools of an owner that stands still do, too. And
how long a cancel of a deep family takes."""

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Any

from tests.promises.children import child
from tests.promises.deep_families import deep_family
from tests.promises.lease_owners import LIVES, driving, stopped, ticks_of
from tests.runs.observed_runs import seen

import pullcord
from bench.figures import Figure
from pullcord import Context, RunState
from pullcord.core.commands import Cancel
from pullcord.core.events import ChildBorn
from pullcord.journal.journal import Journal
from pullcord.journal.memory_store import MemoryStore
from pullcord.limits import MaxSteps

LEASE_S = 3.0
FREEZES = 5
QUIET_S = 2.5  # without a tick: what stands still is looked for no longer
DEEP = 2_000
DRIVEN = 200


async def measure(folder: Path) -> list[Figure]:
    late = [await _last_tick_s(folder / f"frozen-{n}") for n in range(FREEZES)]
    over = f"{FREEZES} owners stopped, lease of {LEASE_S:g} s; less than 0: before it has lapsed"
    what = "an owner stands still: from the end of its lease to its tool's last tick, worst"
    return [Figure(what, max(late), 2, "s", over), await _nobody_drives(), await _driven()]


async def _last_tick_s(folder: Path) -> float:
    """How long after the end of the lease, as the store has it, the tool still acts."""
    folder.mkdir()
    path, tool = folder / "runs.db", folder / "ticks"
    words = "ticking", str(path), str(LEASE_S), str(tool)
    async with child(LIVES, *words, is_own=True) as owner:
        pid, _ = await driving(owner, tool)
        await owner.tell("stand still")
        await stopped(pid)
        async with pullcord.open(path) as runtime:
            holder = (await runtime.journal.head("r1")).holder
        while _now_s() - ticks_of(tool)[-1][0] < QUIET_S:  # noqa: ASYNC110 (another process acts)
            await asyncio.sleep(0.05)
        last_s = ticks_of(tool)[-1][0]
        os.kill(pid, signal.SIGCONT)
        assert await owner.says() == "goes on"
        await owner.tell("end")
    return last_s - (holder.from_s + LEASE_S)


def _now_s() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


async def _nobody_drives() -> Figure:
    store = MemoryStore()
    async with Journal(store) as journal:
        runs = deep_family(store, DEEP)
        began = time.perf_counter()
        await journal.command(runs[0], Cancel(by="bench"))
        took = time.perf_counter() - began
        assert (await journal.load(runs[-1])).state is RunState.CANCELLED
    return Figure(f"a cancel of {DEEP:,} runs in one line", took, 3, "s", "1 cancel, nobody drives")


async def _driven() -> Figure:
    async def agent(ctx: Context, left: int) -> Any:
        if left:
            return await (await ctx.spawn("agent", left - 1)).result()
        return await ctx.ask("Go on?")

    async with pullcord.open(":memory:", agents={"agent": agent}) as runtime:
        run = await runtime.start("agent", DRIVEN, limits=MaxSteps(5 * DRIVEN))
        last = run
        for _ in range(DRIVEN):
            last = await runtime.get((await seen(last, ChildBorn)).child)
        await last.wait_for(RunState.WAITING)
        began = time.perf_counter()
        await run.cancel(by="bench")
        await run.wait_for(RunState.CANCELLED)
        took = time.perf_counter() - began
    return Figure(f"… of {DRIVEN} that are driven", took, 3, "s", "1 cancel, until it holds")
