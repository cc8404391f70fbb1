"""A step says what it is: its effect, how often it may be tried, how long it may take."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import Context, Retry, RunState, StepError
from pullcord.core.events import StepFailed, StepFinished, StepInterrupted, StepStarted
from pullcord.errors import InvalidInput
from pullcord.testing import ManualClock
from tests.runs.observed_runs import (
    HASTY,
    OutsideWorld,
    events,
    happened,
    runtime_with,
    seen,
    two_lives,
)


async def test_a_step_that_may_happen_only_once_cannot_be_retried() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        with pytest.raises(InvalidInput, match="effect is 'once'"):
            await ctx.step("pay", world.do, 7, retry=2)
        return "refused"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == "refused"
        assert await happened(runtime, run.id, StepStarted) == []
    assert world.did == []


async def test_a_function_that_would_block_is_refused() -> None:
    did: list[str] = []

    def blocks() -> None:
        did.append("blocked")

    async def agent(ctx: Context) -> str:
        function: Any = blocks
        with pytest.raises(InvalidInput, match="is not an async function"):
            await ctx.step("read", function)
        return "refused"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == "refused"
        assert await happened(runtime, run.id, StepStarted) == []
    assert did == []


async def test_every_attempt_is_in_the_journal_before_the_next_begins() -> None:
    tried: list[int] = []

    async def third_time_lucky() -> str:
        tried.append(1)
        if len(tried) < 3:
            raise OSError("busy")
        return "here"

    async def agent(ctx: Context) -> Any:
        again = Retry(attempts=5, wait_s=0)
        return await ctx.step("fetch", third_time_lucky, effect="none", retry=again)

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == "here"
        attempts = [
            f"{type(event).__name__} {event.attempt}"
            for event in await events(runtime, run.id)
            if isinstance(event, StepStarted | StepFailed | StepFinished)
        ]
    assert attempts == [
        *("StepStarted 1", "StepFailed 1"),
        *("StepStarted 2", "StepFailed 2"),
        *("StepStarted 3", "StepFinished 3"),
    ]


async def test_the_last_attempt_decides_and_later_lives_do_not_try_again(tmp_path: Path) -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        again = Retry(attempts=3, wait_s=0)
        try:
            await ctx.step("fetch", world.fails, "down", effect="idempotent", retry=again)
        except StepError as error:
            await ctx.ask("go on?")
            return error.error
        return "?"

    result, run = await two_lives(tmp_path / "runs.db", agent, agent)
    assert result == "ValueError: down"
    assert world.did == ["down"] * 3
    assert [step.attempt for step in run.steps.values()] == [3]


def waits_long(world: OutsideWorld) -> Any:
    async def agent(ctx: Context) -> Any:
        again = Retry(attempts=2, wait_s=100, wait_max_s=100)
        return await ctx.step("fetch", world.fails, "down", effect="none", retry=again)

    return agent


async def test_a_pause_does_not_wait_for_the_time_between_attempts() -> None:
    world, clock = OutsideWorld(), ManualClock()
    async with runtime_with(agent=waits_long(world), clock=clock) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepFailed)
        await run.pause()
        await run.wait_for(RunState.PAUSED)
        clock.advance(50)  # less than the time after which it would be parked
        await run.resume()
        await run.wait_for(RunState.RUNNING)
        assert world.did == ["down"]
        clock.advance(50)
        await run.wait_for(RunState.FAILED)
    assert world.did == ["down", "down"]


async def test_a_cancel_does_not_wait_for_the_time_between_attempts() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=waits_long(world), clock=ManualClock()) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepFailed)
        await run.cancel()
        await run.wait_for(RunState.CANCELLED)
    assert world.did == ["down"]


@pytest.mark.parametrize(
    ("effect", "says"),
    [("none", "0.01 s"), ("once", "0.01 s; it may have had an effect")],
)
async def test_a_step_that_takes_too_long_fails_and_says_so(
    tmp_path: Path, effect: Any, says: str
) -> None:
    world = OutsideWorld()
    said: list[str] = []

    async def agent(ctx: Context) -> None:
        try:
            await ctx.step("wait", world.slow, 1, effect=effect, timeout_s=0.01)
        except StepError as error:
            said.append(error.error)
        await ctx.ask("go on?")

    await two_lives(tmp_path / "runs.db", agent, agent)
    assert said == [f"TimeoutError: it took longer than {says}"] * 2
    assert world.did == []


async def test_a_timeout_of_the_steps_own_is_just_its_error() -> None:
    async def gives_up() -> None:
        raise TimeoutError("the server took its time")

    async def agent(ctx: Context) -> None:
        await ctx.step("fetch", gives_up, timeout_s=60)

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.FAILED)
        [failed] = await happened(runtime, run.id, StepFailed)
    assert failed.error == "TimeoutError: the server took its time"


async def test_a_result_that_cannot_be_stored_fails_the_step_and_is_not_made_again(
    tmp_path: Path,
) -> None:
    made: list[float] = []
    said: list[str] = []

    async def make() -> float:
        made.append(float("nan"))
        return made[-1]

    async def agent(ctx: Context) -> None:
        try:
            await ctx.step("make", make)
        except StepError as error:
            said.append(error.error)
        await ctx.ask("go on?")

    await two_lives(tmp_path / "runs.db", agent, agent)
    assert len(made) == 1
    assert said[0] == said[1]
    assert "nan is not a JSON number" in said[0]


async def test_arguments_that_cannot_be_stored_are_refused_before_anything_starts() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        with pytest.raises(InvalidInput, match="cannot be stored"):
            await ctx.step("do", world.do, object())
        return "refused"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == "refused"
    assert world.did == []


async def test_a_cancellation_nobody_asked_for_is_a_failure_of_the_step() -> None:
    async def cancelled_by_a_library() -> None:
        raise asyncio.CancelledError

    async def agent(ctx: Context) -> str:
        try:
            await ctx.step("fetch", cancelled_by_a_library)
        except StepError as error:
            return error.error
        return "?"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert (await run.result()).startswith("CancelledError: ")
        assert (await run.snapshot()).cancel is None


async def test_a_cancellation_nobody_asked_for_is_a_failure_of_the_run() -> None:
    async def agent(_: Context) -> None:
        raise asyncio.CancelledError

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert (await run.wait_for(RunState.FAILED)).error.startswith("CancelledError: ")


@pytest.mark.parametrize("effect", ["none", "idempotent"])
async def test_what_may_be_begun_again_is_after_a_shutdown_has_cut_it(
    tmp_path: Path, effect: Any
) -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> Any:
        return await ctx.step("fetch", world.slow, "x", effect=effect)

    async with runtime_with(tmp_path / "runs.db", timing=HASTY, agent=agent) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted)
    world.go_on.set()
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.get(run.id)
        assert await run.result() == "x"
        assert (await run.snapshot()).questions == {}
        assert len(await happened(runtime, run.id, StepInterrupted)) == 1
    assert world.did == ["x"]


async def test_a_second_press_of_pause_cuts_what_may_be_begun_again_and_nothing_else() -> None:
    world, once = OutsideWorld(), OutsideWorld()

    async def agent(ctx: Context) -> list[Any]:
        reading = ctx.step("read", world.slow, "read", effect="none")
        return list(await asyncio.gather(reading, ctx.step("pay", once.slow, "paid")))

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted, nth=2)
        await run.pause()
        await run.pause(now=True)
        await seen(run, StepInterrupted)
        assert (await run.snapshot()).state is RunState.PAUSING
        once.go_on.set()
        await run.wait_for(RunState.PAUSED)
        world.go_on.set()
        await run.resume()
        assert await run.result() == ["read", "paid"]
    assert (world.did, once.did) == (["read"], ["paid"])


async def test_a_step_cannot_use_the_doors_of_its_agent() -> None:
    """What it did there could not be found again: it may be carried out twice, or not at all."""

    async def agent(ctx: Context) -> Any:
        async def stamp() -> float:
            return await ctx.now()

        await ctx.step("stamp", stamp)

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        with pytest.raises(
            pullcord.RunFailed, match=r"inside a step or a tool only ctx\.checkpoint"
        ):
            await run.result()
