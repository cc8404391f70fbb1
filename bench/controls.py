"""How long a control takes from one process to the cutter in another."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from bench.figures import Figure, p50, p99
from bench.runs import add, born, steps
from pullcord.core.commands import Redirect
from pullcord.core.events import Control
from pullcord.journal.journal import Journal
from pullcord.runtime.control_thread import ControlThread

SAMPLES = 500


async def measure(folder: Path) -> list[Figure]:
    figures: list[Figure] = []
    for temper in ("idle", "busy"):
        async with _owner(folder / f"{temper}.db", temper) as cuts:
            samples = await _samples(folder / f"{temper}.db", cuts)
        over = f"{SAMPLES} controls, owner {temper}"
        what = f"control to cutter across processes ({temper} owner)"
        figures.append(Figure(f"{what}, p50", p50(samples) * 1000, 5, "ms", over))
        figures.append(Figure(f"{what}, p99", p99(samples) * 1000, 20, "ms", over))
    return figures


async def _samples(path: Path, cuts: asyncio.StreamReader) -> list[float]:
    samples: list[float] = []
    async with Journal.open(path) as journal:
        for number in range(SAMPLES):
            began = time.clock_gettime(time.CLOCK_MONOTONIC)
            await journal.command("r1", Redirect(by="bench", instruction=f"{number}"))
            samples.append(float(await cuts.readline()) - began)
    return samples


@asynccontextmanager
async def _owner(path: Path, temper: str) -> AsyncGenerator[asyncio.StreamReader]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.controls", str(path), temper,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdin
    assert process.stdout
    await process.stdout.readline()
    yield process.stdout
    process.stdin.close()
    await process.wait()


async def _own(path: str, temper: str) -> None:
    """The other process: says when its cutter was fired, and may write all the while."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, stop.set)

    def cut(_control: Control) -> None:
        os.write(1, b"%.9f\n" % time.clock_gettime(time.CLOCK_MONOTONIC))

    async with Journal.open(path) as journal:
        control = ControlThread(journal)
        await born(journal, "r1")
        await born(journal, "work")
        with control.cutting("r1", cut, after_seq=2):
            os.write(1, b"ready\n")
            for number, pair in enumerate(steps(10**9)):
                if stop.is_set() or temper == "idle":
                    break
                await add(journal, "work", 2 + 2 * number, *pair)
            await stop.wait()
        control.close()


if __name__ == "__main__":
    asyncio.run(_own(*sys.argv[1:]))
