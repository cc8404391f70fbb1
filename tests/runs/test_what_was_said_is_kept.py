"""What an agent has said is kept: whole, or up to where it was cut; and it is not said twice."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any

from pullcord import Context, Record, RunHandle, RunState
from pullcord.core.events import StepStarted, TextEnded
from pullcord.journal.store import LiveText
from pullcord.journal.stored_runs.run_records import Cursor
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


def speaker(world: OutsideWorld) -> Any:
    """Says `one two`, and is held after the first word."""

    async def words() -> AsyncIterator[str]:
        world.entered += 1
        yield "one "
        await world.go_on.wait()
        yield "two"

    async def agent(ctx: Context) -> str:
        return await ctx.say(words())

    return agent


async def shown(run: RunHandle, count: int = 1, after: Cursor | None = None) -> list[Any]:
    """Wait until so many pieces of live text were shown, and return all that came by."""
    items: list[Any] = []
    async with aclosing(run.events(after=after or Cursor())) as stream:
        async for cursor, item in stream:
            items.append((cursor, item))
            if isinstance(item, LiveText):
                count -= 1
                if not count:
                    break
    return items


def texts(ended: list[TextEnded]) -> list[tuple[str, bool]]:
    return [(event.text, event.complete) for event in ended]


async def test_a_whole_text_is_one_record() -> None:
    async def agent(ctx: Context) -> str:
        return await ctx.say("hello")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == "hello"
        assert texts(await happened(runtime, run.id, TextEnded)) == [("hello", True)]


async def test_a_streamed_text_is_shown_as_it_comes_and_kept_whole() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=speaker(world)) as runtime:
        run = await runtime.start("agent")
        [*_, (_, piece)] = await shown(run)
        assert piece.text == "one "
        world.go_on.set()
        assert await run.result() == "one two"
        assert texts(await happened(runtime, run.id, TextEnded)) == [("one two", True)]


async def test_a_pause_in_memory_goes_on_with_the_same_text() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=speaker(world)) as runtime:
        run = await runtime.start("agent")
        await shown(run)
        await run.pause()
        await run.wait_for(RunState.PAUSED)
        world.go_on.set()
        await run.resume()
        assert await run.result() == "one two"
        assert texts(await happened(runtime, run.id, TextEnded)) == [("one two", True)]
    assert world.entered == 1


async def test_a_cancel_keeps_what_was_said_and_marks_it_as_partial() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=speaker(world)) as runtime:
        run = await runtime.start("agent")
        await shown(run)
        await run.cancel()
        assert (await run.receipt()).partial_text == ("one ",)
        assert texts(await happened(runtime, run.id, TextEnded)) == [("one ", False)]


async def test_after_a_cancel_no_text_is_accepted_however_long_the_model_goes_on() -> None:
    world = OutsideWorld()

    async def stubborn() -> AsyncIterator[str]:
        yield "one "
        while True:
            try:
                await world.go_on.wait()
                break
            except asyncio.CancelledError:
                world.go_on.set()
        for word in ("two ", "three"):
            yield word

    async def agent(ctx: Context) -> str:
        return await ctx.say(stubborn())

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await shown(run)
        await run.cancel()
        assert (await run.receipt()).partial_text == ("one ",)
    assert world.go_on.is_set()


async def test_a_text_cut_by_parking_is_kept_and_said_anew() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=speaker(world), timing=PARKING) as runtime:
        run = await runtime.start("agent")
        await shown(run)
        await run.pause()
        await run.wait_for(RunState.PAUSED)
        await unowned(runtime, run)
        assert texts(await happened(runtime, run.id, TextEnded)) == [("one ", False)]
        world.go_on.set()
        await run.resume()
        assert await run.result() == "one two"
        said = texts(await happened(runtime, run.id, TextEnded))
    assert said == [("one ", False), ("one two", True)]


async def test_a_text_cut_by_a_shutdown_is_kept_and_said_anew(tmp_path: Path) -> None:
    world = OutsideWorld()
    async with runtime_with(tmp_path / "runs.db", agent=speaker(world)) as runtime:
        run = await runtime.start("agent")
        await shown(run)
    async with runtime_with(tmp_path / "runs.db", agent=speaker(world)) as runtime:
        run = await runtime.get(run.id)
        world.go_on.set()
        assert await run.result() == "one two"
        said = texts(await happened(runtime, run.id, TextEnded))
    assert said == [("one ", False), ("one two", True)]


async def test_a_complete_text_is_not_said_again(tmp_path: Path) -> None:
    world = OutsideWorld()
    world.go_on.set()
    speak = speaker(world)

    async def agent(ctx: Context) -> list[str]:
        said = [await speak(ctx), await ctx.say("whole")]
        await ctx.ask("go on?")
        return said

    result, run = await two_lives(tmp_path / "runs.db", agent, agent)
    assert result == ["one two", "whole"]
    assert world.entered == 1
    assert list(run.texts.values()) == [True, True]


async def test_a_stream_that_fails_leaves_what_it_had_said() -> None:
    async def breaks() -> AsyncIterator[str]:
        yield "one "
        raise OSError("connection lost")

    async def agent(ctx: Context) -> str:
        return await ctx.say(breaks())

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert (await run.wait_for(RunState.FAILED)).error == "OSError: connection lost"
        assert texts(await happened(runtime, run.id, TextEnded)) == [("one ", False)]


async def test_two_voices_at_once_are_two_texts() -> None:
    worlds = OutsideWorld(), OutsideWorld()

    async def agent(ctx: Context) -> list[str]:
        both = (speaker(w)(ctx.branch(str(n))) for n, w in enumerate(worlds))
        return list(await asyncio.gather(*both))

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await shown(run, 2)
        worlds[1].go_on.set()
        await seen(run, TextEnded)
        worlds[0].go_on.set()
        assert await run.result() == ["one two", "one two"]
        assert len(await happened(runtime, run.id, TextEnded)) == 2


# --- whoever looks on ---


def chatty(world: OutsideWorld) -> Any:
    speak = speaker(world)

    async def agent(ctx: Context) -> None:
        await ctx.say("hello")
        await ctx.step("do", world.do, 1)
        await speak(ctx)
        await ctx.step("do", world.do, 2)

    return agent


async def test_a_viewer_may_come_back_at_any_place_of_a_text_under_way() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=chatty(world)) as runtime:
        run = await runtime.start("agent")
        sofar = await shown(run)
        for place, (cursor, _) in enumerate(sofar[:-1]):
            assert await shown(run, after=cursor) == sofar[place + 1 :]


async def test_a_viewer_who_stays_misses_nothing_and_sees_nothing_twice() -> None:
    world = OutsideWorld()
    async with runtime_with(agent=chatty(world)) as runtime:
        run = await runtime.start("agent")

        async def watch() -> list[Any]:
            seen = list[Any]()
            async for cursor, item in run.events():
                seen.append((cursor, item))
                if isinstance(item, LiveText):
                    world.go_on.set()
            return seen

        watching = asyncio.create_task(watch())
        whole = await watching
        records = [item for _, item in whole if isinstance(item, Record)]
        assert records == await runtime.journal.read(run.id)
        assert next(i.text for _, i in whole if isinstance(i, LiveText)) == "one "
        assert len({cursor for cursor, _ in whole}) == len(whole)
        for place, (cursor, _) in enumerate(whole[:-1]):
            rest = [item async for _, item in run.events(after=cursor)]
            assert rest == [i for _, i in whole[place + 1 :] if isinstance(i, Record)]


async def test_a_viewer_who_has_seen_the_end_is_not_kept_waiting() -> None:
    async def agent(_: Context) -> str:
        return "done"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        seen_by_now = [cursor async for cursor, _ in run.events()]
        assert [item async for item in run.events(after=seen_by_now[-1])] == []


async def test_a_viewer_in_another_process_sees_the_same(tmp_path: Path) -> None:
    world = OutsideWorld()
    world.go_on.set()

    async def agent(ctx: Context) -> None:
        await speaker(world)(ctx)
        await ctx.ask("go on?")

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent")
        async with runtime_with(tmp_path / "runs.db") as elsewhere:
            other = await elsewhere.get(run.id)
            watching = asyncio.create_task(seen(other, TextEnded))
            assert (await watching).text == "one two"
            await other.answer(await question(other))
        await run.result()
        assert await happened(runtime, run.id, StepStarted) == []
