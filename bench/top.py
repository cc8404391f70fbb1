"""How the screen of all runs feels: first sight of a thousand runs, a key, and twenty busy ones."""

import asyncio
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

from bench.figures import Figure, p50, p99
from bench.runs import add, born
from pullcord.core.commands import Cancel
from pullcord.core.events import Created, StepFinished, StepStarted
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Change, Order
from pullcord.tui.app import Top
from pullcord.tui.local_source import LocalSource

RUNS = 1000
BUSY = 20
KEYS = 100
WATCHED_S = 10.0


async def measure(folder: Path) -> list[Figure]:
    path = folder / "runs.db"
    async with Journal.open(path) as journal:
        await _fill(journal)
    async with Journal.open(path) as journal:
        began = time.perf_counter()
        app = Top(LocalSource(journal, me="bench", name="bench"), "bench")
        async with app.run_test(size=(200, 50)) as pilot:
            while not len(app.roster):
                await pilot.pause()
            first = time.perf_counter() - began
            while not app.is_loaded:
                await pilot.pause()
            whole = time.perf_counter() - began
            keys = [await _key(app) for _ in range(KEYS)]
            idle = await _share_of_a_core(WATCHED_S / 2)
            async with _busy_runs(path):
                busy = await _share_of_a_core(WATCHED_S)
    many = f"{RUNS} runs, 200×50"
    return [
        Figure("`pullcord top`, first screen", first, 1, "s", many),
        Figure("all of them listed", whole, 5, "s", many),
        Figure("a key to the screen, p50", p50(keys) * 1000, 20, "ms", f"{KEYS} keys, {many}"),
        Figure("a key to the screen, p99", p99(keys) * 1000, 50, "ms", f"{KEYS} keys, {many}"),
        Figure("its CPU while nothing happens", idle * 100, 5, "%", f"{WATCHED_S / 2:g} s, {many}"),
        Figure(
            f"its CPU while {BUSY} runs change",
            busy * 100,
            50,
            "%",
            f"{WATCHED_S:g} s, two records of each five times a second",
        ),
    ]


async def _fill(journal: Journal) -> None:
    for start in range(0, RUNS - BUSY, 100):
        changes: list[Change] = []
        for n in range(start, min(start + 100, RUNS - BUSY)):
            made = Created(agent=f"agent-{n % 7}", thread=f"m{n}")
            changes.append(Append(run_id=f"m{n}", events=[made], expected_seq=0))
            changes.append(Order(f"m{n}", Cancel(by="bench")))
        await journal.append(*changes)
    for n in range(BUSY):
        await born(journal, f"busy-{n}")


async def _key(app: Top) -> float:
    """Go to the next run; it is there when the bar and the list have been drawn for it."""
    began = time.perf_counter()
    drawn = asyncio.Event()
    app.simulate_key("down")
    app.call_later(app.call_after_refresh, drawn.set)
    await drawn.wait()
    return time.perf_counter() - began


async def _share_of_a_core(seconds: float) -> float:
    used, began = time.process_time(), time.perf_counter()
    await asyncio.sleep(seconds)
    return (time.process_time() - used) / (time.perf_counter() - began)


@asynccontextmanager
async def _busy_runs(path: Path) -> AsyncGenerator[None]:
    """Another process works on twenty runs."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.top", str(path), stdin=asyncio.subprocess.PIPE
    )
    yield
    assert process.stdin
    process.stdin.close()
    await process.wait()


async def _work(path: str) -> None:
    """The other process: a step in each of its runs, five times a second."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, stop.set)
    async with Journal.open(path) as journal:
        seqs = {f"busy-{n}": (await journal.head(f"busy-{n}")).seq for n in range(BUSY)}
        while not stop.is_set():
            for run, seq in seqs.items():
                step = f"s{seq}"
                await add(journal, run, seq, StepStarted(step=step, name="fetch"))
                await add(journal, run, seq + 1, StepFinished(step=step))
                seqs[run] = seq + 2
            with suppress(TimeoutError):
                async with asyncio.timeout(0.2):
                    await stop.wait()


if __name__ == "__main__":
    asyncio.run(_work(*sys.argv[1:]))
