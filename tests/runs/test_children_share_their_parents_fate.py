"""Awaited children are paused, resumed and cancelled with their parent, and end before it."""

from pathlib import Path
from typing import Any

import pytest

from pullcord import Context, RunCancelled, RunFailed, RunHandle, RunState, Runtime
from pullcord.core.events import ChildBorn, StepStarted
from pullcord.errors import AgentUnknown, InvalidInput
from tests.runs.observed_runs import (
    HASTY,
    PARKING,
    OutsideWorld,
    children,
    names,
    question,
    runtime_with,
    seen,
    unowned,
)


def worker(world: OutsideWorld) -> Any:
    async def kid(ctx: Context, given: Any) -> Any:
        return await ctx.step("work", world.slow, given)

    return kid


async def parent(ctx: Context) -> Any:
    return await (await ctx.spawn("kid", "homework")).result()


async def one_child(runtime: Runtime, run: RunHandle) -> RunHandle:
    await seen(run, ChildBorn)
    [child] = await children(runtime, run)
    return child


async def test_a_child_is_a_run_of_its_own_and_hands_over_its_result() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=parent, kid=worker(world)) as runtime:
        run = await runtime.start("agent")
        child = await one_child(runtime, run)
        await run.wait_for(RunState.WAITING)
        world.go_on.set()
        assert await run.result() == "homework"
        assert await child.result() == "homework"
        assert (await child.snapshot()).parent == run.id


async def test_a_child_is_not_started_again_when_its_parent_is_entered_again(
    tmp_path: Path,
) -> None:
    world = OutsideWorld()
    agents: dict[str, Any] = {"agent": parent, "kid": worker(world)}
    async with runtime_with(tmp_path / "runs.db", timing=HASTY, **agents) as runtime:
        run = await runtime.start("agent")
        await seen((await one_child(runtime, run)), StepStarted)
        world.go_on.set()
    async with runtime_with(tmp_path / "runs.db", **agents) as runtime:
        run = await runtime.get(run.id)
        assert await run.result() == "homework"
        assert len(await runtime.list()) == 2
    assert world.did == ["homework"]


async def test_a_fork_finds_the_children_that_had_completed() -> None:
    world = OutsideWorld()
    world.go_on.set()
    async with runtime_with(agent=parent, kid=worker(world)) as runtime:
        run = await runtime.start("agent")
        await run.result()
        assert await (await run.fork()).result() == "homework"
    assert world.did == ["homework"]


async def test_two_children_with_the_same_work_are_two() -> None:
    world = OutsideWorld()
    world.go_on.set()

    async def agent(ctx: Context) -> list[Any]:
        both = [await ctx.spawn("kid", "same"), await ctx.spawn("kid", "same")]
        return [await child.result() for child in both]

    async with runtime_with(agent=agent, kid=worker(world)) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == ["same", "same"]
        assert len(await children(runtime, run)) == 2


async def test_a_parent_does_not_end_before_its_children() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        await ctx.spawn("kid", "later")
        return "mine is done"

    async with runtime_with(agent=agent, kid=worker(world), timing=PARKING) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.WAITING)
        await unowned(runtime, run)
        world.go_on.set()
        assert await run.result() == "mine is done"
        order = await names(runtime, run.id)
    assert order.index("child_ended") < order.index("completed")


async def test_a_detached_child_lives_on_and_is_listed() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        child = await ctx.spawn("kid", "later", detached=True)
        with pytest.raises(InvalidInput, match="detached"):
            await child.result()
        return child.run_id

    async with runtime_with(agent=agent, kid=worker(world)) as runtime:
        run = await runtime.start("agent")
        child = await runtime.get(await run.result())
        assert (await run.receipt()).detached == (child.id,)
        await seen(child, StepStarted)
        world.go_on.set()
        assert await child.result() == "later"


async def test_a_detached_child_is_not_cancelled_with_its_parent() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> None:
        await ctx.spawn("kid", "later", detached=True)
        await ctx.ask("go on?")

    async with runtime_with(agent=agent, kid=worker(world)) as runtime:
        run = await runtime.start("agent")
        child = await one_child(runtime, run)
        await question(run)
        await run.cancel()
        await run.wait_for(RunState.CANCELLED)
        world.go_on.set()
        assert await child.result() == "later"


async def test_a_parent_that_fails_cancels_its_children() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> None:
        await ctx.spawn("kid", "in vain")
        raise ValueError("lost interest")

    async with runtime_with(agent=agent, kid=worker(world)) as runtime:
        run = await runtime.start("agent")
        assert (await run.wait_for(RunState.FAILED)).error == "ValueError: lost interest"
        child = await (await one_child(runtime, run)).snapshot()
        assert child.state is RunState.CANCELLED
        assert child.cancel
        assert (child.cancel.source, child.cancel.reason) == ("parent", "its parent failed")
    assert world.did == []


async def test_a_child_that_fails_is_told_to_its_parent() -> None:
    world = OutsideWorld()

    async def kid(ctx: Context) -> None:
        await ctx.step("work", world.fails, "too hard")

    async def agent(ctx: Context) -> str:
        with pytest.raises(RunFailed, match="too hard") as failed:
            await (await ctx.spawn("kid")).result()
        return failed.value.run_id

    async with runtime_with(agent=agent, kid=kid) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == (await one_child(runtime, run)).id


async def test_a_child_that_is_cancelled_alone_is_told_to_its_parent() -> None:
    async def agent(ctx: Context) -> str:
        with pytest.raises(RunCancelled) as cancelled:
            await (await ctx.spawn("kid", "x")).result()
        return cancelled.value.by

    async with runtime_with(agent=agent, kid=worker(OutsideWorld())) as runtime:
        run = await runtime.start("agent")
        child = await one_child(runtime, run)
        await seen(child, StepStarted)
        await child.cancel(by="ana")
        assert await run.result() == "ana"


async def test_an_agent_nobody_knows_is_no_child() -> None:
    async def agent(ctx: Context) -> str:
        with pytest.raises(AgentUnknown):
            await ctx.spawn("stranger")
        return "alone"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == "alone"
        assert await children(runtime, run) == []


# --- three generations ---


async def elder(ctx: Context) -> Any:
    return await (await ctx.spawn("agent")).result()


async def family(runtime: Runtime) -> list[RunHandle]:
    """A run, its child and its grandchild, which is at work."""
    oldest = await runtime.start("elder")
    middle = await one_child(runtime, oldest)
    youngest = await one_child(runtime, middle)
    await seen(youngest, StepStarted)
    return [oldest, middle, youngest]


async def test_a_cancel_reaches_the_whole_tree_and_children_end_first() -> None:
    world = OutsideWorld()
    async with runtime_with(elder=elder, agent=parent, kid=worker(world)) as runtime:
        runs = await family(runtime)
        await runs[0].cancel(by="ana", reason="too expensive")
        # durable in all of them when it is acknowledged for the first
        stops = [(await run.snapshot()).cancel for run in runs]
        asked = [(stop.by, stop.reason) for stop in stops if stop]
        assert asked == [("ana", "too expensive")] * 3
        await runs[0].wait_for(RunState.CANCELLED)
        assert [(await run.snapshot()).state for run in runs] == [RunState.CANCELLED] * 3
        for run in runs[:2]:
            order = await names(runtime, run.id)
            assert order.index("child_ended") < order.index("cancelled")
        world.go_on.set()
    assert world.did == []


async def test_a_pause_holds_the_whole_tree_and_resume_lets_all_of_it_go_on() -> None:
    world = OutsideWorld()

    async def kid(ctx: Context) -> str:
        await ctx.step("first", world.slow, "first")
        return await ctx.step("second", world.do, "second")

    async with runtime_with(elder=elder, agent=parent, kid=kid, timing=PARKING) as runtime:
        runs = await family(runtime)
        await runs[0].pause()
        world.go_on.set()
        for run in runs:
            await run.wait_for(RunState.PAUSED)
            await unowned(runtime, run)
        assert world.did == ["first"]
        await runs[0].resume()
        assert await runs[0].result() == "second"
    assert world.did == ["first", "second"]


async def test_a_child_that_a_person_has_paused_is_not_resumed_with_its_parent() -> None:
    world = OutsideWorld()

    async def kid(ctx: Context) -> str:
        await ctx.step("first", world.slow, "first")
        return await ctx.step("second", world.do, "second")

    async with runtime_with(agent=parent, kid=kid) as runtime:
        run = await runtime.start("agent")
        child = await one_child(runtime, run)
        await seen(child, StepStarted)
        await child.pause(by="bo")
        await run.pause(by="ana")
        world.go_on.set()
        await child.wait_for(RunState.PAUSED)
        await run.resume(by="ana")
        await run.wait_for(RunState.WAITING)
        assert (await child.snapshot()).state is RunState.PAUSED
        await child.resume(by="bo")
        assert await run.result() == "second"


async def test_a_parent_that_returns_while_pausing_is_paused_until_its_children_may_end() -> None:
    world = OutsideWorld()

    async def kid(ctx: Context) -> Any:
        return await ctx.ask("go on?")

    async def agent(ctx: Context) -> str:
        await ctx.spawn("kid")
        return await ctx.step("work", world.slow, "mine")

    async with runtime_with(agent=agent, kid=kid) as runtime:
        run = await runtime.start("agent")
        child = await one_child(runtime, run)
        await child.wait_for(RunState.WAITING)
        await seen(run, StepStarted)
        await run.pause()
        world.go_on.set()
        await run.wait_for(RunState.PAUSED)
        await run.resume()
        await child.answer(await question(child))
        assert await run.result() == "mine"


async def test_children_that_live_are_quarantined_with_their_parent_and_no_others() -> None:
    """Those that had ended are runs of their own: that is said wherever quarantine is described."""
    world = OutsideWorld()

    async def quick(ctx: Context, given: Any) -> Any:
        return given

    async def agent(ctx: Context) -> Any:
        await (await ctx.spawn("quick", "done before")).result()
        return await (await ctx.spawn("kid", "homework")).result()

    async with runtime_with(agent=agent, quick=quick, kid=worker(world)) as runtime:
        run = await runtime.start("agent")
        await seen(run, ChildBorn, nth=2)
        await run.cancel(now=True, quarantine=True)
        await run.wait_for(RunState.CANCELLED)
        before, with_it = [await child.snapshot() for child in await children(runtime, run)]
        assert (before.agent, before.state, before.cancel) == ("quick", RunState.COMPLETED, None)
        assert with_it.cancel is not None
        assert (with_it.agent, with_it.cancel.quarantine) == ("kid", True)
