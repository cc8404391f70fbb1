"""Steps per second over a network: function agents on a PostgreSQL store behind a line that takes
its time, driven by one, two and four workers at once."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

from tests.postgres.server import Server, serving

import pullcord
from bench.figures import Figure
from pullcord import Context

RUNS: Final = 20  # of each worker
STEPS: Final = 20  # of each run
TARGETS: Final = {(0.0, 4): 1000, (1.0, 1): 600, (5.0, 1): 250}
"""By the round trip in milliseconds, and the number of workers."""
ROUNDS_MS: Final = (0.0, 1.0, 5.0)
WORKERS: Final = (1, 2, 4)


async def measure(folder: Path) -> list[Figure]:
    os.environ["PULLCORD_STATE"] = str(folder / "state")
    figures: list[Figure] = []
    with serving() as server:
        for round_ms in ROUNDS_MS:
            async with _line(server, folder / f"{round_ms:g}", round_ms) as far:
                for workers in WORKERS:
                    rate = await _steps_per_s(server.url(), far, workers)
                    what = f"steps per second, {round_ms:g} ms round trip, {workers} workers"
                    over = f"{workers * RUNS * STEPS:,} trivial steps, {RUNS} runs a worker"
                    target = TARGETS.get((round_ms, workers), 0)
                    figures.append(Figure(what, rate, target, "/s", over, more_is_better=True))
    return figures


@asynccontextmanager
async def _line(server: Server, folder: Path, round_ms: float) -> AsyncGenerator[tuple[str, str]]:
    """What of a URL is to be replaced by what, to come along this line."""
    near = quote(str(server.socket), safe="")
    if not round_ms:
        yield near, near
        return
    folder.mkdir()
    words = "-m", "tests.postgres.distant_line", str(server.socket), str(folder), str(round_ms)
    pipe = asyncio.subprocess.PIPE
    line = await asyncio.create_subprocess_exec(sys.executable, *words, stdin=pipe, stdout=pipe)
    assert line.stdin
    assert line.stdout
    await line.stdout.readline()
    try:
        yield near, quote(str(folder), safe="")
    finally:
        line.stdin.close()
        await line.wait()


async def _steps_per_s(url: str, far: tuple[str, str], workers: int) -> float:
    pipe = asyncio.subprocess.PIPE
    words = "-m", "bench.distance", url.replace(*far)
    mine = [
        await asyncio.create_subprocess_exec(
            *(sys.executable, *words, f"churn-{n}"), stdin=pipe, stdout=pipe
        )
        for n in range(workers)
    ]
    for worker in mine:
        assert worker.stdout
        await worker.stdout.readline()
    for worker in mine:
        assert worker.stdin
        worker.stdin.write(b"go\n")
    spans = [(await worker.communicate())[0].split() for worker in mine]
    began, ended = min(float(span[0]) for span in spans), max(float(span[1]) for span in spans)
    return workers * RUNS * STEPS / (ended - began)


async def _plain(number: int) -> int:
    return number


async def _works(ctx: Context) -> int:
    for number in range(STEPS):
        await ctx.step(f"step {number}", _plain, number)
    return STEPS


async def _worker(url: str, name: str) -> None:
    agents: Any = {name: _works}
    async with pullcord.open(url, agents=agents) as runtime:
        await asyncio.to_thread(_says_ready)
        began = time.monotonic()
        runs = [await runtime.start(name) for _ in range(RUNS)]
        await asyncio.gather(*(run.result() for run in runs))
        print(began, time.monotonic(), flush=True)


def _says_ready() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    asyncio.run(_worker(sys.argv[1], sys.argv[2]))
