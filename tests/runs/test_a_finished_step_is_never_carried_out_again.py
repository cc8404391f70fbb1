"""A step that has finished is answered from the journal: whatever happened to its run since."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from pullcord import Context, RunState, StepError
from pullcord.core.events import StepStarted
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


def three_steps(world: OutsideWorld) -> Callable[[Context], Any]:
    async def agent(ctx: Context) -> list[str]:
        world.entered += 1
        a = await ctx.step("a", world.do, "a")
        b = await ctx.step("b", world.slow, "b")
        return [a, b, await ctx.step("c", world.do, "c")]

    return agent


async def test_after_a_pause_in_memory() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=three_steps(world)) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted, name="b")
        await run.pause()
        world.go_on.set()
        await run.wait_for(RunState.PAUSED)
        assert world.did == ["a", "b"]
        await run.resume()
        assert await run.result() == ["a", "b", "c"]
    assert (world.did, world.entered) == (["a", "b", "c"], 1)


async def test_after_its_agent_was_parked_and_entered_again() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=three_steps(world), timing=PARKING) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted, name="b")
        await run.pause()
        world.go_on.set()
        await run.wait_for(RunState.PAUSED)
        await unowned(runtime, run)
        await run.resume()
        assert await run.result() == ["a", "b", "c"]
    assert (world.did, world.entered) == (["a", "b", "c"], 2)


async def test_after_a_shutdown_that_let_the_step_finish(tmp_path: Path) -> None:
    world = OutsideWorld()
    async with runtime_with(tmp_path / "runs.db", agent=three_steps(world)) as runtime:
        run = await runtime.start("agent")
        await seen(run, StepStarted, name="b")
        asyncio.get_running_loop().call_soon(world.go_on.set)
    assert world.did == ["a", "b"]
    async with runtime_with(tmp_path / "runs.db", agent=three_steps(world)) as runtime:
        assert await (await runtime.get(run.id)).result() == ["a", "b", "c"]
    assert (world.did, world.entered) == (["a", "b", "c"], 2)


async def test_in_a_fork() -> None:
    world = OutsideWorld()
    world.go_on.set()
    async with runtime_with(agent=three_steps(world)) as runtime:
        run = await runtime.start("agent")
        await run.result()
        fork = await run.fork()
        assert await fork.result() == ["a", "b", "c"]
        assert world.did == ["a", "b", "c"]
        assert await happened(runtime, fork.id, StepStarted) == []


async def test_in_a_fork_only_what_stands_before_its_record_is_answered() -> None:
    world = OutsideWorld()
    world.go_on.set()
    async with runtime_with(agent=three_steps(world)) as runtime:
        run = await runtime.start("agent")
        await run.result()
        began = (await run.snapshot()).steps
        [at] = [step.started_seq for step in began.values() if step.name == "b"]
        assert await (await run.fork(at=at - 1)).result() == ["a", "b", "c"]
    assert world.did == ["a", "b", "c", "b", "c"]


async def test_when_a_failed_run_is_tried_again_only_what_failed_is() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> Any:
        await ctx.step("a", world.do, "a")
        return await ctx.step("b", world.do if "b" in world.did else world.fails, "b")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert (
            await run.wait_for(RunState.FAILED)
        ).error == "StepError: Step 'b' failed: ValueError: b"
        assert await (await run.try_again()).result() == "b"
    assert world.did == ["a", "b", "b"]


# --- which step is which ---


async def test_the_same_name_and_arguments_twice_are_two_steps(tmp_path: Path) -> None:
    counted = iter(range(10))

    async def count() -> int:
        return next(counted)

    async def agent(ctx: Context) -> list[int]:
        both = [await ctx.step("count", count), await ctx.step("count", count)]
        await ctx.ask("go on?")
        return [*both, await ctx.step("count", count)]

    result, _ = await two_lives(tmp_path / "runs.db", agent, agent)
    assert result == [0, 1, 2]


async def test_concurrent_steps_find_their_own_results_whichever_finished_first(
    tmp_path: Path,
) -> None:
    turns = {n: asyncio.Event() for n in range(3)}
    turns[2].set()
    did: list[int] = []

    async def wait_for_turn(n: int) -> int:
        await turns[n].wait()
        did.append(n)
        if n:
            turns[n - 1].set()
        return n * 10

    async def agent(ctx: Context) -> list[int]:
        got = await asyncio.gather(*(ctx.step("turn", wait_for_turn, n) for n in range(3)))
        await ctx.ask("go on?")
        return got

    result, _ = await two_lives(tmp_path / "runs.db", agent, agent)
    assert result == [0, 10, 20]
    assert did == [2, 1, 0]


async def test_a_key_makes_a_step_known_whatever_its_arguments(tmp_path: Path) -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> Any:
        world.entered += 1
        paid = await ctx.step("pay", world.do, f"attempt {world.entered}", key="order-7")
        await ctx.ask("go on?")
        return paid

    result, _ = await two_lives(tmp_path / "runs.db", agent, agent)
    assert result == "attempt 1"
    assert world.did == ["attempt 1"]


async def test_branches_keep_concurrent_repeats_apart(tmp_path: Path) -> None:
    """The second life calls them the other way round, as a race might."""
    drawn = iter(["first", "second"])
    order = iter([["left", "right"], ["right", "left"]])

    async def draw() -> str:
        return next(drawn)

    async def agent(ctx: Context) -> dict[str, str]:
        got = {name: await ctx.branch(name).step("draw", draw) for name in next(order)}
        await ctx.ask("go on?")
        return got

    result, _ = await two_lives(tmp_path / "runs.db", agent, agent)
    assert result == {"left": "first", "right": "second"}


# --- the code was changed between two lives ---


def sends(world: OutsideWorld, text: str, effect: Any = "once") -> Callable[[Context], Any]:
    async def agent(ctx: Context) -> Any:
        sent = await ctx.step("send", world.do, text, effect=effect)
        await ctx.ask("go on?")
        return sent

    return agent


async def changed(path: Path, world: OutsideWorld, *choices: str) -> Any:
    """A `once` step was carried out as `old`; the code says `new` now; somebody is asked."""
    async with runtime_with(path, agent=sends(world, "old")) as runtime:
        await question(await runtime.start("agent", run_id="r1"))
    async with runtime_with(path, agent=sends(world, "new")) as runtime:
        run = await runtime.get("r1")
        await run.answer(await question(run), "yes")
        for nth, choice in enumerate(choices, start=2):
            assert world.did == ["old"]
            await run.answer(await question(run, nth=nth), choice)
        return await run.result()


async def test_a_once_step_with_other_arguments_is_run_only_if_a_person_says_so(
    tmp_path: Path,
) -> None:
    world = OutsideWorld()
    assert await changed(tmp_path / "runs.db", world, "run") == "new"
    assert world.did == ["old", "new"]


async def test_a_once_step_with_other_arguments_can_keep_its_earlier_result(
    tmp_path: Path,
) -> None:
    world = OutsideWorld()
    assert await changed(tmp_path / "runs.db", world, "skip") == "old"
    assert world.did == ["old"]


async def test_an_answer_that_is_no_choice_is_asked_for_again(tmp_path: Path) -> None:
    world = OutsideWorld()
    assert await changed(tmp_path / "runs.db", world, "perhaps", "skip") == "old"
    assert world.did == ["old"]


async def test_a_reading_step_with_other_arguments_just_runs(tmp_path: Path) -> None:
    world = OutsideWorld()
    old, new = sends(world, "old", "none"), sends(world, "new", "none")
    result, run = await two_lives(tmp_path / "runs.db", old, new)
    assert result == "new"
    assert world.did == ["old", "new"]
    assert len(run.questions) == 1


async def test_an_inserted_step_runs_where_it_is_met(tmp_path: Path) -> None:
    world = OutsideWorld()

    def version(*names: str) -> Callable[[Context], Any]:
        async def agent(ctx: Context) -> list[str]:
            done = [await ctx.step(name, world.do, name) for name in names]
            await ctx.ask("go on?")
            return done

        return agent

    old, new = version("a", "c"), version("a", "b", "c")
    result, _ = await two_lives(tmp_path / "runs.db", old, new)
    assert result == ["a", "b", "c"]
    assert world.did == ["a", "c", "b"]


async def nothing() -> None: ...


@pytest.mark.parametrize("keys", [(None, None), ("order 7/a", "order 7/b")])
async def test_every_vanished_step_is_listed(tmp_path: Path, keys: tuple[str | None, ...]) -> None:
    async def old(ctx: Context) -> None:
        await ctx.step("fetch", nothing, key=keys[0])
        await ctx.step("score", nothing, key=keys[1])
        await ctx.ask("go on?")

    async def new(ctx: Context) -> None:
        await ctx.ask("go on?")

    _, run = await two_lives(tmp_path / "runs.db", old, new)
    listed = " ".join(run.attention.values())
    assert "'fetch'" in listed
    assert "'score'" in listed


# --- the same in every life ---


@dataclass
class Draft:
    to: str
    lines: tuple[str, ...]


@pytest.mark.parametrize(
    ("returned", "found"),
    [
        (None, None),
        (("a", 1), ["a", 1]),
        ({"b": [1.5, True, None], "a": "ü"}, {"b": [1.5, True, None], "a": "ü"}),
        (Draft("ana", ("hello",)), {"to": "ana", "lines": ["hello"]}),
    ],
)
async def test_a_result_is_the_same_in_the_first_life_and_later(
    tmp_path: Path, returned: object, found: object
) -> None:
    got: list[object] = []

    async def make() -> object:
        return returned

    async def agent(ctx: Context) -> None:
        got.append(await ctx.step("make", make))
        await ctx.ask("go on?")

    await two_lives(tmp_path / "runs.db", agent, agent)
    assert got == [found, found]


async def test_an_error_has_the_same_words_in_the_first_life_and_later(tmp_path: Path) -> None:
    world = OutsideWorld()
    errors: list[StepError] = []

    async def agent(ctx: Context) -> None:
        try:
            await ctx.step("fetch", world.fails, "no route")
        except StepError as error:
            errors.append(error)
        await ctx.ask("go on?")

    await two_lives(tmp_path / "runs.db", agent, agent)
    first, later = errors
    assert str(first) == str(later) == "Step 'fetch' failed: ValueError: no route"
    assert isinstance(first.__cause__, ValueError)
    assert world.did == ["no route"]
