"""However many runs work for one another in one line, all of them are stopped at once. (A6.)

Nothing in the program goes through a family by calling itself: two thousand runs are more than the
interpreter's stack has room for.
"""

import time
from typing import Any, Final

import pytest

from pullcord import Context, Runtime
from pullcord.core.commands import Cancel, Pause, Resume
from pullcord.core.events import Blocked, ChildBorn, Claimed, Created, Event
from pullcord.core.receipts import receipt
from pullcord.errors import FamilyTooDeep
from pullcord.journal.families import finding, living
from pullcord.journal.journal import Journal
from pullcord.journal.leases import NOBODY
from pullcord.journal.ledger import DEPTH_MAX, Append, Ledger
from pullcord.journal.memory import MemoryStore
from pullcord.journal.retention import Wanted
from pullcord.limits import MaxSteps
from tests.runs.stage import S, stage

DEEP: Final = 2_000


def deep_family(store: MemoryStore, depth: int) -> list[str]:
    """So many runs, each waiting for the next, and driven by nobody. Written as they are: claiming
    each of them would ask all those above it what they have left."""
    runs = [f"r{number}" for number in range(depth)]
    ledger = Ledger(store.clock)

    def work(tx: Any) -> None:
        for number, run in enumerate(runs):
            above = runs[number - 1] if number else None
            created = Created(agent="agent", thread="t", parent=above, depth=number)
            change = Append(run_id=run, events=[created], expected_seq=0)
            head = ledger._newborn(tx, change)  # pyright: ignore[reportPrivateUsage]
            events: list[Event] = [created]
            if number + 1 < depth:
                born = ChildBorn(child=runs[number + 1])
                events += [Claimed(owner="nobody", epoch=1), born, Blocked(seen_seq=2)]
            ledger._extend(tx, head, events, epoch=1, holder=NOBODY)  # pyright: ignore[reportPrivateUsage]

    store.write(work)
    return runs


async def states(journal: Journal, runs: list[str]) -> set[str]:
    return {(await journal.head(run)).state for run in runs}


async def test_two_thousand_deep_with_nobody_driving() -> None:
    store = MemoryStore()
    async with Journal(store) as journal:
        runs = deep_family(store, DEEP)
        assert (await journal.used(runs[0])).steps == DEEP - 1
        await journal.command(runs[0], Pause(by="ana"))
        assert await states(journal, runs) == {S.PAUSED}
        await journal.command(runs[0], Resume(by="ana"))
        assert await states(journal, runs) == {S.QUEUED}
        panel = await journal.for_people(lambda look: look.panel(runs[0]))
        assert panel.state is S.QUEUED
        root = await journal.load(runs[0])
        assert len(store.read(lambda view: list(living(root, finding(view))))) == DEEP - 1
        began = time.perf_counter()
        ack = await journal.command(runs[0], Cancel(by="ana"))
        took_s = time.perf_counter() - began
        assert (ack.verdict, ack.state) == ("applied", S.CANCELLED)
        assert await states(journal, runs) == {S.CANCELLED}
        family = await journal.members(runs[0])
        assert len(family) == DEEP - 1
        assert receipt(await journal.load(runs[0]), family=family).done == ()
        assert len(await journal.forgettable(Wanted(runs=(runs[0],)))) == DEEP
    print(f"cancel at depth {DEEP:,}: {took_s:.2f} s")


async def test_a_family_that_is_being_driven() -> None:
    deep = 40

    async def agent(ctx: Context, left: int) -> Any:
        if left:
            return await (await ctx.spawn("agent", left - 1)).result()
        return await ctx.ask("Go on?")

    async with stage(agent=agent) as runtime:
        run = await runtime.start("agent", deep, limits=MaxSteps(5 * deep))
        runs = [run.id]
        while len(runs) <= deep:
            known = await (await runtime.get(runs[-1])).look()
            if known.children:
                runs += known.children
            else:
                await (await runtime.get(runs[-1])).reached(S.WAITING)
        await run.cancel()
        await run.reached(S.CANCELLED)
        assert await states(runtime.journal, runs) == {S.CANCELLED}


async def test_there_is_an_end_to_it() -> None:
    async def agent(ctx: Context) -> None:
        ctx.driver.run.depth = DEPTH_MAX  # as if it were so deep already
        with pytest.raises(FamilyTooDeep, match="Nothing was started"):
            await ctx.spawn("agent")
        await ctx.spawn("other", detached=True)

    async def other(_: Context) -> None: ...

    async with stage(agent=agent, other=other) as runtime:
        run = await runtime.start("agent")
        await run.result()
        assert len(await children_of(runtime, run.id)) == 1


async def children_of(runtime: Runtime, run_id: str) -> list[str]:
    return list((await runtime.journal.load(run_id)).children)
