"""However many runs work for one another in one line, all of them are stopped at once. (A6.)

Nothing in the program goes through a family by calling itself: two thousand runs are more than the
interpreter's stack has room for.
"""

import time
from typing import Any, Final

import pytest

from pullcord import Context, RunState, Runtime
from pullcord.core.commands import Cancel, Pause, Resume
from pullcord.core.receipts import receipt
from pullcord.errors import FamilyTooDeep
from pullcord.journal.journal import Journal
from pullcord.journal.memory_store import MemoryStore
from pullcord.journal.rules.ledger import DEPTH_MAX
from pullcord.journal.stored_runs.families import finding, living
from pullcord.journal.stored_runs.retention import Wanted
from pullcord.limits import MaxSteps
from tests.promises.deep_families import deep_family
from tests.runs.observed_runs import runtime_with

DEEP: Final = 2_000


async def states(journal: Journal, runs: list[str]) -> set[str]:
    return {(await journal.head(run)).state for run in runs}


async def test_two_thousand_deep_with_nobody_driving() -> None:
    store = MemoryStore()
    async with Journal(store) as journal:
        runs = deep_family(store, DEEP)
        assert (await journal.families.used(runs[0])).steps == DEEP - 1
        await journal.command(runs[0], Pause(by="ana"))
        assert await states(journal, runs) == {RunState.PAUSED}
        await journal.command(runs[0], Resume(by="ana"))
        assert await states(journal, runs) == {RunState.QUEUED}
        panel = await journal.for_people(lambda look: look.panel(runs[0]))
        assert panel.state is RunState.QUEUED
        root = await journal.load(runs[0])
        assert len(store.read(lambda view: list(living(root, finding(view))))) == DEEP - 1
        began = time.perf_counter()
        ack = await journal.command(runs[0], Cancel(by="ana"))
        took_s = time.perf_counter() - began
        assert (ack.verdict, ack.state) == ("applied", RunState.CANCELLED)
        assert await states(journal, runs) == {RunState.CANCELLED}
        family = await journal.families.members(runs[0])
        assert len(family) == DEEP - 1
        assert receipt(await journal.load(runs[0]), family=family).done == ()
        assert len(await journal.retention.forgettable(Wanted(runs=(runs[0],)))) == DEEP
    print(f"cancel at depth {DEEP:,}: {took_s:.2f} s")


async def test_a_family_that_is_being_driven() -> None:
    deep = 40

    async def agent(ctx: Context, left: int) -> Any:
        if left:
            return await (await ctx.spawn("agent", left - 1)).result()
        return await ctx.ask("Go on?")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent", deep, limits=MaxSteps(5 * deep))
        runs = [run.id]
        while len(runs) <= deep:
            known = await (await runtime.get(runs[-1])).snapshot()
            if known.children:
                runs += known.children
            else:
                await (await runtime.get(runs[-1])).wait_for(RunState.WAITING)
        await run.cancel()
        await run.wait_for(RunState.CANCELLED)
        assert await states(runtime.journal, runs) == {RunState.CANCELLED}


async def test_there_is_an_end_to_it() -> None:
    async def agent(ctx: Context) -> None:
        ctx.live.run.depth = DEPTH_MAX  # as if it were so deep already
        with pytest.raises(FamilyTooDeep, match="Nothing was started"):
            await ctx.spawn("agent")
        await ctx.spawn("other", detached=True)

    async def other(_: Context) -> None: ...

    async with runtime_with(agent=agent, other=other) as runtime:
        run = await runtime.start("agent")
        await run.result()
        assert len(await children_of(runtime, run.id)) == 1


async def children_of(runtime: Runtime, run_id: str) -> list[str]:
    return list((await runtime.journal.load(run_id)).children)
