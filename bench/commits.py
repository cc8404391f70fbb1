"""What durability costs: a step's two records, and many writers at once."""

import asyncio
import time
from pathlib import Path

from bench.figures import Figure, p50
from bench.runs import Bare, add, against_bare, born, steps
from pullcord.journal.journal import Journal

PAIRS = 2000
WRITERS = 64
EACH = 60


async def measure(folder: Path) -> list[Figure]:
    return [*await _a_step(folder), *await _many_writers(folder)]


async def _a_step(folder: Path) -> list[Figure]:
    """Intent and outcome against two bare commits."""
    bare = Bare(folder / "bare.db")
    async with Journal.open(folder / "steps.db") as journal:
        await born(journal, "r1")
        ours, theirs = await against_bare(journal, bare.commit, PAIRS)
    over = f"p50 of {PAIRS:,} pairs; bare pair {p50(theirs) * 1000:.2f} ms"
    return [
        Figure("intent + outcome ÷ two bare apsw commits", p50(ours) / p50(theirs), 1.7, "×", over)
    ]


async def _many_writers(folder: Path) -> list[Figure]:
    """What 64 writers get done together, against one alone."""
    async with Journal.open(folder / "writers.db") as journal:
        names = [f"r{number}" for number in range(WRITERS)]
        for name in [*names, "alone"]:
            await born(journal, name)

        async def write(name: str, count: int) -> None:
            for number, (intent, outcome) in enumerate(steps(count)):
                await add(journal, name, 2 + 2 * number, intent)
                await add(journal, name, 3 + 2 * number, outcome)

        began = time.perf_counter()
        await write("alone", EACH * 8)
        alone = EACH * 8 * 2 / (time.perf_counter() - began)
        began = time.perf_counter()
        await asyncio.gather(*(write(name, EACH) for name in names))
        together = WRITERS * EACH * 2 / (time.perf_counter() - began)
    over = f"{WRITERS * EACH * 2:,} appends at {together:,.0f}/s; one writer {alone:,.0f}/s"
    return [
        Figure(f"{WRITERS} writers ÷ one writer", together / alone, 15, "×", over, True),
    ]
