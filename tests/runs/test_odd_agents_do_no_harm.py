"""Agents that do odd things harm neither their run nor others: it ends, and says how."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any, NoReturn

import pytest

from pullcord import Context, Interrupted, Retry, RunState, StepError
from pullcord.core.events import Claimed, QuestionAsked, StepFailed, StepFinished, StepStarted
from pullcord.core.run import Times
from pullcord.errors import InvalidInput, InvalidText
from pullcord.testing import ManualClock
from tests.runs.observed_runs import (
    HASTY,
    UNHURRIED,
    OutsideWorld,
    happened,
    question,
    runtime_with,
    seen,
    settles,
)


class Impatient(OutsideWorld):
    """A world whose agents have timeouts of their own; the test says when time is up."""

    def __init__(self) -> None:
        super().__init__()
        self._limit = asyncio.timeout(None)

    def patience(self) -> asyncio.Timeout:
        self._limit = asyncio.timeout(None)
        return self._limit

    def time_is_up(self) -> None:
        self._limit.reschedule(0)


async def never() -> None:
    await asyncio.Event().wait()


# --- an agent that ends early ---


async def test_an_agent_may_lose_its_patience_with_a_question() -> None:
    world = Impatient()

    async def agent(ctx: Context) -> Any:
        try:
            async with world.patience():
                return await ctx.ask("ok?")
        except TimeoutError:
            return "no answer"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.WAITING)
        world.time_is_up()
        assert await run.result() == "no answer"


async def test_a_branch_that_goes_on_does_not_keep_a_failed_agent_alive() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> None:
        async def goes_on() -> None:
            while True:
                await ctx.step("work", world.do, len(world.did))
                if len(world.did) == 3:
                    world.noticed.set()

        async def raises() -> None:
            await world.noticed.wait()
            raise ValueError("boom")

        await asyncio.gather(goes_on(), raises())

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert (await run.wait_for(RunState.FAILED)).error == "ValueError: boom"
        finished = await happened(runtime, run.id, StepFinished)
        assert len(finished) == len(await happened(runtime, run.id, StepStarted)) == len(world.did)


async def test_a_task_left_behind_finishes_its_step_and_begins_no_other() -> None:
    world = OutsideWorld()
    tasks: list[asyncio.Task[None]] = []

    async def agent(ctx: Context) -> str:
        async def background() -> None:
            for number in range(100):
                await ctx.step("work", world.slow, number)

        tasks.append(asyncio.create_task(background()))
        await world.noticed.wait()
        return "returned"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        world.noticed.set()
        world.go_on.set()
        assert await run.result() == "returned"
        with pytest.raises(Interrupted):
            await tasks[0]
        done = (await run.receipt()).done
        assert done == ("work",) * len(world.did)
        assert len(await happened(runtime, run.id, Claimed)) == 1
    assert 1 <= len(world.did) < 100


async def test_an_agent_that_swallows_everything_is_cancelled_and_holds_nobody_up() -> None:
    world, most = OutsideWorld(), 20_000

    async def agent(ctx: Context) -> None:
        while world.entered < most:  # it would go on for ever; the test has to end
            world.entered += 1
            try:
                await ctx.step("work", world.do, world.entered, effect="none")
            except BaseException:
                pass

    async def other(ctx: Context) -> float:
        return await ctx.random()

    async with runtime_with(agent=agent, other=other, timing=HASTY) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepFinished)
        await run.cancel()
        done = len(world.did)
        assert 0 <= await (await runtime.start("other")).result() < 1
        assert (await run.receipt()).state is RunState.CANCELLED
        assert len(world.did) <= done + 1  # the one that was under way
        assert world.entered < most
        world.entered = most  # what is left of it in memory can end


# --- what cannot be stored ---

UNSPEAKABLE = "caf\udce9.txt"


async def raises_the_unspeakable() -> NoReturn:
    raise FileNotFoundError(UNSPEAKABLE)


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


async def raises_the_mute() -> NoReturn:
    raise Mute


class Shy:
    def model_dump(self, mode: str) -> NoReturn:
        raise KeyError(mode)


async def returns_the_shy() -> Shy:
    return Shy()


ODD = pytest.mark.parametrize(
    ("odd", "says"),
    [
        (raises_the_unspeakable, r"FileNotFoundError: caf\udce9.txt"),
        (raises_the_mute, "Mute: it cannot say what it is"),
        (returns_the_shy, "KeyError: 'json'"),
    ],
)


@ODD
async def test_an_agent_whose_end_cannot_be_stored_has_failed(
    odd: Callable[[], Awaitable[Any]], says: str
) -> None:
    async def agent(ctx: Context) -> Any:
        return await odd()

    async with runtime_with(agent=agent) as runtime:
        run = await (await runtime.start("agent")).wait_for(RunState.FAILED)
        assert says in run.error


@ODD
async def test_a_step_whose_end_cannot_be_stored_has_failed(
    odd: Callable[[], Awaitable[Any]], says: str
) -> None:
    async def agent(ctx: Context) -> str:
        with pytest.raises(StepError) as failed:
            await ctx.step("odd", odd)
        return failed.value.error

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert says in await run.result()
        receipt = await run.receipt()
        # What returned has happened, even if nobody can ever read what came out of it.
        assert (receipt.done if odd is returns_the_shy else receipt.failed) == ("odd",)


async def test_a_stream_too_long_for_one_part_is_cut_there_and_the_agent_is_told() -> None:
    async def agent(ctx: Context) -> str:
        async def words() -> AsyncGenerator[str]:
            yield "short, "
            yield "long" * 2**19

        with pytest.raises(InvalidText, match="go on in another"):
            await ctx.say(words())
        return await ctx.say("another")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == "another"
        assert (await run.receipt()).partial_text == ("short, ",)


# --- a step that answers a cancel with an error of its own ---


def client(world: OutsideWorld) -> Callable[[], Awaitable[str]]:
    """Calls something as many libraries do, who say in their own words that they were cut."""

    async def call() -> str:
        world.entered += 1
        world.noticed.set()
        try:
            await world.go_on.wait()
        except asyncio.CancelledError:
            raise ConnectionError("request aborted") from None
        return "answer"

    return call


async def test_cut_by_a_pause_it_is_begun_again_on_resume() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        return await ctx.step("call", client(world), effect="none")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await world.noticed.wait()
        await run.pause(now=True)
        assert (await run.receipt()).interrupted == ("call",)
        world.go_on.set()
        await run.resume()
        assert await run.result() == "answer"
    assert world.entered == 2


async def test_cut_by_a_shutdown_it_is_in_doubt_and_its_run_has_not_failed(tmp_path: Path) -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        return await ctx.step("call", client(world))

    async with runtime_with(tmp_path / "runs.db", timing=HASTY, agent=agent) as runtime:
        run = await runtime.start("agent")
        await world.noticed.wait()
    async with runtime_with(tmp_path / "runs.db") as looking:
        left = await (await looking.get(run.id)).snapshot()
        assert (left.state, [step.status for step in left.steps.values()]) == (
            RunState.QUEUED,
            ["in_doubt"],
        )
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.get(run.id)
        await run.answer(await question(run, kind="doubt"), {"happened": "yes"})
        assert await run.result() == "yes"
    assert world.entered == 1


# --- steps and branches ---


async def test_branches_with_names_that_look_like_each_other_are_others() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> list[int]:
        slash = [ctx.branch("a/b"), ctx.branch("a").branch("b")]
        twice = [ctx.branch("x"), ctx.branch("x"), ctx.branch("x#2")]
        return [
            await branch.step("same", world.slow, number, key="same")
            for number, branch in enumerate(slash + twice)
        ]

    world.go_on.set()
    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == world.did == [0, 1, 2, 3, 4]


async def each(items: Any) -> None:
    async for _ in items:
        pass


DOORS: dict[str, Callable[[Context], Awaitable[object]]] = {
    "step": lambda ctx: ctx.step("inner", never),
    "branch": lambda ctx: ctx.branch("b").now(),
    "ask": lambda ctx: ctx.ask("ok?"),
    "say": lambda ctx: ctx.say("hello"),
    "plan": lambda ctx: each(ctx.plan(["one"])),
    "instructions": lambda ctx: ctx.instructions(),
    "spawn": lambda ctx: ctx.spawn("agent"),
    "defer": lambda ctx: ctx.defer(never),
    "sleep": lambda ctx: ctx.sleep(1),
    "now": lambda ctx: ctx.now(),
}


@pytest.mark.parametrize("door", DOORS)
async def test_a_door_inside_a_step_is_refused_and_begins_nothing(door: str) -> None:
    async def agent(ctx: Context) -> str:
        async def outer() -> None:
            with pytest.raises(InvalidInput, match=r"only ctx\.checkpoint\(\)"):
                await DOORS[door](ctx)

        await ctx.step("outer", outer)
        return "went on"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == "went on"
        known = await run.snapshot()
        assert (len(known.steps), known.questions, known.texts) == (1, {}, {})
        assert (known.plans, known.children, known.defers) == ({}, {}, {})


async def test_a_step_that_gives_up_at_its_checkpoint_keeps_its_result() -> None:
    world = Impatient()

    async def agent(ctx: Context) -> str:
        async def work() -> str:
            try:
                async with world.patience():
                    while True:
                        await asyncio.sleep(0)
                        await ctx.checkpoint()
            except TimeoutError:
                return await world.do("stopped at a safe place")

        return await ctx.step("work", work)

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        await run.pause()
        await run.wait_for(RunState.PAUSED)
        world.time_is_up()
        await seen(run, StepFinished)
        assert (await run.snapshot()).state is RunState.PAUSED
        await run.resume()
        assert await run.result() == "stopped at a safe place"
    assert len(world.did) == 1


async def test_a_step_with_checkpoints_gets_the_grace_of_a_shutdown(tmp_path: Path) -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        async def work() -> str:
            await world.go_on.wait()
            for _ in range(20):
                await ctx.checkpoint()
            return await world.do("worked")

        return await ctx.step("work", work)

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
        world.go_on.set()  # it goes on when the runtime is closing already
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.get(run.id)
        assert await run.result() == "worked"
        assert (await run.snapshot()).questions == {}
    assert world.did == ["worked"]


LONG = "send the quarterly churn report to all customers " * 5


async def test_a_long_name_survives_changed_code_a_wrong_answer_and_a_redirect(
    tmp_path: Path,
) -> None:
    world = OutsideWorld()

    def version(number: int) -> Any:
        async def agent(ctx: Context) -> int:
            sent = await ctx.step(LONG, world.do, number)
            await ctx.ask("go on?")
            return sent

        return agent

    async with runtime_with(tmp_path / "runs.db", agent=version(1)) as runtime:
        run = await runtime.start("agent")
        name = await question(run)
    async with runtime_with(tmp_path / "runs.db", agent=version(2)) as runtime:
        run = await runtime.get(run.id)
        await run.answer(name, "yes")
        await run.answer(await question(run, nth=2), "maybe")
        await question(run, nth=3)
        await run.redirect("hurry")
        await run.answer(await question(run, nth=4), "run")
        assert await run.result() == 2
        asked = await happened(runtime, run.id, QuestionAsked)
        assert len({event.question for event in asked}) == len(asked) == 4
    assert world.did == [1, 2]


# --- what an interruption does not change ---


async def test_an_interruption_is_not_one_of_a_steps_attempts() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> None:
        async def work() -> NoReturn:
            world.entered += 1
            world.noticed.set()
            await world.go_on.wait()
            raise ValueError("a real failure")

        await ctx.step("work", work, effect="none", retry=Retry(attempts=3, wait_s=0))

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        for _ in range(3):
            await world.noticed.wait()
            world.noticed.clear()
            await run.pause(now=True)
            await run.wait_for(RunState.PAUSED)
            await run.resume()
        world.go_on.set()
        await run.wait_for(RunState.FAILED)
        assert len(await happened(runtime, run.id, StepFailed)) == 3
    assert world.entered == 6


async def test_a_step_that_the_agent_cut_itself_is_no_rung_of_a_later_pause() -> None:
    world, hangs = Impatient(), asyncio.Event()

    async def hang() -> None:
        hangs.set()
        await never()

    async def agent(ctx: Context) -> None:
        with pytest.raises(TimeoutError):
            async with world.patience():
                await ctx.step("hangs", hang, effect="none")
        await ctx.step("work", world.slow, "worked")
        await ctx.step("more", world.do, "more")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await hangs.wait()
        world.time_is_up()
        await seen(run, StepStarted, name="work")
        await run.pause()
        world.go_on.set()
        receipt = await run.receipt()
        assert (receipt.interrupted, receipt.rung) == (("hangs",), "cooperative")


async def test_waiting_was_waiting_also_when_the_agent_goes_on_by_itself() -> None:
    world, clock = Impatient(), ManualClock()

    async def agent(ctx: Context) -> Any:
        with pytest.raises(TimeoutError):
            async with world.patience():
                await ctx.ask("ok?")
        return await ctx.step("work", world.do, "worked")

    async with runtime_with(clock=clock, timing=UNHURRIED, agent=agent) as runtime:
        run = await runtime.start("agent")
        await question(run)
        await settles(run, clock, RunState.WAITING)
        clock.advance(40)
        world.time_is_up()
        assert await run.result() == "worked"
        assert (await run.snapshot()).times == Times(waiting_ms=40_000)
