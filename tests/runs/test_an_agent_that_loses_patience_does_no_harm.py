"""An agent may cut its own calls at any moment: `asyncio.timeout`, a task group, `task.cancel()`.
Whatever it cuts is decided, the run goes on and ends, and so does the runtime."""

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any, Final

import pytest

import pullcord
from pullcord import Context, RunState
from pullcord.core.events import QuestionAsked
from pullcord.hooks import Notice
from tests.conftest import FULL
from tests.runs.observed_runs import OutsideWorld, runtime_with, seen

TURNS: Final = range(0, 600, 1) if FULL else range(0, 160, 8)


@pullcord.tool
async def in_loop(what: str) -> str:
    return what


@pullcord.tool(approve="always")
async def approved(what: str) -> str:
    return what


def in_process(what: str) -> str:
    return what


async def words() -> AsyncIterator[str]:
    for word in ("one ", "two ", "three"):
        yield word


async def child(ctx: Context) -> str:
    return await ctx.step("work", in_loop, "child")


async def spawned(ctx: Context) -> Any:
    return await (await ctx.spawn("child")).result()


DOORS: Final[dict[str, Callable[[Context, OutsideWorld], Any]]] = {
    "step": lambda ctx, world: ctx.step("cut", world.do, "cut"),
    "idempotent step": lambda ctx, world: ctx.step("cut", world.do, "cut", effect="idempotent"),
    "tool": lambda ctx, world: ctx.tool(in_loop, "cut"),
    "approved tool": lambda ctx, world: ctx.tool(approved, "cut"),
    "process tool": lambda ctx, world: ctx.tool(in_process, "cut"),
    "command": lambda ctx, world: ctx.exec("true"),
    "question": lambda ctx, world: ctx.ask("cut?"),
    "sleep": lambda ctx, world: ctx.sleep(0.001),
    "text": lambda ctx, world: ctx.say("cut"),
    "stream": lambda ctx, world: ctx.say(words()),
    "child": lambda ctx, world: spawned(ctx),
    "instructions": lambda ctx, world: ctx.instructions(),
    "random": lambda ctx, world: ctx.random(),
}


@pytest.mark.campaign
@pytest.mark.timeout(1800 if FULL else 120)
@pytest.mark.parametrize("door", DOORS)
async def test_a_call_that_its_agent_cuts_at_any_moment_is_decided_and_the_run_goes_on(
    door: str,
) -> None:
    ends = set[str]()
    for turns in TURNS:
        try:
            ends.add(await cut_after(turns, door))
        except BaseException as error:
            error.add_note(f"{door}: cut after {turns} turns of the loop")
            raise
    print(f"{len(TURNS)} cuts, 0 left undecided; the agent saw: {sorted(ends)}")


async def cut_after(turns: int, door: str) -> str:
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        beside = asyncio.create_task(called(lambda: DOORS[door](ctx, world)))
        for _ in range(turns):
            await asyncio.sleep(0)
        beside.cancel()
        await asyncio.wait({beside})
        seen = "cut" if beside.cancelled() else "done"
        await ctx.step("after", world.do, "after")
        return seen

    async def yes(notice: Notice) -> None:
        await (await runtime.get(notice.run_id)).approve(notice.question)

    async with runtime_with(agent=agent, child=child, notify=yes) as runtime:
        run = await runtime.start("agent")
        seen = await run.result()
        ended = await run.snapshot()
        assert ended.state is RunState.COMPLETED
        assert (ended.open_steps(), ended.open_questions()) == ([], [])
        assert world.did[-1] == "after"
    return seen


async def called(call: Callable[[], Any]) -> Any:
    return await call()


async def test_what_it_has_cut_before_it_began_is_not_called_begun() -> None:
    """The intent is durable, and the function was never called: nobody has to be asked."""
    world = OutsideWorld()

    async def agent(ctx: Context) -> None:
        for turns in range(40):
            cut = asyncio.create_task(called(lambda n=turns: ctx.step("cut", world.do, n)))
            for _ in range(turns):
                await asyncio.sleep(0)
            cut.cancel()
            await asyncio.wait({cut})

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await run.result()
        receipt = await run.receipt()
        begun = len(receipt.done) + len(receipt.interrupted)
        assert begun == len(world.did), "a step that was never called is called begun"


async def test_what_never_began_is_begun_in_the_next_life_and_nobody_is_asked(
    tmp_path: Path,
) -> None:
    """A person would be told that it began, and would have to know what became of it."""
    world = OutsideWorld()
    left: list[str] = []

    async def agent(ctx: Context) -> str:
        world.entered += 1
        for turns in range(40) if world.entered == 1 else ():
            step = asyncio.create_task(called(lambda n=turns: ctx.step(f"cut {n}", world.do, n)))
            for _ in range(turns):
                await asyncio.sleep(0)
            step.cancel()
            await asyncio.wait({step})
        for name in left:
            await ctx.step(name, world.do, int(name.removeprefix("cut ")))
        return await ctx.ask("Is that all?")

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent")
        await seen(run, QuestionAsked)
        steps = (await run.snapshot()).steps.values()
        left += [step.name for step in steps if not step.began]
    assert left, "no intent was durable before its step was cut"
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.get(run.id)
        [asked] = (await run.snapshot()).open_questions()
        await run.answer(asked, "yes")
        assert await run.result() == "yes"
        assert len((await run.snapshot()).questions) == 1
    assert sorted(world.did) == sorted({*world.did}), "one was carried out twice"
    assert {int(name.removeprefix("cut ")) for name in left} <= {*world.did}
