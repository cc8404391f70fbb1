"""Owners in processes of their own that lose their lease, and what the tests see of them."""

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path

import pullcord
from pullcord import RunState
from pullcord.core.events import Claimed, QuestionAsked, StepStarted
from tests.numbers import outside
from tests.promises.children import Child

LIVES = "tests.promises.licence_lives"
LEASE_S = "1.2"


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that another process does and nobody tells of."""
    async with asyncio.timeout(60):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.005)


async def stopped(pid: int) -> None:
    async with asyncio.timeout(60):
        await asyncio.to_thread(os.waitid, os.P_PID, pid, os.WSTOPPED | os.WNOWAIT)


def ticks_of(tool: Path) -> list[tuple[float, int]]:
    if not tool.exists():
        return []
    lines = [line.split() for line in tool.read_text().splitlines()]
    return [(float(at), int(pid)) for at, pid in (line for line in lines if len(line) == 2)]


def is_alive(pid: int) -> bool:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in "ZX"


async def driving(owner: Child, tool: Path) -> tuple[int, int]:
    """The numbers of the process that drives, and of its tool."""
    said, pid = (await owner.says()).split()
    assert said == "driving"
    await until(lambda: bool(ticks_of(tool)))
    return int(pid), outside(ticks_of(tool)[0][1])


def stands_still(tool: Path) -> bool:
    """Whether half a second has passed since its last tick, by the clock of the ticks."""
    [*_, (last, _)] = ticks_of(tool)
    return time.clock_gettime(time.CLOCK_BOOTTIME) - last > 0.5


async def nothing_was_asked(path: Path | str) -> None:
    async with pullcord.open(path) as runtime:
        run = await (await runtime.get("r1")).snapshot()
        events = [record.event for record in await runtime.journal.read("r1")]
    assert run.state is RunState.COMPLETED
    assert run.attention == {}
    assert len([event for event in events if isinstance(event, StepStarted)]) == 1
    assert len([event for event in events if isinstance(event, Claimed)]) == 1
    assert not [event for event in events if isinstance(event, QuestionAsked)]
