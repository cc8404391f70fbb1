"""A redirect is in the next thing the agent reads: once, in order, and the same in every life."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pullcord import Context, RunHandle, RunState, Runtime
from pullcord.core.events import ItemRewritten, ItemStarted, StepStarted
from tests.runs.observed_runs import (
    PARKING,
    OutsideWorld,
    happened,
    question,
    runtime_with,
    seen,
    two_lives,
    unowned,
)


def planner(world: OutsideWorld, *titles: str) -> Any:
    """Carries its plan out item by item; each one is held until the world goes on."""

    async def agent(ctx: Context) -> list[str]:
        world.entered += 1
        return [
            await ctx.step("do", world.slow, item.instruction) async for item in ctx.plan(titles)
        ]

    return agent


async def fates(run: RunHandle) -> list[tuple[str, str]]:
    return [(told.text, told.status) for told in (await run.snapshot()).instructions.values()]


async def test_while_running_it_rewrites_the_next_item() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=planner(world, "a", "b", "c")) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        await run.redirect("B!", by="ana")
        world.go_on.set()
        assert await run.result() == ["a", "B!", "c"]
        [rewritten] = await happened(runtime, run.id, ItemRewritten)
        assert (rewritten.before, rewritten.after) == ("b", "B!")
        assert await fates(run) == [("B!", "delivered")]


async def test_while_paused_it_is_carried_out_on_resume() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=planner(world, "a", "b")) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        await run.pause()
        world.go_on.set()
        await run.wait_for(RunState.PAUSED)
        await run.redirect("B!")
        assert (await run.snapshot()).state is RunState.PAUSED
        assert await fates(run) == [("B!", "queued")]
        await run.resume()
        assert await run.result() == ["a", "B!"]


async def test_resume_may_bring_it_along() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=planner(world, "a", "b"), timing=PARKING) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        await run.pause()
        world.go_on.set()
        await run.wait_for(RunState.PAUSED)
        await run.resume(instruction="summarise and stop")
        assert await run.result() == ["a", "summarise and stop"]
        assert await fates(run) == [("summarise and stop", "delivered")]


async def queued_first(runtime: Runtime, *told: str) -> RunHandle:
    """A run that was told something before any process had entered it."""
    first = await runtime.start("waits", thread="t1")
    run = await runtime.start("agent", thread="t1", if_busy="queue")
    for instruction in told:
        await run.redirect(instruction)
    assert (await run.snapshot()).state is RunState.QUEUED
    await first.answer(await question(first))
    return run


async def waits(ctx: Context) -> None:
    await ctx.ask("go on?")


async def test_while_queued_it_rewrites_the_first_item() -> None:
    world = OutsideWorld()
    world.go_on.set()
    async with runtime_with(agent=planner(world, "a", "b"), waits=waits) as runtime:
        run = await queued_first(runtime, "A!")
        assert await run.result() == ["A!", "b"]
        assert await fates(run) == [("A!", "delivered")]


async def test_before_there_is_a_plan_it_rewrites_the_first_item() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> list[str]:
        await ctx.step("prepare", world.slow, "prepared")
        return [item.instruction async for item in ctx.plan(["a", "b"])]

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        await run.redirect("A!")
        world.go_on.set()
        assert await run.result() == ["A!", "b"]
        assert await fates(run) == [("A!", "delivered")]


async def test_the_later_of_two_is_what_the_item_says() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=planner(world, "a", "b", "c")) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        await run.redirect("first thought")
        await run.redirect("second thought")
        world.go_on.set()
        assert await run.result() == ["a", "second thought", "c"]


@pytest.mark.parametrize("when", ["running", "queued"])
async def test_all_that_was_said_about_an_item_reaches_the_agent(when: str) -> None:
    world = OutsideWorld()
    async with runtime_with(agent=planner(world, "a", "b"), waits=waits) as runtime:
        told = ("first thought", "second thought")
        if when == "queued":
            run = await queued_first(runtime, *told)
        else:
            run = await runtime.start("agent")
            await seen(run, StepStarted)
            for instruction in told:
                await run.redirect(instruction)
        world.go_on.set()
        await run.result()
        read = [text for item in await happened(runtime, run.id, ItemStarted) for text in item.told]
        assert read == list(told)
        assert await fates(run) == [(text, "delivered") for text in told]


async def test_an_item_that_has_begun_keeps_its_text_in_every_life() -> None:
    world = OutsideWorld()
    async with runtime_with(
        agent=planner(world, "a", "b", "c"), waits=waits, timing=PARKING
    ) as runtime:
        run = await queued_first(runtime, "A!")
        await seen(run, StepStarted)
        await run.pause()
        world.go_on.set()
        await run.wait_for(RunState.PAUSED)
        await unowned(runtime, run)
        await run.redirect("B!")
        await run.resume()
        assert await run.result() == ["A!", "B!", "c"]
        assert [item.text for item in await happened(runtime, run.id, ItemStarted)] == world.did
        assert world.entered == 2
    assert world.did == ["A!", "B!", "c"]


async def test_a_fork_is_handed_the_items_that_had_begun_as_they_were() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=planner(world, "a", "b")) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        await run.redirect("B!")
        world.go_on.set()
        await run.result()
        fork = await run.fork(instruction="too late for B")
        assert await fork.result() == ["a", "B!"]
        assert await fates(fork) == [("too late for B", "returned")]
    assert world.did == ["a", "B!"]


async def test_a_plan_that_was_left_early_does_not_swallow_it() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> list[str]:
        async for _ in ctx.plan(["a", "b"]):
            break
        await ctx.step("do", world.slow, "x")
        return await ctx.instructions()

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        await run.redirect("look at May")
        world.go_on.set()
        assert await run.result() == ["look at May"]


# --- without a plan ---


async def test_without_a_plan_everything_that_was_said_is_drained_in_order_once() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> list[list[str]]:
        await ctx.step("do", world.slow, "x")
        return [await ctx.instructions(), await ctx.instructions()]

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        await asyncio.gather(run.redirect("one"), run.redirect("two"))
        await run.redirect("three")
        world.go_on.set()
        first, second = await run.result()
        assert (sorted(first[:2]), first[2:], second) == (["one", "two"], ["three"], [])
        assert {status for _, status in await fates(run)} == {"delivered"}


async def test_what_was_drained_is_the_same_in_every_life() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> list[list[str]]:
        world.entered += 1
        told = await ctx.instructions()
        await ctx.ask("go on?")
        return [told, await ctx.instructions()]

    async with runtime_with(agent=agent, waits=waits, timing=PARKING) as runtime:
        run = await queued_first(runtime, "one")
        await question(run)
        await run.wait_for(RunState.WAITING)
        await unowned(runtime, run)
        await run.redirect("two")  # it also takes the card off the table
        await run.answer(await question(run, nth=2))
        assert await run.result() == [["one"], ["two"]]
    assert world.entered > 1


async def test_what_was_never_drained_goes_back_to_its_author() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> None:
        await ctx.step("do", world.slow, "x")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        await run.redirect("nobody will read this", by="ana")
        world.go_on.set()
        await run.result()
        assert await fates(run) == [("nobody will read this", "returned")]
        assert (await run.receipt()).not_attempted == ("nobody will read this",)


async def test_what_an_item_left_behind_was_told_goes_back_to_its_author() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=planner(world, "a", "b")) as runtime:
        run = await runtime.start("agent")
        await world.begun.wait()
        await run.redirect("B!")
        await run.cancel()
        receipt = await run.receipt()
        assert await fates(run) == [("B!", "returned")]
        assert receipt.not_attempted == ("B!",)


async def test_two_lives_of_a_plan_hand_over_each_item_once(tmp_path: Path) -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> list[str]:
        done: list[str] = []
        async for item in ctx.plan(["a", "b"]):
            done.append(await ctx.step("do", world.do, item.instruction))
            await ctx.ask(f"after {item.title}?")
        return done

    result, run = await two_lives(tmp_path / "runs.db", agent, agent, "yes", "yes")
    assert result == ["a", "b"]
    assert world.did == ["a", "b"]
    assert all(plan.ended for plan in run.plans.values())
