"""One run, or one failed write, that housekeeping cannot deal with does not stop it for others."""

import asyncio
from pathlib import Path
from typing import Any

import apsw
import pytest

import pullcord
from pullcord import Ack, Context, RunHandle, RunState, Timing
from pullcord.core.events import Created, QuestionAsked, StepStarted
from pullcord.errors import InvalidInput, StorageFailed
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Lease
from pullcord.testing import ManualClock
from tests.runs.observed_runs import (
    PARKING,
    UNHURRIED,
    OutsideWorld,
    children,
    question,
    runtime_with,
    seen,
    unowned,
)


async def sleeper(ctx: Context) -> str:
    await ctx.sleep(100)
    return "slept"


async def quick(ctx: Context) -> str:
    return "done"


def damage(path: Path, run_pattern: str) -> None:
    """Change what these runs' first record says, behind the journal's back."""
    store = apsw.Connection(str(path))
    store.execute(
        "UPDATE records SET payload = CAST(replace(payload, 'created', 'createx') AS BLOB) "
        "WHERE seq = 1 AND run IN (SELECT num FROM runs WHERE run_id GLOB ?)",
        (run_pattern,),
    )
    store.execute("DELETE FROM snapshots")
    store.close()


# --- leases and timers ---


async def test_one_renewal_that_fails_is_not_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    world, clock = OutsideWorld(), ManualClock()
    tried: list[Lease] = []

    async def agent(ctx: Context) -> Any:
        return await ctx.step("work", world.slow, "worked")

    async with runtime_with(clock=clock, timing=Timing(lease_s=30), agent=agent) as runtime:
        renew = runtime.journal.renew

        async def fails_once(lease: Lease, *, ttl_s: float) -> None:
            tried.append(lease)
            if len(tried) == 1:
                raise StorageFailed("Writing", path="r", why="disk full", instead="Wait.")
            await renew(lease, ttl_s=ttl_s)
            world.noticed.set()

        monkeypatch.setattr(runtime.journal, "renew", fails_once)
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        clock.advance(11)
        while not tried:  # noqa: ASYNC110 (nothing tells)
            await asyncio.sleep(0.001)
        first = (await runtime.journal.head(run.id)).holder.until_s
        while not world.noticed.is_set():
            clock.advance(1)  # the next one is due soon, whenever it was set
            await asyncio.sleep(0.001)
        assert (await runtime.journal.head(run.id)).holder.until_s > first
        world.go_on.set()
        assert await run.result() == "worked"


@pytest.mark.parametrize("damaged", [1, 60])
async def test_damaged_runs_do_not_stop_the_timers_of_others(tmp_path: Path, damaged: int) -> None:
    clock = ManualClock()
    async with runtime_with(tmp_path / "runs.db", clock=clock, agent=sleeper) as runtime:
        for number in range(damaged):
            await question(await runtime.start("agent", run_id=f"damaged{number}"))
        clock.advance(1)
        await question(await runtime.start("agent", run_id="healthy"))
    damage(tmp_path / "runs.db", "damaged*")
    clock.advance(200)
    async with runtime_with(tmp_path / "runs.db", clock=clock, agent=sleeper) as runtime:
        assert await (await runtime.get("healthy")).result() == "slept"


async def test_sixty_runs_that_cannot_be_had_do_not_hide_a_healthy_one(tmp_path: Path) -> None:
    journal = Journal.open(tmp_path / "runs.db")
    for name in [*(f"damaged{number}" for number in range(60)), "healthy"]:
        born = Created(agent="agent", thread=name)
        await journal.append(Append(run_id=born.thread, events=[born], expected_seq=0))
    await journal.aclose()
    damage(tmp_path / "runs.db", "damaged*")
    async with runtime_with(tmp_path / "runs.db", agent=quick) as runtime:
        assert await (await runtime.get("healthy")).result() == "done"


async def test_a_hundred_and_twenty_timers_of_one_instant_all_ring_in_it() -> None:
    world, clock = OutsideWorld(), ManualClock()

    async def agent(ctx: Context) -> None:
        await ctx.sleep(100)
        await ctx.step("work", world.slow, ctx.run_id)

    async with runtime_with(clock=clock, timing=UNHURRIED, agent=agent) as runtime:
        runs = [await runtime.start("agent") for _ in range(120)]
        for run in runs:
            await question(run)
        clock.advance(100)
        for run in runs:
            await seen(run, StepStarted)  # and the clock is not moved again
        world.go_on.set()
        for run in runs:
            await run.result()


# --- what comes after ---


async def test_a_redirect_of_a_run_that_is_being_cancelled_starts_one_after_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = OutsideWorld()

    async def agent(ctx: Context, given: str) -> str:
        if given == "first":
            try:
                await ctx.ask("go on?")
            finally:
                world.noticed.set()
                await world.go_on.wait()
        return given

    asked: list[str] = []
    async with runtime_with(agent=agent, quick=quick, timing=Timing(stop_grace_s=3600)) as runtime:
        first = await runtime.start("agent", "first", thread="t1")
        await question(first)
        await first.cancel()
        await world.noticed.wait()
        command = runtime.journal.command

        async def counted(run_id: str, asks: Any) -> Ack:
            asked.append(run_id)
            return await command(run_id, asks)

        monkeypatch.setattr(runtime.journal, "command", counted)
        starting = asyncio.create_task(
            runtime.start("agent", "second", thread="t1", if_busy="redirect")
        )
        for _ in range(5):  # time enough to ask again and again
            await (await runtime.start("quick")).result()
        assert (asked, starting.done()) == ([first.id], False)
        world.go_on.set()
        second = await starting
        assert await second.result() == "second"
        assert (await first.snapshot()).state is RunState.CANCELLED


async def test_a_spawn_inserted_by_a_deploy_does_not_run_a_finished_child_again(
    tmp_path: Path,
) -> None:
    world = OutsideWorld()

    async def kid(ctx: Context, given: str) -> str:
        return await world.do(given)

    def version(*work: str) -> Any:
        async def agent(ctx: Context) -> list[str]:
            done = [await (await ctx.spawn("kid", given)).result() for given in work]
            await ctx.ask("go on?")
            return done

        return agent

    async with runtime_with(tmp_path / "runs.db", agent=version("pay"), kid=kid) as runtime:
        run = await runtime.start("agent")
        name = await question(run)
    async with runtime_with(tmp_path / "runs.db", agent=version("new", "pay"), kid=kid) as runtime:
        run = await runtime.get(run.id)
        await run.answer(name, "yes")
        assert await run.result() == ["new", "pay"]
        assert len(await children(runtime, run)) == 2
    assert world.did == ["pay", "new"]


# --- forks ---


async def test_a_fork_releases_what_it_has_deferred_itself() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> None:
        await ctx.defer(world.do, ctx.run_id)
        await ctx.ask("go on?")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await question(run)
        fork = await run.fork()
        await fork.answer(await question(fork))
        await fork.result()
        assert world.did == [fork.id]
        await run.cancel()
        await run.wait_for(RunState.CANCELLED)
    assert world.did == [fork.id, run.id]


def leaky(world: OutsideWorld) -> Any:
    async def agent(ctx: Context) -> Any:
        found = await ctx.step("look up", world.do, "secret")
        await ctx.ask("go on?")
        return found

    return agent


async def quarantined_after_a_fork(runtime: pullcord.Runtime) -> tuple[RunHandle, RunHandle]:
    """A run that is quarantined, and its fork of before, at its question and in no memory."""
    run = await runtime.start("agent")
    await question(run)
    fork = await run.fork()
    await fork.wait_for(RunState.WAITING)
    await unowned(runtime, fork)
    await run.cancel(quarantine=True)
    await run.wait_for(RunState.CANCELLED)
    return run, fork


async def test_a_fork_of_a_fork_of_a_quarantined_run_is_refused() -> None:
    async with runtime_with(agent=leaky(OutsideWorld()), timing=PARKING) as runtime:
        for run in await quarantined_after_a_fork(runtime):
            with pytest.raises(InvalidInput, match="quarantined"):
                await run.fork()
        assert len(await runtime.list()) == 2


@pytest.mark.parametrize(
    ("says", "found", "times"),
    [("skip", None, 1), ({"happened": "harmless"}, "harmless", 1), ("run", "secret", 2)],
)
async def test_a_fork_of_before_the_quarantine_asks_about_the_steps_it_had_inherited(
    says: Any, found: str | None, times: int
) -> None:
    world = OutsideWorld()
    async with runtime_with(agent=leaky(world), timing=PARKING) as runtime:
        _, fork = await quarantined_after_a_fork(runtime)
        await fork.answer(await question(fork))
        doubt = await seen(fork, QuestionAsked, nth=2)
        assert "'look up'" in doubt.text
        assert world.did == ["secret"]
        await fork.answer(doubt.question, says)
        assert await fork.result() == found
    assert world.did == ["secret"] * times
