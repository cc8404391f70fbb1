"""Code that holds the event loop: how soon it is named, how soon a control is answered meanwhile,
and what it costs to have somebody watch a loop that only waits."""

import asyncio
import logging
import threading
import time
from pathlib import Path

import pullcord
from bench.figures import Figure, p50
from pullcord import Context, Timing
from pullcord.core.commands import Pause
from pullcord.journal.journal import Journal

HOLDS = 10
HOLD_S = 1.5
IDLE_S = 5.0
ROUNDS = 3


async def measure(folder: Path) -> list[Figure]:
    return [*await _naming(folder), *await _watching()]


# --- how soon -----------------------------------------------------------------------------------


class _Named(logging.Handler):
    def __init__(self) -> None:
        super().__init__()
        self.at: list[float] = []
        self.first = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        if "holds the event loop" in record.getMessage():
            self.at.append(time.perf_counter())
            self.first.set()


async def _naming(folder: Path) -> list[Figure]:
    """Each hold in a run of its own, paused from another thread as soon as it is named."""
    began: list[float] = []

    async def holds() -> None:
        began.append(time.perf_counter())
        time.sleep(HOLD_S)  # noqa: ASYNC251 (that is what is measured)

    async def agent(ctx: Context) -> None:
        await ctx.tool(holds)

    path = folder / "held.db"
    named, log = _Named(), logging.getLogger("pullcord.runtime")
    log.addHandler(named)
    log.propagate = False
    acks: list[float] = []
    try:
        async with pullcord.open(path, agents={"agent": agent}) as runtime:
            for number in range(HOLDS):
                named.first.clear()
                pausing = threading.Thread(target=_pause, args=(path, f"r{number}", named, acks))
                pausing.start()
                run = await runtime.start("agent", run_id=f"r{number}")
                await run.wait_for(pullcord.RunState.PAUSED, pullcord.RunState.COMPLETED)
                await asyncio.to_thread(pausing.join)
    finally:
        log.propagate = True
        log.removeHandler(named)
    soon = [at - begun for begun, at in zip(began, named.at, strict=True)]
    over = f"{HOLDS} tools that hold the loop for {HOLD_S} s"
    return [
        Figure("code that holds the loop until it is named, p50", p50(soon), 1, "s", over),
        Figure("code that holds the loop until it is named, worst", max(soon), 1, "s", over),
        Figure("a pause until it is answered meanwhile, worst", max(acks), 1, "s", over),
    ]


def _pause(path: Path, run_id: str, named: _Named, acks: list[float]) -> None:
    async def pause() -> None:
        async with Journal.open(path) as journal:
            asked = time.perf_counter()
            await journal.command(run_id, Pause(by="bench"))
            acks.append(time.perf_counter() - asked)

    named.first.wait(10)
    asyncio.run(pause())


# --- at what cost -------------------------------------------------------------------------------


async def _watching() -> list[Figure]:
    """CPU time of the whole process per second, in turns, while one run only waits."""
    with_it: list[float] = []
    without: list[float] = []
    for _ in range(ROUNDS):
        with_it.append(await _idle(Timing()))
        without.append(await _idle(Timing(blocked_after_s=0)))
    over = f"{ROUNDS} × {IDLE_S:g} s; without it {p50(without) * 1000:.2f} ms"
    more = max(p50(with_it) - p50(without), 0.0)
    return [Figure("watching a loop that waits, CPU per second", more * 1000, 2, "ms", over)]


async def _idle(timing: Timing) -> float:
    stands = asyncio.Event()
    over = asyncio.Event()

    async def waits() -> None:
        stands.set()
        await over.wait()

    async def agent(ctx: Context) -> None:
        await ctx.step("wait", waits)

    async with pullcord.open(":memory:", agents={"agent": agent}, timing=timing) as runtime:
        run = await runtime.start("agent")
        await stands.wait()
        began, used = time.perf_counter(), time.process_time()
        await asyncio.sleep(IDLE_S)
        rate = (time.process_time() - used) / (time.perf_counter() - began)
        over.set()
        await run.result()
    return rate
