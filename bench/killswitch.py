"""The kill switch: from the pull until every tool is dead and nothing more can start, whatever
state the runtime is in; and what it costs a step that there is one."""

import asyncio
import os
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from tests.postgres.server import Server, serving
from tests.switch.store_with_processes import StoreWithProcesses, store_with_processes

from bench.figures import Figure, p50
from pullcord.core.events import Created
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append
from pullcord.killswitch.flags import Flags

ROUNDS = 12
TOOLS = 20
LOOKS = 20_000
QUEUED = 20_000


async def measure(folder: Path) -> list[Figure]:
    os.environ["PULLCORD_STATE"] = str(folder / "state")
    with serving() as server:
        absent = _absent(server)
    queued = await _queued(folder / "queued.db")
    return [*_pulling(), *_killed_before(), *absent, queued, _looking(folder)]


async def _queued(path: Path) -> Figure:
    """Many runs that nobody has taken up yet. Those that it has not paused when it answers cannot
    start either."""
    async with Journal.open(path) as journal:
        born = Created(agent="agent", thread="t")
        for at in range(0, QUEUED, 500):
            made = (
                journal.append(Append(run_id=f"r{at + n}", events=[born], expected_seq=0))
                for n in range(500)
            )
            await asyncio.gather(*made)
        began = time.monotonic()
        words = ("kill-switch", "engage", "--store", str(path), "--reason", "bench")
        pulled = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pullcord", *words, stdout=asyncio.subprocess.DEVNULL
        )
        assert await pulled.wait() == 0
        took = time.monotonic() - began
    return Figure(f"an engage over {QUEUED:,} queued runs", took, 3, "s", "1 pull, from a command")


def _absent(server: Server) -> list[Figure]:
    """The store is in PostgreSQL, whose server is not there any more, or says nothing."""

    def killed(_home: StoreWithProcesses) -> None:
        server.kill()

    def frozen(_home: StoreWithProcesses) -> None:
        server.freezes()

    figures: list[Figure] = []
    for name, prepare in (("killed", killed), ("frozen", frozen)):
        pulls: list[tuple[float, int]] = []
        for _ in range(ROUNDS):
            pulls.append(_pull(prepare, "killable", blocks=False, url=server.url()))
            server.is_back()
        figures += _figures(f"its PostgreSQL {name}", pulls)
    return figures


def _killed_before() -> list[Figure]:
    """Runtime, warden, guard and holders are killed; what a tool had started lives on."""
    figures: list[Figure] = []
    for fence in ("cgroup", "sweep"):
        took: list[float] = []
        alive = 0
        for _ in range(ROUNDS // 3):
            with (
                tempfile.TemporaryDirectory() as folder,
                store_with_processes(Path(folder), fence=fence) as home,
            ):
                home.opens("commands=4", "copies=4")
                home.has_begun(leaves=8)
                home.loses_everybody()
                began = time.monotonic()
                home.pulls()
                alive += len(home.living())
                took.append(time.monotonic() - began)
        over = f"{len(took)} pulls, 8 tools with a process in the background each"
        name = f"all of our processes killed before ({fence})"
        figures += [
            Figure(f"{name}: until it answers, worst", max(took), 2, "s", over),
            Figure("… processes of tools alive then", alive, 0, "processes", over),
        ]
    return figures


def _figures(name: str, pulls: list[tuple[float, int]]) -> list[Figure]:
    dead, late = zip(*pulls, strict=True)
    over = f"{len(pulls)} pulls, {TOOLS} process tools and 10 busy runs each"
    return [
        Figure(f"all tools dead, runtime {name}, worst", max(dead), 2, "s", over),
        Figure("… starts after the acknowledgement", sum(late), 0, "starts", over),
    ]


def _pulling() -> list[Figure]:
    figures: list[Figure] = []
    for name, prepare, kind in (
        ("working", _nothing, "killable"),
        ("its loop blocked", _nothing, "embedded"),
        ("its database locked", _lock, "killable"),
        ("stopped (SIGSTOP)", _stop, "killable"),
        ("stopped, and not to be killed", _stop, "embedded"),
    ):
        blocks = name == "its loop blocked"
        figures += _figures(name, [_pull(prepare, kind, blocks=blocks) for _ in range(ROUNDS)])
    return figures


def _pull(
    prepare: Callable[[StoreWithProcesses], object], kind: str, *, blocks: bool, url: str = ""
) -> tuple[float, int]:
    with tempfile.TemporaryDirectory() as folder, store_with_processes(Path(folder), url) as home:
        home.opens(f"tools={TOOLS}", "beats=10", f"blocks={int(blocks)}", kind=kind)
        home.has_begun(works=TOOLS, beat=20, blocks=int(blocks))
        kept = prepare(home)
        began = time.monotonic()
        home.pulls()
        acknowledged_ns = time.monotonic_ns()
        home.until(lambda: not home.living())
        dead_s = time.monotonic() - began
        time.sleep(0.3)  # long enough for one that slipped through to show
        late = [what for what, at_ns in home.starts() if at_ns > acknowledged_ns]
        del kept
        return dead_s, len(late)


def _nothing(_home: StoreWithProcesses) -> None:
    pass


def _stop(home: StoreWithProcesses) -> None:
    home.families[0].send_signal(signal.SIGSTOP)


def _lock(home: StoreWithProcesses) -> sqlite3.Connection:
    blocker = sqlite3.connect(home.store, isolation_level=None)
    blocker.execute("BEGIN EXCLUSIVE")
    return blocker


def _looking(folder: Path) -> Figure:
    flags = Flags(str(folder / "runs.db"))
    samples: list[float] = []
    for _ in range(5):
        began = time.perf_counter()
        for _ in range(LOOKS):
            flags.refusal(("agent", "thread"))
        samples.append((time.perf_counter() - began) / LOOKS * 1e6)
    return Figure("a look at the switch", p50(samples), 10, "µs", f"{LOOKS:,} looks, 5 times")
