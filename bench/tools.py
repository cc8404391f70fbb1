"""What tools cost: how soon a cancel is heard and in effect, and what calling a process tool takes
beyond the process itself and the two commits around it."""

import asyncio
import os
import shutil
import time
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pullcord
from bench.figures import Figure, p50, p99
from bench.runs import Bare
from pullcord import Context, RunHandle, Runtime
from pullcord.journal.store import LiveText

CANCELS = 300
WRITERS = 50
CALLS = 200
WARM_UP = 5
LINE_S = 0.1
LOOK_S = 2 * LINE_S  # how long is looked whether a line is still written


async def measure(folder: Path) -> list[Figure]:
    bare = Bare(folder / "bare.db")
    return [
        *await _cancelling(folder, bare),
        *await _stopping(folder, bare),
        *await _calling(folder, bare),
    ]


def _timed(work: Any) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


# --- a cancel, until an async tool hears it -----------------------------------------------------


async def _cancelling(folder: Path, bare: Bare) -> list[Figure]:
    heard: asyncio.Queue[float] = asyncio.Queue()
    begun = asyncio.Event()

    async def waits() -> None:
        begun.set()
        try:
            await asyncio.get_running_loop().create_future()
        finally:
            heard.put_nowait(time.perf_counter())

    async def agent(ctx: Context) -> None:
        await ctx.tool(waits)

    samples: list[float] = []
    receipts: list[float] = []
    commits: list[float] = []
    async with pullcord.open(folder / "cancels.db", agents={"agent": agent}) as runtime:
        for _ in range(CANCELS):
            begun.clear()
            run = await runtime.start("agent")
            await begun.wait()
            commits.append(_timed(bare.commit))
            asked = time.perf_counter()
            await run.cancel(by="bench")
            samples.append(await heard.get() - asked)
            await run.receipt()
            receipts.append(time.perf_counter() - asked)
    over = f"{CANCELS} cancels; bare commit {p50(commits) * 1000:.2f} ms"
    ratio = p50(samples) / p50(commits)
    return [
        Figure("cancel until an async tool hears it, p50", p50(samples) * 1000, 10, "ms", over),
        Figure("cancel until an async tool hears it, p99", p99(samples) * 1000, 20, "ms", over),
        Figure("…against a bare commit", ratio, 4, "×", over),
        Figure("…until the receipt, p99", p99(receipts) * 1000, 50, "ms", over),
    ]


# --- a cancel, until the receipt of a tool that writes a line every 100 ms ------------------------


def writes_lines(path: str) -> None:
    with Path(path).open("a", buffering=1) as file:
        while True:
            file.write("line\n")
            print("line", flush=True)
            time.sleep(LINE_S)


async def _stopping(folder: Path, bare: Bare) -> list[Figure]:
    path = folder / "lines"

    async def agent(ctx: Context) -> None:
        await ctx.tool(writes_lines, str(path))

    samples: list[float] = []
    forks: list[float] = []
    too_late = 0
    async with pullcord.open(folder / "lines.db", agents={"agent": agent}) as runtime:
        for _ in range(WRITERS):
            run = await _writing(runtime)
            forks.append(_timed(_fork_and_exec))
            asked = time.perf_counter()
            await run.cancel(by="bench")
            await run.receipt()
            samples.append(time.perf_counter() - asked)
            written = path.stat().st_size
            await asyncio.sleep(LOOK_S)
            too_late += (path.stat().st_size - written) // len("line\n")
    over = f"{WRITERS} tools that write every 100 ms; fork + exec {p50(forks) * 1000:.2f} ms"
    return [
        Figure("cancel until the receipt of a process tool, p50", p50(samples) * 1000, 100, "ms",
               over),
        Figure("cancel until the receipt of a process tool, p99", p99(samples) * 1000, 300, "ms",
               over),
        Figure("lines written after the receipt", too_late, 0, "lines", over),
    ]  # fmt: skip


async def _writing(runtime: Runtime) -> RunHandle:
    run = await runtime.start("agent")
    async with aclosing(run.events()) as events:
        async for _, item in events:
            if isinstance(item, LiveText):
                return run
    raise AssertionError("it has ended by itself")


# --- a call ---------------------------------------------------------------------------------


def nothing() -> None:
    pass


def _fork_and_exec() -> None:
    command = shutil.which("true") or "true"
    os.waitpid(os.posix_spawn(command, [command], os.environ), 0)


async def _calling(folder: Path, bare: Bare) -> list[Figure]:
    """In turns with the bare process and the bare commits, so that all meet the same machine."""
    calls: list[float] = []
    commands: list[float] = []
    forks: list[float] = []
    pairs: list[float] = []

    async def agent(ctx: Context) -> None:
        for number in range(WARM_UP + CALLS):
            fork = _timed(_fork_and_exec)
            pair = _timed(bare.commit) + _timed(bare.commit)
            began = time.perf_counter()
            await ctx.tool(nothing)
            called = time.perf_counter()
            await ctx.exec("true")
            if number >= WARM_UP:
                forks.append(fork)
                pairs.append(pair)
                calls.append(called - began)
                commands.append(time.perf_counter() - called)

    async with pullcord.open(folder / "calls.db", agents={"agent": agent}) as runtime:
        await (await runtime.start("agent")).result()
    limit = p50(forks) + p50(pairs)
    over = (
        f"{CALLS} calls; fork + exec of true {p50(forks) * 1000:.2f} ms, "
        f"two bare commits {p50(pairs) * 1000:.2f} ms"
    )
    return [
        Figure("call of a process tool, warm zygote, p50", p50(calls) * 1000, 15, "ms", over),
        Figure("call of a process tool, warm zygote, p99", p99(calls) * 1000, 60, "ms", over),
        Figure("…against fork + exec + two commits", p50(calls) / limit, 6, "×", over),
        Figure("`ctx.exec(\"true\")`, p50", p50(commands) * 1000, 15, "ms", over),
    ]  # fmt: skip
