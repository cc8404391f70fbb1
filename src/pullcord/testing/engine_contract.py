"""The contract of every engine, as checks that you can run over your own.

    CONTRACT: run each check over your engine:  await check(make_engine, folder)

`make_engine()` returns an engine for one more process of the same deployment.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeAlias

import pullcord
from pullcord.engines import Engine
from pullcord.events import Cancelled, Claimed

Make: TypeAlias = Callable[[], Engine]
Check: TypeAlias = Callable[[Make, Path], Awaitable[None]]
CONTRACT: Final[list[Check]] = []
_S = pullcord.RunState


def _kept(check: Check) -> Check:
    CONTRACT.append(check)
    return check


async def _asks(ctx: pullcord.Context) -> str:
    return await ctx.ask("go on?")


async def _claims(run: pullcord.RunHandle) -> int:
    """Return how often a process has claimed the run."""
    found = 0
    async for _, item in run.events():
        if isinstance(item, pullcord.Record):
            found += isinstance(item.event, Claimed)
            if item.seq == (await run.snapshot()).seq:
                return found
    return found


@_kept
async def a_started_run_is_driven(make: Make, folder: Path) -> None:
    """Many at once too, and each does its work once."""
    did: list[int] = []

    async def work(n: int) -> None:
        did.append(n)

    async def agent(ctx: pullcord.Context, n: int) -> int:
        await ctx.step("work", work, n)
        return n

    async with pullcord.open(folder / "runs.db", agents={"agent": agent}, engine=make()) as runtime:
        runs = [await runtime.start("agent", n) for n in range(20)]
        assert [await run.result() for run in runs] == list(range(20))
        assert sorted(did) == list(range(20))


@_kept
async def a_run_that_is_answered_goes_on(make: Make, folder: Path) -> None:
    """The driver may have parked it meanwhile."""
    async with pullcord.open(
        folder / "runs.db",
        agents={"asks": _asks},
        engine=make(),
        timing=pullcord.Timing(park_after_s=0),
    ) as runtime:
        run = await runtime.start("asks")
        waiting = await run.wait_for(_S.WAITING)
        await run.answer(waiting.open_questions()[0], "yes", by="ana")
        assert await run.result() == "yes"


@_kept
async def a_run_that_is_resumed_goes_on_in_another_process(make: Make, folder: Path) -> None:
    path, agents = folder / "runs.db", {"asks": _asks}
    async with pullcord.open(path, agents=agents, engine=make()) as runtime:
        run = await runtime.start("asks", run_id="r1")
        await run.wait_for(_S.WAITING)
        await run.pause(by="ana")
        await run.wait_for(_S.PAUSED)
    async with pullcord.open(path, agents=agents, engine=make()) as runtime:
        run = await runtime.get("r1")
        await run.resume(by="ana")
        waiting = await run.wait_for(_S.WAITING)
        await run.answer(waiting.open_questions()[0], "yes", by="ana")
        assert await run.result() == "yes"


@_kept
async def two_processes_never_own_one_run(make: Make, folder: Path) -> None:
    """Even if engines bring it to both, several times."""
    path, begun, go_on = folder / "runs.db", asyncio.Event(), asyncio.Event()
    did: list[str] = []

    async def work() -> None:
        did.append("begun")
        begun.set()
        await go_on.wait()

    async def agent(ctx: pullcord.Context) -> None:
        await ctx.step("work", work)

    engines = make(), make()
    async with (
        pullcord.open(path, agents={"agent": agent}, engine=engines[0]) as one,
        pullcord.open(path, agents={"agent": agent}, engine=engines[1]),
    ):
        run = await one.start("agent")
        await begun.wait()
        for engine in engines:
            await engine.wake(run.id)
        go_on.set()
        await run.result()
        assert did == ["begun"]
        assert await _claims(run) == 1


@_kept
async def a_runtime_that_closes_gives_its_runs_to_others(make: Make, folder: Path) -> None:
    """A delivery that an engine cancels does not cancel its run."""
    path, agents = folder / "runs.db", {"asks": _asks}
    async with pullcord.open(path, agents=agents, engine=make()) as first:
        run = await first.start("asks", run_id="r1")
        waiting = await run.wait_for(_S.WAITING)
    async with pullcord.open(path, agents=agents, engine=make()) as second:
        run = await second.get("r1")
        await run.answer(waiting.open_questions()[0], "yes", by="ana")
        assert await run.result() == "yes"
        events = [r.event for r in await second.journal.read("r1")]
        assert not any(isinstance(event, Cancelled) for event in events)
