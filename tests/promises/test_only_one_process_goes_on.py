"""Promise: of many processes that would go on with a run, one does.

However many resume it at once, it is resumed once and owned once. And an owner that was frozen
for longer than its lease finds, when it thaws, that the run is another's: it writes nothing more
and starts no step.
"""

import asyncio
import os
import signal
from pathlib import Path

import pytest

import pullcord
from pullcord import Context, Record, RunState
from pullcord.core.events import Claimed, Completed, Resumed, StepStarted
from tests.promises.children import child
from tests.promises.lives import effects

LIVES = "tests.promises.lives"
EACH = 25


async def paused_run(path: Path) -> None:
    running, asked = asyncio.Event(), asyncio.Event()

    async def agent(ctx: Context) -> None:
        running.set()
        await asked.wait()
        await ctx.checkpoint()

    async with asyncio.timeout(120), pullcord.open(path, agents={"mail": agent}) as runtime:
        run = await runtime.start("mail", run_id="r1")
        await running.wait()
        await run.pause(by="ana")
        asked.set()
        await run.wait_for(RunState.PAUSED)


async def records_of(path: Path) -> list[Record]:
    async with pullcord.open(path) as runtime:
        return await runtime.journal.read("r1")


async def test_of_fifty_resumes_from_two_processes_one_counts(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    await paused_run(path)
    async with (
        child(LIVES, "resuming", str(path), "one", str(EACH)) as one,
        child(LIVES, "resuming", str(path), "two", str(EACH)) as two,
    ):
        for process in (one, two):
            assert await process.says() == "ready"
        for process in (one, two):
            await process.tell("go")
        answers = [[int(n) for n in (await process.says()).split()] for process in (one, two)]
        for process in (one, two):
            await process.tell("finish")
    applied, already = map(sum, zip(*answers, strict=True))
    assert (applied, already) == (1, 2 * EACH - 1)

    events = [record.event for record in await records_of(path)]
    [resumed] = [n for n, event in enumerate(events) if isinstance(event, Resumed)]
    assert len([event for event in events[resumed:] if isinstance(event, Claimed)]) == 1
    assert len([event for event in events if isinstance(event, StepStarted)]) == 1
    assert len([event for event in events if isinstance(event, Completed)]) == 1
    assert len(effects(path)) == 1


@pytest.mark.parametrize("step", ["finishes", "goes_on"])
async def test_an_owner_that_was_frozen_abandons_the_run_when_it_thaws(
    step: str, tmp_path: Path
) -> None:
    path, lease_s = tmp_path / "runs.db", "0.6"
    async with child(LIVES, "freezing", str(path), lease_s, step, is_own=True) as first:
        said, pid = (await first.says()).split()
        assert said == "charging"
        async with asyncio.timeout(120):
            await asyncio.to_thread(os.waitid, os.P_PID, int(pid), os.WSTOPPED | os.WNOWAIT)
        async with child(LIVES, "taking_over", str(path), lease_s) as second:
            await say_that_the_charge_happened(path)
            assert await second.says() == "mailing"
            before = await records_of(path)

            os.kill(int(pid), signal.SIGCONT)
            assert await first.says() == "unwound"
            await first.tell("close")
            assert await first.says() == "closed"

            assert await records_of(path) == before, "a process wrote to a run it had lost"
            await second.tell("finish")
            assert await second.says() == "mailed"
    assert effects(path) == ["charge-first", "mail-second"]
    events = [record.event for record in await records_of(path)]
    assert len({event.owner for event in events if isinstance(event, Claimed)}) == 2
    assert len([event for event in events if isinstance(event, Completed)]) == 1


async def say_that_the_charge_happened(path: Path) -> None:
    """The second owner cannot know what became of the charge: a person has looked."""
    async with asyncio.timeout(60), pullcord.open(path) as runtime:
        run = await runtime.get("r1")
        asked = await run.wait_for(RunState.WAITING)
        [doubt] = asked.open_questions()
        ack = await run.answer(doubt, {"happened": "charged"}, by="ana")
        assert ack.verdict == "applied"
