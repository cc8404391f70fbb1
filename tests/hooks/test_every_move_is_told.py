"""Promise: whoever is to be told is told of every move of a run, into work and out of it.

Who asked, by what, and why; when it was asked for and when it had taken hold. Nothing else is told,
and nothing twice as long as nothing breaks.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import Context, RunHandle, RunState, Runtime, Timing, guard
from pullcord.hooks import Moved, Notice
from pullcord.killswitch.engaging import pull
from pullcord.killswitch.flags import Scope, new_note
from pullcord.limits import MaxSteps
from tests.hooks.moves import moves_in
from tests.runs.observed_runs import BOUND_S


class Told:
    """A hook that remembers, and lets the test wait."""

    def __init__(self) -> None:
        self.of: list[Moved] = []
        self._home, self._news = asyncio.get_running_loop(), asyncio.Event()

    def __call__(self, notice: Moved) -> None:
        self.of.append(notice)
        self._home.call_soon_threadsafe(self._news.set)

    async def until(self, after: RunState) -> Moved:
        while not (found := [m for m in self.of if m.after is after]):
            self._news.clear()
            if not any(m.after is after for m in self.of):
                await self._news.wait()
        return found[0]


async def waits(ctx: Context) -> str:
    return str(await ctx.ask("Which?"))


async def works(ctx: Context) -> None:
    for n in range(5):
        await ctx.step("work", done, n)


async def fails(_ctx: Context) -> None:
    raise LookupError("no such customer: ana@example.org")


async def says(ctx: Context) -> None:
    await ctx.say("the launch code is swordfish")


async def done(n: int) -> int:
    return n


async def cancelled(_runtime: Runtime, run: RunHandle) -> None:
    await run.wait_for(RunState.WAITING)
    await run.cancel(by="ana", reason="wrong path")
    await run.wait_for(RunState.CANCELLED)


async def paused(_runtime: Runtime, run: RunHandle) -> None:
    await run.wait_for(RunState.WAITING)
    await run.pause(by="bo", reason="lunch")
    await run.wait_for(RunState.PAUSED)
    await run.resume(by="bo")
    await run.wait_for(RunState.WAITING)


async def at_its_end(_runtime: Runtime, run: RunHandle) -> None:
    await run.wait_for(
        RunState.COMPLETED, RunState.FAILED, RunState.STOPPED, RunState.CANCELLED, RunState.PAUSED
    )


async def left(runtime: Runtime, run: RunHandle) -> None:
    await run.wait_for(RunState.WAITING)


Act = Callable[[Runtime, RunHandle], Awaitable[None]]
STORIES: dict[str, tuple[Any, dict[str, Any], Act, tuple[str, str, str, str]]] = {
    # the agent, how it is started, what is done, and (event, source, by, reason) of one move
    "a cancel": (waits, {}, cancelled, ("cancel_requested", "person", "ana", "wrong path")),
    "a pause": (waits, {}, paused, ("pause_requested", "person", "bo", "lunch")),
    "a resume": (waits, {}, paused, ("resumed", "person", "bo", "")),
    "the end": (works, {}, at_its_end, ("completed", "agent", "", "")),
    "a failure": (fails, {}, at_its_end, ("failed", "agent", "", "")),
    "a wait": (waits, {}, left, ("blocked", "", "", "")),
    "a limit": (
        works,
        {"limits": MaxSteps(2), "on_exhausted": "stop"},
        at_its_end,
        ("stopped", "limit", "limits", "MaxSteps(2)"),
    ),
    "a limit that asks": (
        works,
        {"limits": MaxSteps(2)},
        at_its_end,
        ("pause_requested", "limit", "limits", "MaxSteps(2)"),
    ),
}


@pytest.mark.parametrize("story", STORIES)
async def test_every_move_of_a_run_is_told_once_and_in_order(story: str, tmp_path: Path) -> None:
    agent, how, act, (event, source, by, reason) = STORIES[story]
    told = Told()
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(tmp_path / "r.db", agents={"agent": agent}, on_stop=told) as runtime,
    ):
        run = await runtime.start("agent", thread="t1", **how)
        await act(runtime, run)
    async with pullcord.open(tmp_path / "r.db") as runtime:
        records = await runtime.journal.read(run.id)
    assert [(m.seq, m.before, m.after.value) for m in told.of] == moves_in(records)
    assert {(m.run_id, m.agent, m.thread) for m in told.of} == {(run.id, "agent", "t1")}
    one = next(m for m in told.of if m.event == event)
    assert (one.source, one.by) == (source, by)
    assert reason in one.reason
    assert "example.org" not in str(told.of)


async def test_the_last_that_is_told_of_a_run_never_says_that_it_works() -> None:
    """However its process ended: given back, it is queued."""
    told = Told()

    async def busy(ctx: Context) -> None:
        begun.set()
        await asyncio.get_running_loop().create_future()

    begun = asyncio.Event()
    timing = Timing(shutdown_grace_s=0.01)
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents={"busy": busy}, timing=timing, on_stop=told) as runtime,
    ):
        await runtime.start("busy")
        await begun.wait()
    assert [(m.event, m.working) for m in told.of] == [
        ("created", False),
        ("claimed", True),
        ("requeued", False),
    ]
    assert (told.of[-1].source, told.of[-1].reason) == ("shutdown", "shutdown")


async def test_a_stop_says_when_it_was_asked_for_and_when_it_had_taken_hold() -> None:
    told = Told()

    async def stubborn(ctx: Context) -> None:
        begun.set()
        await let_go.wait()
        await ctx.checkpoint()

    begun, let_go = asyncio.Event(), asyncio.Event()
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents={"stubborn": stubborn}, on_stop=told) as runtime,
    ):
        run = await runtime.start("stubborn")
        await begun.wait()
        await run.cancel(by="ana", reason="too slow", via="api, token")
        asked = await told.until(RunState.CANCELLING)
        let_go.set()
        effect = await told.until(RunState.CANCELLED)
    assert (asked.by, asked.reason, asked.via) == ("ana", "too slow", "api, token")
    assert (asked.asked_at_ms, asked.effect_at_ms) == (asked.at_ms, 0)
    assert (effect.by, effect.reason, effect.source) == ("ana", "too slow", "person")
    assert (effect.asked_at_ms, effect.effect_at_ms) == (asked.at_ms, effect.at_ms)
    assert effect.rung


async def test_a_guard_that_stops_a_run_is_named() -> None:
    told = Told()
    watch = guard.Phrase("launch code", name="codes", on_hit="pause")
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents={"says": says}, guards=[watch], on_stop=told) as runtime,
    ):
        run = await runtime.start("says")
        await run.wait_for(RunState.PAUSED)
        stop = await told.until(RunState.PAUSED)
    assert stop.source == "guard"
    assert "codes" in stop.by + stop.reason
    assert "swordfish" not in str(told.of)


async def test_the_kill_switch_is_named(tmp_path: Path) -> None:
    told = Told()
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(tmp_path / "r.db", agents={"waits": waits}, on_stop=told) as runtime,
    ):
        run = await runtime.start("waits")
        await run.wait_for(RunState.WAITING)
        note = new_note(by="ana", reason="it went wild", via="test")
        journal = runtime.journal
        await asyncio.to_thread(pull, journal.kill_switch.flags, journal.side, Scope(), note)
        stop = await told.until(RunState.PAUSED)
    assert (stop.source, stop.by, stop.reason) == ("kill_switch", "ana", "it went wild")
    assert not stop.working


async def test_children_and_runs_of_other_processes_are_told_too(tmp_path: Path) -> None:
    """A hook is told of the store, not of what its own process does."""
    told = Told()

    async def parent(ctx: Context) -> None:
        await (await ctx.spawn("waits")).result()

    agents: Any = {"parent": parent, "waits": waits}
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(tmp_path / "r.db", on_stop=told),  # it knows no agent
        pullcord.open(tmp_path / "r.db", agents=agents) as runtime,
    ):
        run = await runtime.start("parent")
        await told.until(RunState.WAITING)
        await run.cancel(by="ana")
        await run.wait_for(RunState.CANCELLED)
        child = next(iter((await run.snapshot()).children))
    ends = {m.run_id: m for m in told.of if m.after is RunState.CANCELLED}
    assert ends.keys() == {run.id, child}
    assert (ends[child].source, ends[child].parent) == ("parent", run.id)


async def test_several_hooks_are_told_each_for_itself() -> None:
    first, second = Told(), Told()
    cards = list[Notice]()
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(
            ":memory:", agents={"works": works}, on_stop=[first, second], notify=[cards.append]
        ) as runtime,
    ):
        await (await runtime.start("works")).result()
    assert first.of == second.of
    assert [m.after for m in first.of] == [RunState.QUEUED, RunState.RUNNING, RunState.COMPLETED]
    assert cards == []


@pytest.mark.parametrize("given", [3, "https://example.org", [3]], ids=str)
def test_what_cannot_be_told_is_refused(given: Any, tmp_path: Path) -> None:
    with pytest.raises(pullcord.PullcordError, match="Nothing was opened"):
        pullcord.open(tmp_path / "r.db", on_stop=given)
    assert not (tmp_path / "r.db").exists()


async def test_a_hook_that_looks_on_changes_nothing_of_a_run() -> None:
    """The same records, with and without."""

    async def names(**how: Any) -> list[str]:
        async with pullcord.open(":memory:", agents={"works": works}, **how) as runtime:
            run = await runtime.start("works")
            await run.result()
            return [type(r.event).__name__ for r in await runtime.journal.read(run.id)]

    async with asyncio.timeout(BOUND_S):
        assert await names() == await names(on_stop=Told())
