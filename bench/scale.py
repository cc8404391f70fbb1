"""Many runs: alive in one process, and parked while a new one starts."""

import asyncio
import gc
import os
import subprocess
import sys
import time
from pathlib import Path

import pullcord
from bench.figures import Figure, p50
from pullcord import Context, RunState
from pullcord.core.commands import Pause
from pullcord.core.events import Created
from pullcord.core.states import TERMINAL
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Order

LIVE = 1000
PARKED = 100_000
STARTS = 5


async def measure(folder: Path) -> list[Figure]:
    return [*_live(folder), *await _cold_start(folder)]


def _live(folder: Path) -> list[Figure]:
    began_s, each, ended_s, completed = _in_a_fresh_process("alive", folder / "live.db", LIVE)
    over = f"{LIVE:,} runs in one process, begun in {began_s:.1f} s, ended in {ended_s:.1f} s"
    return [
        Figure("resident memory per live run", each / 1024, 60, "KiB", over),
        Figure("live runs that completed", completed, LIVE, "runs", over, True),
    ]


async def _cold_start(folder: Path) -> list[Figure]:
    path = folder / "parked.db"
    await park(path, PARKED)
    samples = [_in_a_fresh_process("start", path, number)[0] for number in range(STARTS)]
    few = folder / "few.db"
    await park(few, 1)
    alone = [_in_a_fresh_process("start", few, number)[0] for number in range(STARTS)]
    over = f"p50 of {STARTS}; {PARKED:,} paused runs; beside one {p50(alone) * 1000:.0f} ms"
    return [Figure("open until a new run has completed", p50(samples), 1, "s", over)]


async def park(path: Path, count: int) -> None:
    async with Journal.open(path) as journal:
        for first in range(0, count, 1000):
            names = [f"run-{number}" for number in range(first, min(first + 1000, count))]
            born = {name: Created(agent="greet", thread=name) for name in names}
            await journal.append(
                *(Append(run_id=name, events=[born[name]], expected_seq=0) for name in names),
                *(Order(name, Pause(by="ana")) for name in names),
            )


def _in_a_fresh_process(what: str, path: Path, number: int) -> list[float]:
    command = [sys.executable, "-m", "bench.scale", what, str(path), str(number)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return [float(word) for word in said.split()]


# --- the fresh process --------------------------------------------------------------------------


async def alive(path: str, count: int) -> None:
    """Have so many runs alive at once. Print how long until each stood in its step, the memory
    each took, how long until they had ended, and how many of them completed."""
    begun, go = asyncio.Semaphore(0), asyncio.Event()

    async def stand() -> str:
        begun.release()
        await go.wait()
        return "stood"

    async def agent(ctx: Context) -> str:
        return await ctx.step("stand", stand)

    async with pullcord.open(path, agents={"agent": agent}) as runtime:
        warm = await runtime.start("agent", run_id="warm")
        await begun.acquire()
        before, start = _resident(), time.perf_counter()
        runs = [await runtime.start("agent", run_id=f"r{number}") for number in range(count)]
        for _ in runs:
            await begun.acquire()
        began_s, each = time.perf_counter() - start, (_resident() - before) / count
        start = time.perf_counter()
        go.set()
        for run in (warm, *runs):
            await run.wait_for(*TERMINAL)
        ended_s = time.perf_counter() - start
        done = await runtime.list(states=[RunState.COMPLETED], limit=count + 1)
    print(began_s, each, ended_s, len(done) - 1)


async def start(path: str, number: int) -> None:
    """Print how long it takes from opening the store to the end of a new run."""

    async def greet(ctx: Context) -> str:
        return await ctx.step("greet", hello)

    async def hello() -> str:
        return "hello"

    began = time.perf_counter()
    async with pullcord.open(path, agents={"greet": greet}) as runtime:
        run = await runtime.start("greet", run_id=f"new-{number}")
        await run.result()
        print(time.perf_counter() - began)


def _resident() -> int:
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](sys.argv[2], int(sys.argv[3])))
