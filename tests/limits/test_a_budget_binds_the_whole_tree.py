"""Promise: a budget binds a run and everybody who works for it, whatever happens to them."""

import asyncio
import random
import signal
import sys
from collections.abc import Awaitable, Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent as PydanticAgent
from pydantic_ai.exceptions import ModelHTTPError

import pullcord
from pullcord import Context, RunCancelled, RunHandle, RunState, Runtime
from pullcord.agents.pydantic_ai import subagent
from pullcord.core.events import ChildBorn, ChildEnded, StepStarted
from pullcord.core.events import Spent as SpentEvent
from pullcord.core.limits import Reserve
from pullcord.errors import RunFailed, RunStopped, StepError
from pullcord.limits import MaxSteps, MaxToolCalls, Price, Spent, Tokens
from pullcord.testing.scripted import Call, Delay, Fail, Say, ScriptedModel
from tests.runs.observed_runs import (
    HASTY,
    OutsideWorld,
    children,
    happened,
    question,
    runtime_with,
    seen,
)
from tests.storage.campaign import FULL, fresh_seed

CALL_USD = 0.10
PRICE = Price(per_million_in=1000, per_million_out=1000)


async def kid(ctx: Context, given: Any) -> None:
    """Works for ever, at ten cents a time."""
    while True:
        await ctx.step("work", OutsideWorld().do, given)
        await ctx.spent(usd=CALL_USD)


async def lead(ctx: Context) -> str:
    kids = [await ctx.spawn("kid", number, key=str(number)) for number in range(10)]
    await asyncio.gather(*(one.result() for one in kids), return_exceptions=True)
    return "through"


async def spent_by(runtime: Runtime, *runs: RunHandle) -> float:
    """All that is in the journals, counted by hand."""
    micros = 0
    for run in runs:
        for spent in await happened(runtime, run.id, SpentEvent):
            micros += spent.cost_usd_micros or 0
    return micros / 1e6


@pytest.mark.parametrize("then", ["stop", "pause_and_ask"])
async def test_ten_children_share_one_cap(then: Any) -> None:
    async with runtime_with(lead=lead, kid=kid) as runtime:
        run = await runtime.start("lead", limits=Spent(usd=2), on_exhausted=then)
        ended = await run.wait_for(RunState.STOPPED, RunState.PAUSED)
        kids = await children(runtime, run)
        for one in kids:
            await one.wait_for(RunState.CANCELLED, RunState.PAUSED)
        spent = await spent_by(runtime, run, *kids)
        assert 2.0 <= spent <= 2.0 + 10 * CALL_USD
        assert round((await run.used()).usd_micros / 1e6, 6) == round(spent, 6)
        assert ended.state is (RunState.STOPPED if then == "stop" else RunState.PAUSED)
        if then == "pause_and_ask":
            assert (await run.raise_limits({"usd": 3}, by="ana")).holds
            await run.wait_for(RunState.RUNNING, RunState.WAITING, RunState.QUEUED)
            await run.wait_for(RunState.PAUSED)
            for one in kids:
                await one.wait_for(RunState.PAUSED)
            assert 3.0 <= await spent_by(runtime, run, *kids) <= 3.0 + 10 * CALL_USD
            await run.cancel()
            await run.wait_for(RunState.CANCELLED)


async def test_ten_language_models_at_once_reserve_before_they_spend(tmp_path: Path) -> None:
    """What is set aside for calls under way is not given out twice: nobody begins on credit."""
    numbers = count()  # so that nobody is held for doing the same again and again

    def answer(_: object) -> list[Any]:
        return [Say("word " * 40), Delay(0.1), Call("note", {"n": next(numbers)})]

    helper_model = ScriptedModel(answer)
    helper: PydanticAgent[None, str] = PydanticAgent(
        helper_model, name="helper", model_settings={"max_tokens": 100}
    )

    @helper.tool_plain
    async def note(n: int) -> str:  # pyright: ignore[reportUnusedFunction]
        return f"noted {n}"

    calls: list[Any] = [Call("helper", {"prompt": f"part {n}"}, id=f"c{n}") for n in range(10)]
    agent: PydanticAgent[None, str] = PydanticAgent(
        ScriptedModel([calls, "done"]), name="agent", tools=[subagent(helper)]
    )
    limits = Spent(usd=3, price=PRICE)
    async with runtime_with(tmp_path / "runs.db", agent=agent, helper=helper) as runtime:
        run = await runtime.start("agent", "go", limits=limits, on_exhausted="stop")
        await run.wait_for(RunState.STOPPED)
        kids = await children(runtime, run)
        assert len(kids) > 3
        starts = [
            event.reserve
            for one in (run, *kids)
            for event in await happened(runtime, one.id, StepStarted)
            if event.model
        ]
        assert all(isinstance(kept, Reserve) and kept.usd_micros > 0 for kept in starts)
        largest = max(kept.usd_micros for kept in starts if kept) / 1e6
        spent = await spent_by(runtime, run, *kids)
        assert 3.0 <= spent <= 3.0 + largest  # one call over, not ten


async def test_a_call_waits_for_what_is_set_aside_and_then_has_it() -> None:
    """Two at once, and room for one: the second waits, and begins when the first was cheap."""
    first = ScriptedModel([[Delay(None)]])
    second = ScriptedModel(["I could."])
    one: PydanticAgent[None, str] = PydanticAgent(
        first, name="one", model_settings={"max_tokens": 900}
    )
    two: PydanticAgent[None, str] = PydanticAgent(
        second, name="two", model_settings={"max_tokens": 900}
    )

    async def agent(ctx: Context) -> str:
        slow = await ctx.spawn("one", "slowly")
        await first.stalled.wait()
        quick = await ctx.spawn("two", "quickly")
        result = await quick.result()
        with pytest.raises(RunCancelled):
            await slow.result()
        return result

    async with runtime_with(agent=agent, one=one, two=two) as runtime:
        run = await runtime.start("agent", limits=Tokens(800), on_exhausted="stop")
        await seen(run, ChildBorn, nth=2)
        kids = await children(runtime, run)
        await asyncio.sleep(0.15)  # it has had the time to be refused
        assert second.requests == []
        await kids[0].cancel()
        assert await run.result() == "I could."


async def test_what_a_child_used_is_still_used_when_it_has_ended() -> None:
    async def small(ctx: Context) -> None:
        await ctx.step("work", OutsideWorld().do, 1)
        await ctx.spent(usd=0.30, tokens_in=10)

    async def agent(ctx: Context) -> int:
        for number in range(10):
            await (await ctx.spawn("small", key=str(number))).result()
        return 10

    async with runtime_with(agent=agent, small=small) as runtime:
        run = await runtime.start("agent", limits=Spent(usd=1), on_exhausted="stop")
        await run.wait_for(RunState.STOPPED)
        ended = await happened(runtime, run.id, ChildEnded)
        assert len(ended) == 4
        assert (await run.used()).usd_micros == 1_200_000
        assert (await run.used()).steps == 8  # four children, and the step of each


async def test_a_detached_child_is_on_its_own() -> None:
    async def agent(ctx: Context) -> str:
        await ctx.spawn("kid", 1, detached=True)
        return "through"

    async with runtime_with(agent=agent, kid=kid) as runtime:
        run = await runtime.start("agent", limits=MaxSteps(3), on_exhausted="stop")
        assert await run.result() == "through"
        [alone] = await children(runtime, run)
        await alone.wait_for(RunState.PAUSED)  # by the limits that every run has
        assert (await run.used()).steps == 1


async def test_a_child_may_have_less_but_never_more() -> None:
    async def agent(ctx: Context) -> str:
        tight = await ctx.spawn("kid", 1, key="a", limits=MaxSteps(2), on_exhausted="stop")
        with pytest.raises(RunStopped):
            await tight.result()
        await (await ctx.spawn("kid", 2, key="b", limits=MaxSteps(1000))).result()
        return "never"

    async with runtime_with(agent=agent, kid=kid) as runtime:
        run = await runtime.start("agent", limits=MaxSteps(9), on_exhausted="stop")
        await run.wait_for(RunState.STOPPED)
        assert (await run.used()).steps == 9


async def test_spawning_for_ever_is_counted_too() -> None:
    async def nothing(_ctx: Context) -> None:
        return None

    async def agent(ctx: Context) -> None:
        number = 0
        while True:
            number += 1
            await (await ctx.spawn("nothing", key=str(number))).result()

    async with runtime_with(agent=agent, nothing=nothing) as runtime:
        run = await runtime.start("agent", limits=MaxSteps(5), on_exhausted="stop")
        ended = await run.wait_for(RunState.STOPPED)
        assert len(ended.children) == 5


DIES = """
import asyncio, os, signal, sys
import pullcord
from pydantic_ai import Agent
from pullcord.limits import Price, Spent
from pullcord.testing.scripted import Delay, Say, ScriptedModel

async def main(path):
    model = ScriptedModel([[Say("thinking"), Delay(None)]])
    agent = Agent(model, name="agent")
    async with pullcord.open(path, agents={"agent": agent}) as runtime:
        limits = Spent(usd=50, price=Price(1000, 1000))
        await runtime.start(agent, "go", run_id="r1", limits=limits)
        await model.stalled.wait()
        os.kill(os.getpid(), signal.SIGKILL)

asyncio.run(main(sys.argv[1]))
"""


async def test_a_model_call_that_died_with_its_process_is_counted_as_what_was_set_aside(
    tmp_path: Path,
) -> None:
    died = await asyncio.create_subprocess_exec(
        sys.executable, "-c", DIES, tmp_path / "runs.db", env={"PYTHONPATH": ":".join(sys.path)}
    )
    assert await died.wait() == -signal.SIGKILL
    agent: PydanticAgent[None, str] = PydanticAgent(ScriptedModel(["Again."]), name="agent")
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.get("r1")
        assert await run.result() == "Again."
        [begun, *_] = await happened(runtime, "r1", StepStarted)
        [lost, *_] = await happened(runtime, "r1", SpentEvent)
        assert begun.reserve is not None
        assert lost.estimated
        assert lost.cost_usd_micros == begun.reserve.usd_micros > 0


# --- whatever happens to them ---


class Ledgered:
    """A world that bills: every call that really began costs, whether anybody hears of it."""

    def __init__(self) -> None:
        self.begun = 0

    async def call(self, n: int) -> int:
        self.begun += 1
        await asyncio.sleep(0)
        if n % 7 == 3:
            raise ValueError("flaky")
        return n


def family(bill: Ledgered) -> dict[str, Any]:
    async def worker(ctx: Context, given: Any) -> int:
        done = 0
        for number in range(given):
            try:
                await ctx.tool(charge, n=number)
                done += 1
            except StepError:
                continue
        return done

    @pullcord.tool(effect="idempotent", retry=pullcord.Retry(attempts=3, wait_s=0.001))
    async def charge(n: int) -> int:
        return await bill.call(n)

    async def boss(ctx: Context, given: Any) -> None:
        while True:
            kids = [await ctx.spawn("worker", given) for _ in range(3)]
            for one in kids:
                try:
                    await one.result()
                except (RunCancelled, RunFailed, RunStopped):
                    continue

    return {"boss": boss, "worker": worker}


async def _cancel_a_child(runtime: Runtime, run: RunHandle, rng: random.Random) -> RunHandle:
    for one in await children(runtime, run):
        if not (await one.snapshot()).ended and rng.random() < 0.5:
            await one.cancel(by="ana")
    return run


async def _pause_and_resume(_runtime: Runtime, run: RunHandle, _rng: random.Random) -> RunHandle:
    await run.pause(by="ana")
    await run.resume(by="ana")
    return run


async def _fork(_runtime: Runtime, run: RunHandle, _rng: random.Random) -> RunHandle:
    await run.cancel(by="ana")
    await run.wait_for(RunState.CANCELLED, RunState.STOPPED)
    return await run.fork(by="ana")


Trick = Callable[[Runtime, RunHandle, random.Random], Awaitable[RunHandle]]
TRICKS: tuple[Trick, ...] = (_cancel_a_child, _pause_and_resume, _fork)


async def bypassed(path: Path, seed: int) -> None:
    rng = random.Random(seed)
    cap, bill = rng.randrange(5, 60), Ledgered()
    agents, limits = family(bill), MaxToolCalls(cap)
    run_id = ""
    for life in range(rng.randrange(1, 4)):
        async with runtime_with(path, timing=HASTY, **agents) as runtime:
            if life == 0:
                start = runtime.start("boss", 9, limits=limits, on_exhausted="stop")
                run_id = (await start).id
            run = await runtime.get(run_id)
            for _ in range(rng.randrange(0, 4)):
                for _ in range(rng.randrange(0, 30)):
                    await asyncio.sleep(0)
                run = await rng.choice(TRICKS)(runtime, run, rng)
            run_id = run.id
    async with runtime_with(path, **agents) as runtime:
        run = await runtime.get(run_id)
        await run.wait_for(RunState.STOPPED)
        assert (await run.used()).tool_calls == cap
    assert bill.begun <= cap


@pytest.mark.campaign
async def test_no_cancel_retry_fork_or_restart_gets_around_it(tmp_path: Path) -> None:
    first = fresh_seed() if FULL else 11
    for seed in range(first, first + (300 if FULL else 6)):
        await bypassed(tmp_path / f"{seed}.db", seed)


async def test_a_failing_provider_is_counted_at_every_attempt() -> None:
    def busy() -> Any:
        return [Fail(ModelHTTPError(503, "scripted"))]

    model = ScriptedModel([busy(), busy(), "never asked"])
    agent: PydanticAgent[None, str] = PydanticAgent(model, name="agent")
    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent", "go", limits=MaxSteps(2), on_exhausted="stop")
        await run.wait_for(RunState.STOPPED)
        assert len(model.requests) == 2


# --- a fork of a child ---


async def busy(ctx: Context, given: Any) -> None:
    """Fifty steps, and a question after the third."""
    for number in range(50):
        await ctx.step("work", OutsideWorld().do, number)
        if number == 2 and given == "asks":
            await ctx.ask("Go on?")


async def under_a_cap(runtime: Runtime, cap: Any, **how: Any) -> tuple[RunHandle, RunHandle]:
    """A run with a cap, and its child, which has done three steps and asks."""
    run = await runtime.start("boss", how, limits=cap, on_exhausted="stop")
    await seen(run, ChildBorn)
    [child] = await children(runtime, run)
    await question(child)
    return run, child


async def boss(ctx: Context, how: Any) -> None:
    given: Any = {name: MaxSteps(value) for name, value in how.items()}
    await (await ctx.spawn("busy", "asks", on_exhausted="stop" if how else None, **given)).result()


async def test_a_fork_of_a_child_has_what_its_family_has_left() -> None:
    """Finding A9."""
    async with runtime_with(boss=boss, busy=busy) as runtime:
        _, child = await under_a_cap(runtime, MaxSteps(6))
        fork = await child.fork()
        await fork.answer(await question(fork))
        ended = await fork.wait_for(RunState.STOPPED)
        assert ended.reached
        assert ended.reached.leaves == ("MaxSteps(6)",)
        assert len(await happened(runtime, fork.id, StepStarted)) == 2  # of six: a spawn, three


async def test_of_several_caps_above_it_the_one_with_least_left_binds_the_fork() -> None:
    async with runtime_with(boss=boss, busy=busy) as runtime:
        _, child = await under_a_cap(runtime, MaxSteps(9), limits=40)
        fork = await child.fork()
        await fork.answer(await question(fork))
        await fork.wait_for(RunState.STOPPED)
        assert len(await happened(runtime, fork.id, StepStarted)) == 5
        _, child = await under_a_cap(runtime, MaxSteps(40), limits=8)
        fork = await child.fork()
        await fork.answer(await question(fork))
        await fork.wait_for(RunState.STOPPED)
        assert len(await happened(runtime, fork.id, StepStarted)) == 5
