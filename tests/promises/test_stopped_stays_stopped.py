"""Promise: after a cancel nothing revives a run. Not a child that ends late, not a timer, not a
retry, not an answer, not a restart: no step begins."""

import asyncio
from contextlib import aclosing
from pathlib import Path

import pytest

import pullcord
from pullcord import Context, Retry, RunHandle, RunState, Runtime, Timing
from pullcord.core.events import (
    ChildEnded,
    Event,
    LateResult,
    QuestionAsked,
    Record,
    StepFailed,
    StepStarted,
)
from pullcord.testing import ManualClock

HASTY = Timing(stop_grace_s=0.05)


class Work:
    """Counts what was done, and holds what ignores being cancelled until the test lets it go."""

    def __init__(self) -> None:
        self.done: list[str] = []
        self.begun = asyncio.Event()
        self.let_go = asyncio.Event()

    async def do(self, what: str) -> str:
        self.done.append(what)
        return what

    async def fails(self) -> None:
        self.done.append("tried")
        raise ConnectionError("down")

    async def stubborn(self) -> str:
        self.done.append("stubborn")
        self.begun.set()
        while not self.let_go.is_set():
            try:
                await self.let_go.wait()
            except asyncio.CancelledError:
                continue
        return "late"

    # --- agents ---

    async def sleeper(self, ctx: Context) -> None:
        await ctx.sleep(60)
        await ctx.step("after the tick", self.do, "woke")

    async def retrier(self, ctx: Context) -> None:
        again = Retry(attempts=5, wait_s=60)
        await ctx.step("call", self.fails, effect="none", retry=again)

    async def parent(self, ctx: Context) -> None:
        await (await ctx.spawn("child")).result()
        await ctx.step("after the child", self.do, "went on")

    async def child(self, ctx: Context) -> str:
        return await ctx.step("stubborn", self.stubborn)

    async def asker(self, ctx: Context) -> None:
        await ctx.ask("go on?")
        await ctx.step("after the answer", self.do, "went on")

    def agents(self) -> dict[str, pullcord.AgentConfig]:
        named = (self.sleeper, self.retrier, self.parent, self.child, self.asker)
        return {agent.__name__: pullcord.AgentConfig(agent) for agent in named}


async def steps_of(runtime: Runtime, run: RunHandle) -> int:
    records = await runtime.journal.read(run.id)
    return sum(isinstance(record.event, StepStarted) for record in records)


async def seen(runtime: Runtime, run_id: str, *kinds: type[Event]) -> None:
    """Wait until something of this kind has happened to the run."""
    async with aclosing(runtime.journal.changes.subscribe(run_id)) as stream:
        async for _, item in stream:
            if isinstance(item, Record) and isinstance(item.event, kinds):
                return


async def ended(run: RunHandle) -> None:
    await run.wait_for(RunState.CANCELLED)


@pytest.mark.parametrize("agent", ["sleeper", "asker", "retrier"])
async def test_no_tick_answer_or_retry_revives_it_nor_does_a_restart(
    tmp_path: Path, agent: str
) -> None:
    work, clock = Work(), ManualClock()
    path = tmp_path / "runs.db"
    async with pullcord.open(path, agents=work.agents(), clock=clock, timing=HASTY) as runtime:
        run = await runtime.start(agent)
        await seen(runtime, run.id, StepFailed, QuestionAsked)
        before = await steps_of(runtime, run)
        await run.cancel(by="ana")
        await ended(run)
        for name in (await run.snapshot()).questions:
            assert (await run.answer(name, "yes", by="bo")).verdict == "too_late"
        clock.advance(3600)
        assert await steps_of(runtime, run) == before
    async with pullcord.open(path, agents=work.agents(), clock=clock) as again:
        clock.advance(3600)
        other = await again.start("child")  # somebody to go on for
        await work.begun.wait()
        assert await steps_of(again, run) == before
        assert (await run_of(again, run)).state is RunState.CANCELLED
        work.let_go.set()
        await other.result()
    assert "woke" not in work.done
    assert "went on" not in work.done


async def run_of(runtime: Runtime, run: RunHandle) -> pullcord.Run:
    return await (await runtime.get(run.id)).snapshot()


async def test_a_child_that_ends_late_is_evidence_and_wakes_nobody() -> None:
    work = Work()
    async with pullcord.open(":memory:", agents=work.agents(), timing=HASTY) as runtime:
        run = await runtime.start("parent")
        await work.begun.wait()
        [child] = (await run.snapshot()).children
        await run.cancel(by="ana")
        await ended(run)
        at_the_end = (await run.snapshot()).seq
        work.let_go.set()
        kid = await runtime.get(child)
        await seen(runtime, child, LateResult)
        assert (await kid.snapshot()).state is RunState.CANCELLED
        assert (await run.snapshot()).seq == at_the_end
        ends = [r.event for r in await runtime.journal.read(run.id)]
        assert [e.state for e in ends if isinstance(e, ChildEnded)] == ["cancelled"]
    assert work.done == ["stubborn"]
