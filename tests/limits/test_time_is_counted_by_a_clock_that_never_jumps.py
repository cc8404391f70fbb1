"""Promise: nothing expires early or late, and working time is right, whatever the clocks do."""

import asyncio
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import Context, RunState
from pullcord.core.events import Created, StepStarted, StoodStill
from pullcord.core.limits import Limits
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Appended, Lease
from pullcord.limits import Deadline, WorkingTime
from pullcord.runtime.runtime import worker_of
from pullcord.testing import ManualClock
from tests.runs.observed_runs import (
    UNHURRIED,
    OutsideWorld,
    happened,
    question,
    runtime_with,
    seen,
    settles,
)

DAY_S = 86_400
JUMPS = [3 * DAY_S, -3 * DAY_S]
LIMITS = WorkingTime(30) | Deadline(in_s=3600)


def worker(world: OutsideWorld) -> Any:
    async def agent(ctx: Context) -> str:
        await ctx.step("slow", world.slow, 1)
        await ctx.step("quick", world.do, 2)
        return "through"

    return agent


@pytest.mark.parametrize("jump_s", JUMPS)
async def test_setting_the_clock_ends_no_limit_and_adds_no_work(jump_s: float) -> None:
    world, clock = OutsideWorld(), ManualClock()
    async with runtime_with(clock=clock, agent=worker(world)) as runtime:
        run = await runtime.start("agent", limits=LIMITS, on_exhausted="stop")
        await seen(run, StepStarted)
        clock.advance(5)
        clock.jump_wall(jump_s)
        clock.advance(5)
        world.go_on.set()
        assert await run.result() == "through"
        assert (await run.snapshot()).times.working_ms == 10_000


@pytest.mark.parametrize("jump_s", JUMPS)
async def test_a_deadline_is_kept_although_the_clock_was_set(jump_s: float) -> None:
    world, clock = OutsideWorld(), ManualClock()
    async with runtime_with(clock=clock, agent=worker(world)) as runtime:
        at_ms = clock.wall_ms() + 20_000
        run = await runtime.start("agent", limits=Deadline(at_ms=at_ms), on_exhausted="stop")
        await seen(run, StepStarted)
        clock.jump_wall(jump_s)
        clock.advance(21)
        world.go_on.set()
        await run.wait_for(RunState.STOPPED)
    assert world.did == [1]


@pullcord.tool(approve=pullcord.always, approve_within_s=3600)
async def pay(eur: int) -> int:
    return eur


async def buyer(ctx: Context) -> Any:
    return await ctx.tool(pay, eur=5)


async def sleeper(ctx: Context) -> str:
    await ctx.sleep(3600)
    return "awake"


@pytest.mark.parametrize("jump_s", JUMPS)
async def test_an_approval_and_a_sleep_last_as_long_as_they_said(jump_s: float) -> None:
    clock = ManualClock()
    async with runtime_with(clock=clock, timing=UNHURRIED, buyer=buyer, sleeper=sleeper) as runtime:
        bought, missed = await runtime.start("buyer"), await runtime.start("buyer")
        slept = await runtime.start("sleeper")
        names = {run.id: await question(run) for run in (bought, missed, slept)}
        for run in (bought, missed, slept):
            await settles(run, clock, RunState.WAITING)
        clock.jump_wall(jump_s)
        clock.advance(1800)
        assert (await slept.snapshot()).open_questions() == [names[slept.id]]
        assert (await bought.approve(names[bought.id], by="ana")).holds
        assert await bought.result() == 5
        clock.advance(1801)
        assert await slept.result() == "awake"
        late = await missed.approve(names[missed.id], by="ana")
        assert late.verdict == "too_late"


@pytest.mark.parametrize("jump_s", [*JUMPS, 0])
async def test_a_reboot_in_between_counts_as_nobodys_work(jump_s: float, tmp_path: Path) -> None:
    """Also if the machine comes back with its clock set to another day."""
    world, clock = OutsideWorld(), ManualClock()
    path = tmp_path / "runs.db"
    limits = WorkingTime(30)
    async with runtime_with(path, clock=clock, agent=worker(world)) as runtime:
        run = await runtime.start("agent", limits=limits, on_exhausted="stop")
        await seen(run, StepStarted)
        clock.advance(7)
        tasks = worker_of(runtime).tasks
        for task in list(tasks):
            task.cancel()  # the power is cut: nothing more is recorded
        await asyncio.wait(tasks)
    clock.reboot("boot-2")
    clock.jump_wall(jump_s)
    clock.advance(900)
    world.go_on.set()
    async with runtime_with(path, clock=clock, timing=UNHURRIED, agent=worker(world)) as runtime:
        run = await runtime.get(run.id)
        await settles(run, clock, RunState.COMPLETED, RunState.WAITING)
        if (
            await run.snapshot()
        ).state is RunState.WAITING:  # the step that was cut off is in doubt
            await run.answer((await run.snapshot()).open_questions()[0], "run")
        assert await run.result() == "through"
        times = (await run.snapshot()).times
    assert times.working_ms < 8_000
    assert times.queued_ms >= (900_000 if jump_s == 0 else 0)


async def test_ten_minutes_in_which_its_process_stood_still_are_not_work() -> None:
    world, clock = OutsideWorld(), ManualClock()
    async with runtime_with(clock=clock, agent=worker(world)) as runtime:
        run = await runtime.start("agent", limits=WorkingTime(60), on_exhausted="stop")
        await seen(run, StepStarted)
        clock.advance(9)  # its lease is renewed
        await asyncio.sleep(0)
        await runtime.journal.renew((await claim_of(runtime.journal, run.id)), ttl_s=30)
        clock.advance(600)  # as if by SIGSTOP
        world.go_on.set()
        assert await run.result() == "through"
        times = (await run.snapshot()).times
        assert len(await happened(runtime, run.id, StoodStill)) == 1
    assert times.working_ms == 9_000
    assert times.queued_ms == 600_000


async def claim_of(journal: Journal, run_id: str) -> Lease:
    head = await journal.head(run_id)
    return Lease(run_id, head.holder.owner, head.epoch)


STOPPED_FOR_A_WHILE = """
import asyncio, sys
import pullcord
from pullcord.limits import WorkingTime
from pullcord.runtime.runtime import worker_of

async def wait(n):
    print("working", flush=True)
    await asyncio.to_thread(sys.stdin.readline)
    return n

async def agent(ctx):
    await ctx.step("wait", wait, 1)
    await ctx.step("again", wait, 2)
    return "through"

async def main(path):
    timing = pullcord.Timing(lease_s=0.6)
    async with pullcord.open(path, agents={"agent": agent}, timing=timing) as runtime:
        run = await runtime.start(
            agent, run_id="r1", limits=WorkingTime(2.5), on_exhausted="stop"
        )
        print(await run.result(), flush=True)

asyncio.run(main(sys.argv[1]))
"""


def test_a_process_that_was_really_stopped_for_a_while_is_not_billed_for_it(tmp_path: Path) -> None:
    script, path = tmp_path / "agent.py", tmp_path / "runs.db"
    script.write_text(STOPPED_FOR_A_WHILE)
    child = subprocess.Popen(
        [sys.executable, str(script), str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert child.stdin is not None
        assert child.stdout is not None
        assert child.stdout.readline() == "working\n"
        os.kill(child.pid, signal.SIGSTOP)
        subprocess.run(["sleep", "4"], check=True)  # more than it may work
        os.kill(child.pid, signal.SIGCONT)
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "working\n"
        child.stdin.write("\n")
        child.stdin.flush()
        assert child.stdout.readline() == "through\n"
    finally:
        child.kill()
        child.communicate()

    async def times() -> Any:
        async with Journal.open(path) as journal:
            return (await journal.load("r1")).times

    counted = asyncio.run(times())
    assert counted.queued_ms >= 3000
    assert counted.working_ms < 2500


async def test_limits_are_asked_without_the_time_that_is_nobodys() -> None:
    """The first thing that an owner does after it stood still may be to begin a step."""
    clock = ManualClock()
    async with Journal.open(":memory:", clock=clock) as journal:
        born = Created(agent="a", thread="t", limits=Limits(WorkingTime(60), "stop"))
        await journal.append(Append(run_id="r1", events=[born], expected_seq=0))
        claim = await journal.acquire("r1", owner="w", ttl_s=30)
        assert claim is not None
        clock.advance(600)
        begin = StepStarted(step="s1", name="s")
        [begun] = await journal.append(
            Append(run_id="r1", events=[begin], expected_seq=2, epoch=claim.lease.epoch)
        )
        assert isinstance(begun, Appended)
        assert not begun.is_refused
        assert [type(record.event) for record in await journal.read("r1", after_seq=2)] == [
            StoodStill,
            StepStarted,
        ]
