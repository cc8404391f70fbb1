"""Over a network: function agents on a PostgreSQL store behind a line that takes its time, driven
by one, two and four workers at once, with DBOS beside them; and how soon a control is there."""

import asyncio
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import quote, unquote

from compare.environments import ROOT, Peer, python_of, surroundings
from tests.postgres.server import Server, serving

import pullcord
from bench.figures import Figure, p50
from pullcord import Context
from pullcord.core.commands import Cancel
from pullcord.journal.journal import Journal
from pullcord.limits import MaxSteps

RUNS: Final = 20  # of each worker
STEPS: Final = 20  # of each run
TARGETS: Final = {(0.0, 4): 1000, (1.0, 1): 600, (5.0, 1): 250}
"""By the round trip in milliseconds, and the number of workers."""
TARGETS_BY_DBOS: Final = {(1.0, 1): 2.5}
CONTROLS: Final = 100
ENDLESS: Final = "1000000"  # steps of a run
ROUNDS_MS: Final = (0.0, 1.0, 5.0)
WORKERS: Final = (1, 2, 4)


DBOS: Final = Peer("dbos", "DBOS", ("dbos",))


class Rate(NamedTuple):
    """Steps per second over all workers, and how busy this machine was, server and all."""

    steps: float
    busy: float

    def over(self, workers: int) -> str:
        steps = f"{workers * RUNS * STEPS:,} trivial steps, {RUNS} runs a worker"
        return f"{steps}; {self.busy:.0%} of {os.cpu_count()} cores busy"


async def measure(folder: Path) -> list[Figure]:
    os.environ["PULLCORD_STATE"] = str(folder / "state")
    figures: list[Figure] = []
    with serving() as server:
        for round_ms in ROUNDS_MS:
            async with _line(server, folder / f"{round_ms:g}", round_ms) as far:
                for workers in WORKERS:
                    figures += await _compared(server, far, round_ms, workers)
                if round_ms:
                    figures += await _controls(server.url().replace(*far), round_ms)
    return figures


async def _compared(
    server: Server, far: tuple[str, str], round_ms: float, workers: int
) -> list[Figure]:
    """Our workers and, right behind them, DBOS with as many."""
    url, socket = server.url().replace(*far), unquote(far[1])
    ours = await _rate([[sys.executable, "-m", "bench.distance", url]] * workers, "churn")
    python = str(await asyncio.to_thread(python_of, DBOS))
    theirs = await _rate([[python, "-m", "bench.dbos_worker", socket]] * workers, "worker")
    where = f"{round_ms:g} ms round trip, {workers} workers"
    target = TARGETS.get((round_ms, workers), 0)
    ratio = TARGETS_BY_DBOS.get((round_ms, workers), 1)
    return [
        Figure(
            f"steps per second, {where}",
            ours.steps,
            target,
            "/s",
            ours.over(workers),
            more_is_better=True,
        ),
        Figure(
            "… against DBOS in the same run",
            ours.steps / theirs.steps,
            ratio,
            "×",
            f"DBOS {theirs.steps:.0f} steps per second; {theirs.over(workers)}",
            more_is_better=True,
        ),
    ]


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


async def _rate(workers: list[list[str]], name: str) -> Rate:
    """Have the workers begin at the same moment, and wait for the last."""
    pipe = asyncio.subprocess.PIPE
    mine = [
        await asyncio.create_subprocess_exec(
            *(*words, f"{name}-{n}"), stdin=pipe, stdout=pipe, cwd=ROOT, env=_around()
        )
        for n, words in enumerate(workers)
    ]
    for worker in mine:
        assert worker.stdout
        await worker.stdout.readline()
    used, idle = _cores()
    for worker in mine:
        assert worker.stdin
        worker.stdin.write(b"go\n")
    spans = [(await worker.communicate())[0].split() for worker in mine]
    used, idle = _cores()[0] - used, _cores()[1] - idle
    began, ended = min(float(span[0]) for span in spans), max(float(span[1]) for span in spans)
    return Rate(len(workers) * RUNS * STEPS / (ended - began), used / (used + idle))


def _around() -> dict[str, str]:
    return {**surroundings(), "PULLCORD_STATE": os.environ["PULLCORD_STATE"]}


def _cores() -> tuple[int, int]:
    """How long the cores were busy, and how long they were not."""
    words = Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]
    times = [int(word) for word in words]
    idle = times[3] + times[4]
    return sum(times) - idle, idle


async def _controls(url: str, round_ms: float) -> list[Figure]:
    """From when somebody asks for a cancel, in another process, to the code in flight; and the same
    beside workers that write as fast as they can."""
    late = {"alone": await _lateness(url)}
    async with _working(url):
        late[f"beside {max(WORKERS)} workers"] = await _lateness(url)
    figures: list[Figure] = []
    for how, found in late.items():
        found.sort()
        what = f"a control from another process to the code in flight, {round_ms:g} ms, {how}"
        over = f"{len(found)} controls"
        figures.append(Figure(f"{what}, p50", p50(found), 5 * round_ms, "ms", over))
        at = found[int(len(found) * 0.99)]
        figures.append(Figure("… p99", at, 30 * round_ms, "ms", over))
    return figures


@asynccontextmanager
async def _working(url: str) -> AsyncGenerator[None]:
    """While inside, workers write as fast as they can."""
    pipe = asyncio.subprocess.PIPE
    words = sys.executable, "-m", "bench.distance", url
    mine = [
        await asyncio.create_subprocess_exec(
            *(*words, f"beside-{n}", ENDLESS), stdin=pipe, stdout=pipe, cwd=ROOT, env=_around()
        )
        for n in range(max(WORKERS))
    ]
    for worker in mine:
        assert worker.stdin
        assert worker.stdout
        await worker.stdout.readline()
        worker.stdin.write(b"go\n")
    try:
        yield
    finally:
        for worker in mine:
            worker.kill()
            await worker.wait()


async def _lateness(url: str) -> list[float]:
    """How late each control reached the code in flight, in milliseconds."""
    late = list[float]()
    begun, cut = asyncio.Event(), list[float]()

    async def held() -> None:
        begun.set()
        try:
            await asyncio.sleep(3600)
        finally:
            cut.append(time.monotonic())

    async def works(ctx: Context) -> None:
        await ctx.step("held", held)

    words = "-m", "bench.distance", url, "presses"
    pipe = asyncio.subprocess.PIPE
    person = await asyncio.create_subprocess_exec(
        *(sys.executable, *words), stdin=pipe, stdout=pipe, cwd=ROOT, env=_around()
    )
    assert person.stdin
    assert person.stdout
    agents: Any = {"held": works}
    async with pullcord.open(url, agents=agents) as runtime:
        for _ in range(CONTROLS):
            begun.clear()
            cut.clear()
            run = await runtime.start("held")
            await begun.wait()
            person.stdin.write(f"{run.id}\n".encode())
            asked = float(await person.stdout.readline())
            with suppress(pullcord.RunCancelled):
                await run.result()
            late.append((cut[0] - asked) * 1000)
    person.stdin.close()
    await person.wait()
    return late


async def _presses(url: str) -> None:
    """Cancel each run whose id is said, and say when that was asked for."""
    async with Journal.open(url) as journal:
        while run_id := (await asyncio.to_thread(sys.stdin.readline)).strip():
            asked = time.monotonic()
            await journal.command(run_id, Cancel(by="ana"))
            print(asked, flush=True)


async def _plain(number: int) -> int:
    return number


async def _worker(url: str, name: str, steps: str = str(STEPS)) -> None:
    async def works(ctx: Context) -> int:
        for number in range(int(steps)):
            await ctx.step(f"step {number}", _plain, number)
        return int(steps)

    agents: Any = {name: works}
    async with pullcord.open(url, agents=agents) as runtime:
        await asyncio.to_thread(_says_ready)
        began = time.monotonic()
        own = MaxSteps(int(steps) + 1)
        runs = [await runtime.start(name, limits=own) for _ in range(RUNS)]
        await asyncio.gather(*(run.result() for run in runs))
        print(began, time.monotonic(), flush=True)


def _says_ready() -> None:
    print("ready", flush=True)
    sys.stdin.readline()


if __name__ == "__main__":
    asyncio.run(_presses(sys.argv[1]) if sys.argv[2] == "presses" else _worker(*sys.argv[1:]))
