"""Promise: a cancel or a pause from another process stops or freezes a process tool, also while the
event loop of its agent is blocked; and when that goes on, it tells the truth about it."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final

import pytest

from pullcord.core.commands import Cancel, Pause, Resume
from pullcord.core.events import StepFailed, StepInterrupted, StepStarted
from pullcord.journal.journal import Journal
from tests.promises.children import Child, child

LINES: Final = 400
FOR_EVER: Final = 10**6
STILL_S: Final = 0.3  # sixty times what it takes to write a line
BOUND_S: Final = 120


@asynccontextmanager
async def blocked(store: Path, times: int, says: int) -> AsyncGenerator[Child]:
    """A process that drives a run with a tool under way, and whose event loop is blocked."""
    given = (str(store), str(times), str(says))
    async with child("tests.promises.tool_lives", "blocked", *given) as agent:
        assert await agent.says() == "blocked"
        yield agent
        await agent.tell("end")


def lines(store: Path) -> list[str]:
    return store.with_suffix(".lines").read_text().split()


async def stands_still(store: Path) -> list[str]:
    """Wait until no more lines are written, which only the file can tell, and return them."""
    async with asyncio.timeout(BOUND_S):
        while True:
            before = lines(store)
            await asyncio.sleep(STILL_S)
            if lines(store) == before:
                return before


async def goes_on(store: Path, holds: Callable[[list[str]], bool]) -> None:
    async with asyncio.timeout(BOUND_S):
        while not holds(lines(store)):  # noqa: ASYNC110 (only the file can tell)
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("says", [0, FOR_EVER], ids=["silent", "talkative"])
async def test_a_cancel_stops_the_tool_and_the_receipt_says_so(tmp_path: Path, says: int) -> None:
    store = tmp_path / "runs.db"
    async with blocked(store, FOR_EVER, says) as agent, Journal.open(store) as journal:
        await goes_on(store, lambda written: len(written) > 3)
        assert (await journal.command("r1", Cancel(by="ana"))).verdict == "applied"
        written = await stands_still(store)
        await agent.tell("go")
        assert await agent.says() == "on go"
        assert await agent.says() == "cancelled terminated beats"
        records = [record.event for record in await journal.read("r1")]
    assert lines(store) == [*written, "undone"]
    assert not [event for event in records if isinstance(event, StepFailed)]
    [interrupted] = [event for event in records if isinstance(event, StepInterrupted)]
    assert (interrupted.rung, interrupted.began) == ("terminated", True)


@pytest.mark.parametrize("says", [0, FOR_EVER], ids=["silent", "talkative"])
async def test_a_pause_freezes_the_tool_and_a_resume_thaws_it(tmp_path: Path, says: int) -> None:
    store = tmp_path / "runs.db"
    async with blocked(store, LINES, says) as agent, Journal.open(store) as journal:
        assert (await journal.command("r1", Pause(by="ana"))).verdict == "applied"
        written = await stands_still(store)
        assert len(written) < LINES
        assert (await journal.command("r1", Resume(by="ana"))).verdict == "applied"
        await goes_on(store, lambda now: len(now) > len(written))
        assert (await journal.command("r1", Pause(by="ana"))).verdict == "applied"
        written = await stands_still(store)
        await agent.tell("go")
        assert await agent.says() == "on go"
        assert await agent.says() == "paused cooperative beats"
        assert lines(store) == written
        assert (await journal.command("r1", Resume(by="ana"))).verdict == "applied"
        await agent.tell("result")
        assert await agent.says() == "on result"
        assert await agent.says() == str(LINES)
        records = [record.event for record in await journal.read("r1")]
    assert lines(store) == [str(number) for number in range(LINES)]
    assert len([event for event in records if isinstance(event, StepStarted)]) == 1
