"""Loading and decoding a run; many parked runs; bytes on disk."""

import asyncio
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import cast

import apsw

from bench.figures import Figure, p50
from bench.runs import add, born, steps
from pullcord.core.commands import Pause
from pullcord.core.events import Created
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Order

STEPS = 1000
PARKED = 100_000
ROUNDS = 40
ROWS = "SELECT seq, at_ms, epoch, payload, hash FROM records WHERE run = 1 ORDER BY seq"


async def measure(folder: Path) -> list[Figure]:
    return [*await _one_long_run(folder), *await _many_parked_runs(folder)]


async def _one_long_run(folder: Path) -> list[Figure]:
    path = folder / "long.db"
    async with Journal.open(path) as journal:
        await born(journal, "r1")
        for number, pair in enumerate(steps(STEPS)):
            await add(journal, "r1", 2 + 2 * number, *pair)
    size = path.stat().st_size
    bare: list[float] = []
    load: list[float] = []
    read: list[float] = []
    db = apsw.Connection(str(path))
    async with Journal.open(path) as journal:
        for _ in range(ROUNDS):
            began = time.perf_counter()
            rows = cast("list[object]", db.execute(ROWS).fetchall())
            bare.append(time.perf_counter() - began)
            began = time.perf_counter()
            await journal.load("r1")
            load.append(time.perf_counter() - began)
            began = time.perf_counter()
            records = await journal.read("r1")
            read.append(time.perf_counter() - began)
            assert len(records) == len(rows) == 2 + 2 * STEPS
    db.close()
    over = f"p50 of {ROUNDS}; bare read {p50(bare) * 1000:.2f} ms"
    per_s = (2 + 2 * STEPS) / p50(read)
    checked = f"p50 of {ROUNDS} reads of {2 + 2 * STEPS:,} records, each verified"
    return [
        Figure(f"{STEPS:,} steps with 200-byte results", size / 1e6, 2, "MB", "one run"),
        Figure(f"load a {STEPS:,}-step run ÷ bare rows", p50(load) / p50(bare), 3, "×", over),
        Figure("events decoded and verified", per_s, 50_000, "/s", checked, True),
    ]


async def _many_parked_runs(folder: Path) -> list[Figure]:
    path = folder / "parked.db"
    async with Journal.open(path) as journal:
        for first in range(0, PARKED, 1000):
            names = [f"run-{number}" for number in range(first, first + 1000)]
            made = {name: Created(agent="churn", thread=name) for name in names}
            await journal.append(
                *(Append(run_id=name, events=[made[name]], expected_seq=0) for name in names),
                *(Order(name, Pause(by="ana")) for name in names),
            )
    few = folder / "few.db"
    async with Journal.open(few) as journal:
        await born(journal, "r1")
    listing, memory = _in_a_fresh_process(path)
    _, memory_few = _in_a_fresh_process(few)
    over = f"{PARKED:,} paused runs"
    return [
        Figure("newest 50 of 100,000 runs listed", listing * 1000, 50, "ms", f"p50 of 20; {over}"),
        Figure("memory per parked run", (memory - memory_few) / PARKED, 8, "bytes", over),
    ]


def _in_a_fresh_process(path: Path) -> tuple[float, int]:
    """Open, list, and say how long a listing takes and how much memory the process has."""
    command = [sys.executable, "-m", "bench.reading", str(path)]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split()
    return float(said[0]), int(said[1])


async def _look(path: str) -> None:
    samples: list[float] = []
    async with Journal.open(path) as journal:
        for _ in range(20):
            began = time.perf_counter()
            await journal.runs(limit=50)
            samples.append(time.perf_counter() - began)
        await journal.queue.claimable(agents=["churn"])
        pages = int(Path("/proc/self/statm").read_text().split()[1])
    print(p50(samples), pages * os.sysconf("SC_PAGE_SIZE"))


if __name__ == "__main__":
    asyncio.run(_look(sys.argv[1]))
