"""A run that has lost its way is paused before the next thing it does, and says what was seen.
A pause, a crash or another process does not make it forget what it was doing."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pullcord import AgentConfig, Context, RunHandle, RunState
from pullcord.adapters.tools import overtaken
from pullcord.core.events import ChildBorn, PauseRequested, Spent
from pullcord.errors import InvalidInput
from pullcord.guard import Runaway
from pullcord.testing.scripted import Call
from tests.agents.scripted_agents import plain, runtime_of, said_on
from tests.guards.lost import wanderer
from tests.promises.children import child
from tests.runs.observed_runs import PARKING, runtime_with, seen, unowned

READ = Call("read", {"path": "a.txt"})
OTHER = Call("read", {"path": "b.txt"})


async def held(run: RunHandle, *, nth: int = 1) -> str:
    """Wait until a guard has paused it, and return what it said."""
    await seen(run, PauseRequested, nth=nth)
    paused = await run.wait_for(RunState.PAUSED)
    assert paused.pause
    assert (paused.pause.by, paused.pause.source) == ("guard", "guard")
    return paused.pause.reason


@pytest.mark.parametrize(
    ("calls", "times", "says"),
    [
        ([READ], 5, "called read 5 times in a row"),
        ([Call("fails", {"what": "x"})], 5, "called fails 5 times in a row"),
        ([READ, Call("test")], 8, "round in a circle 4 times"),
        ([READ, OTHER, READ, Call("test"), Call("test")], 19, "Nothing new has come of"),
    ],
    ids=["the same call", "the same failure", "a circle", "no news"],
)
async def test_it_is_paused_and_says_what_was_seen(
    calls: list[Call], times: int, says: str
) -> None:
    did: list[str] = []
    async with runtime_of(wanderer(calls, did)) as runtime:
        run = await runtime.start("agent", "go")
        assert says in await held(run)
        assert len(did) == times


async def test_it_goes_on_when_somebody_says_so_and_is_counted_anew() -> None:
    did: list[str] = []
    async with runtime_of(wanderer([READ], did)) as runtime:
        run = await runtime.start("agent", "go")
        await held(run)
        await run.resume(by="ana", reason="it is meant")
        await held(run, nth=2)
        assert len(did) == 10


async def test_what_somebody_says_meanwhile_is_heard_instead() -> None:
    """The call that it was about to make is not made: the agent is told why."""
    did: list[str] = []
    async with runtime_of(wanderer([READ], did)) as runtime:
        run = await runtime.start("agent", "go")
        await held(run)
        await run.resume(by="ana", instruction="read something else")
        await held(run, nth=2)
        assert len(did) == 10
        returns = [text for kind, text in plain(await said_on(runtime, run.id)) if kind == "return"]
        assert returns.count(f"not_started: {overtaken('').why}") == 1


async def test_plans_that_are_changed_back_and_forth_are_held() -> None:
    made: list[str] = []

    async def undecided(ctx: Context) -> None:
        for n in range(100):
            plan = ["rewrite it"] if n % 2 else ["patch it", "test it"]
            made.append(plan[0])
            async for _ in ctx.plan(plan):
                break

    async with runtime_with(agent=undecided) as runtime:
        run = await runtime.start("agent")
        assert "the same 2 plans 4 times" in await held(run)
        assert len(made) == 9  # of the ninth it was only thought


async def test_spending_too_fast_is_held() -> None:
    async def spends(ctx: Context) -> int:
        for n in range(10):
            await ctx.step("buy", asyncio.sleep, 0, n)
            live: Any = ctx._live  # pyright: ignore[reportPrivateUsage]
            await live.record(Spent(cost_usd_micros=2_000_000))
        return 10

    async with runtime_with(agent=spends) as runtime:
        run = await runtime.start("agent")
        assert "spent $6.00 in 3 calls within one minute" in await held(run)
        rich = await runtime.start("agent", runaway=Runaway(usd_per_minute=50))
        assert await rich.result() == 10


async def test_thresholds_are_kept_with_the_run() -> None:
    """Given at its start, or else by its agent; a child has its parent's, if it has none."""
    did: list[str] = []
    mine = AgentConfig(wanderer([READ], did), runaway=Runaway(same_call=2))

    async def parent(ctx: Context) -> Any:
        return await (await ctx.spawn("bare", "go")).result()

    bare = AgentConfig(wanderer([READ], did))
    async with runtime_with(mine=mine, bare=bare, parent=parent) as runtime:
        assert "read 2 times" in await held(await runtime.start("mine", "go"))
        given = await runtime.start("mine", "go", runaway=Runaway(same_call=3))
        assert "read 3 times" in await held(given)
        above = await runtime.start("parent", runaway=Runaway(same_call=4))
        born = await runtime.get((await seen(above, ChildBorn)).child)
        assert "read 4 times" in await held(born)
        assert (await born.snapshot()).runaway == Runaway(same_call=4)
        forked = await (await runtime.get(given.id)).fork(by="ana")
        assert (await forked.snapshot()).runaway == Runaway(same_call=3)
        with pytest.raises(InvalidInput, match="cycles=1"):
            await runtime.start("mine", "go", runaway=Runaway(cycles=1))
    with pytest.raises(InvalidInput, match="cycles=1"):
        AgentConfig(parent, runaway=Runaway(cycles=1))


async def test_the_awaited_children_of_a_run_are_held_with_it() -> None:
    begun = asyncio.Event()

    async def stands() -> None:
        begun.set()
        await asyncio.Event().wait()

    async def busy(ctx: Context) -> None:
        await ctx.step("stand", stands, effect="none")

    async def look() -> str:
        return "nothing"

    async def parent(ctx: Context) -> None:
        await ctx.spawn("busy")
        await begun.wait()
        while True:
            await ctx.tool(look)

    async with runtime_with(parent=AgentConfig(parent, runaway=Runaway()), busy=busy) as runtime:
        run = await runtime.start("parent")
        assert "look 5 times" in await held(run)
        [name] = (await run.snapshot()).children
        below = (await (await runtime.get(name)).snapshot()).pause
        assert below
        assert (below.by, below.source) == ("guard", "parent")
        await run.cancel(by="ana")
        await run.receipt()


async def test_a_parked_run_goes_on_and_is_counted_anew(tmp_path: Path) -> None:
    did: list[str] = []
    path = tmp_path / "runs.db"
    async with runtime_of(wanderer([READ], did), path, timing=PARKING) as runtime:
        run = await runtime.start("agent", "go", run_id="r1")
        await held(run)
        await unowned(runtime, run)
    async with runtime_of(wanderer([READ], did), path) as runtime:
        run = await runtime.get("r1")
        await run.resume(by="ana")
        await held(run, nth=2)
        assert len(did) == 10


async def test_what_a_killed_process_had_done_is_counted(tmp_path: Path) -> None:
    """Three calls before `kill -9`, two more after it."""
    path = tmp_path / "runs.db"
    async with child("tests.guards.killed", str(path), "3") as owner:
        assert await owner.says() == "called 3 times"
        await owner.kill()
    did: list[str] = []
    async with runtime_of(wanderer([READ], did), path) as runtime:
        run = await runtime.get("r1")
        assert "read 5 times" in await held(run)
        assert len(did) == 2
