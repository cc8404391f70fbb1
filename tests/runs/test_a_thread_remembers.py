"""A thread is a conversation: one run at a time, and each finds what those before have done."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pullcord import Context, RunHandle, RunState, Runtime
from pullcord.core.events import QuestionAsked, StepStarted
from pullcord.errors import InvalidInput, ThreadBusy
from pullcord.journal.store import LiveText
from tests.runs.observed_runs import OutsideWorld, question, runtime_with, seen


def worker(world: OutsideWorld) -> Any:
    async def agent(ctx: Context, given: Any) -> Any:
        world.entered += 1
        return await ctx.step("work", world.slow, given)

    return agent


async def remembers(ctx: Context) -> list[dict[str, Any]]:
    """What an agent finds of the runs before it."""
    return [
        {
            "state": turn.state,
            "input": turn.input,
            "said": [[said.text, said.partial] for said in turn.said],
            "done": [list(done) for done in turn.done],
            "result": turn.result,
            "error": turn.error,
        }
        for turn in await ctx.history()
    ]


async def talks(ctx: Context, given: str) -> str:
    """Says `hello`, then a secret that is never finished."""

    async def words() -> AsyncIterator[str]:
        yield f"the secret of {given} is"
        await asyncio.Event().wait()

    await ctx.say("hello")
    return await ctx.say(words())


async def cut_off(runtime: Runtime, **how: Any) -> RunHandle:
    """A run on thread `t1` that was cancelled in the middle of a text."""
    run = await runtime.start("talks", "ana", thread="t1")
    async for _, item in run.events():
        if isinstance(item, LiveText):
            await run.cancel(**how)
    return run


# --- one at a time ---


async def test_a_second_run_is_refused_while_one_is_living() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=worker(world)) as runtime:
        run = await runtime.start("agent", 1, thread="t1")
        with pytest.raises(ThreadBusy) as busy:
            await runtime.start("agent", 2, thread="t1")
        assert busy.value.run_id == run.id
        assert len(await runtime.list(thread="t1")) == 1
        world.go_on.set()
        await run.result()
        assert await (await runtime.start("agent", 3, thread="t1")).result() == 3
    assert world.did == [1, 3]


async def test_a_second_run_may_be_queued_behind_it() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=worker(world)) as runtime:
        first = await runtime.start("agent", 1, thread="t1")
        queue = [await runtime.start("agent", n, thread="t1", if_busy="queue") for n in (2, 3)]
        other = await runtime.start("agent", 4, thread="t2")
        await seen(other, StepStarted)  # whoever could take them up had the time to
        assert [(await run.snapshot()).state for run in queue] == [RunState.QUEUED] * 2
        assert world.entered == 2
        world.go_on.set()
        assert [await run.result() for run in (first, *queue)] == [1, 2, 3]
        assert [n for n in world.did if n != 4] == [1, 2, 3]


async def test_what_is_queued_goes_on_when_the_run_before_it_is_cancelled() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=worker(world)) as runtime:
        first = await runtime.start("agent", 1, thread="t1")
        second = await runtime.start("agent", 2, thread="t1", if_busy="queue")
        await first.cancel()
        world.go_on.set()
        assert await second.result() == 2


async def test_a_second_run_may_become_a_redirect_of_the_first() -> None:
    world = OutsideWorld()

    async def listens(ctx: Context) -> list[str]:
        await ctx.step("work", world.slow, 1)
        return await ctx.instructions()

    async with runtime_with(agent=listens) as runtime:
        first = await runtime.start("agent", thread="t1")
        again = await runtime.start("agent", "use May", thread="t1", if_busy="redirect", by="ana")
        assert again.id == first.id
        world.go_on.set()
        assert await first.result() == ["use May"]
        third = await runtime.start("agent", "anew", thread="t1", if_busy="redirect")
        assert third.id != first.id
        await third.result()


# --- what the next one finds ---


async def test_the_next_run_finds_what_was_given_said_done_and_returned() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context, given: str) -> str:
        await ctx.say(f"hello {given}")
        await ctx.step("work", world.do, "worked")
        return "bye"

    async with runtime_with(agent=agent, remembers=remembers) as runtime:
        for name in ("ana", "bo"):
            await (await runtime.start("agent", name, thread="t1")).result()
        await (await runtime.start("agent", "eve", thread="another")).result()
        found = await (await runtime.start("remembers", thread="t1")).result()
    assert found == [
        {
            "state": "completed",
            "input": name,
            "said": [[f"hello {name}", False]],
            "done": [["work", "worked"]],
            "result": "bye",
            "error": "",
        }
        for name in ("ana", "bo")
    ]


async def test_of_a_failed_run_the_next_one_finds_the_error() -> None:
    async def agent(_: Context) -> None:
        raise ValueError("no luck")

    async with runtime_with(agent=agent, remembers=remembers) as runtime:
        await (await runtime.start("agent", thread="t1")).wait_for(RunState.FAILED)
        [turn] = await (await runtime.start("remembers", thread="t1")).result()
    assert (turn["state"], turn["error"]) == ("failed", "ValueError: no luck")


async def test_of_a_cancelled_run_the_next_one_finds_partial_text_marked_as_such() -> None:
    async with runtime_with(talks=talks, remembers=remembers) as runtime:
        await cut_off(runtime)
        [turn] = await (await runtime.start("remembers", thread="t1")).result()
    assert turn["state"] == "cancelled"
    assert turn["said"] == [["hello", False], ["the secret of ana is", True]]


async def test_partial_text_that_was_not_to_be_kept_is_not_found() -> None:
    async with runtime_with(talks=talks, remembers=remembers) as runtime:
        await cut_off(runtime, keep_partial=False)
        [turn] = await (await runtime.start("remembers", thread="t1")).result()
    assert turn["said"] == [["hello", False]]


async def test_a_child_is_no_turn_of_the_conversation() -> None:
    async def agent(ctx: Context) -> Any:
        return await (await ctx.spawn("remembers")).result()

    async with runtime_with(agent=agent, remembers=remembers) as runtime:
        await (await runtime.start("agent", thread="t1")).result()
        found = await (await runtime.start("remembers", thread="t1")).result()
    assert len(found) == 1


async def test_a_fork_finds_what_came_before_the_run_it_goes_on_from() -> None:
    async with runtime_with(talks=talks, remembers=remembers) as runtime:
        await cut_off(runtime)
        run = await runtime.start("remembers", thread="t1")
        found = await run.result()
        assert await (await run.fork()).result() == found != []


# --- quarantine ---


async def test_a_quarantined_run_is_not_found_by_the_next() -> None:
    async with runtime_with(talks=talks, remembers=remembers) as runtime:
        await cut_off(runtime, quarantine=True)
        assert await (await runtime.start("remembers", thread="t1")).result() == []


async def test_a_quarantined_run_cannot_be_forked() -> None:
    async with runtime_with(talks=talks) as runtime:
        run = await cut_off(runtime, quarantine=True)
        with pytest.raises(InvalidInput, match="quarantined"):
            await run.fork()
        assert len(await runtime.list()) == 1


async def test_viewers_of_a_quarantined_run_see_that_it_happened_and_nothing_of_it() -> None:
    async with runtime_with(talks=talks) as runtime:
        run = await cut_off(runtime, quarantine=True)
        shown = [item async for _, item in run.events()]
        assert len(shown) == (await run.snapshot()).seq
        assert "secret" not in str(shown)
        assert "hello" not in str(shown)
        assert (await run.receipt()).state is RunState.CANCELLED
        assert "secret" not in str(await run.receipt())


async def test_a_viewer_who_is_there_when_a_run_is_quarantined_sees_no_more_of_it() -> None:
    async with runtime_with(talks=talks) as runtime:
        run = await runtime.start("talks", "ana", thread="t1")
        shown: list[str] = []
        async for _, item in run.events():
            if isinstance(item, LiveText):
                shown.clear()  # up to here nobody knew better
                await run.cancel(quarantine=True)
            else:
                shown.append(str(item))
        assert any("TextEnded" in item for item in shown)
        assert "secret" not in " ".join(shown)


async def test_errors_plans_and_instructions_of_a_quarantined_run_are_withheld_too() -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> None:
        with pytest.raises(Exception, match="secret"):
            await ctx.step("work", world.fails, "secret error")
        async for _ in ctx.plan(["secret item"]):
            await ctx.ask("go on?")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await question(run)
        await run.redirect("secret instruction")
        await seen(run, QuestionAsked, nth=2)
        await run.cancel(quarantine=True)
        await run.wait_for(RunState.CANCELLED)
        assert [str(item) async for _, item in run.events() if "secret" in str(item)] == []
