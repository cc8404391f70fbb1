"""A tool in a process of its own stands still while its run is paused, goes on where it stood, and
is gone when the receipt says so."""

import asyncio
import os
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import pytest

import pullcord
from pullcord import Context, NotDone, Retry, RunHandle, RunState, Runtime, StepError, Timing
from pullcord.core.events import (
    AttentionRaised,
    DoubtSettled,
    Hurried,
    Paused,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
    TextEnded,
)
from pullcord.runtime.agents import Function
from pullcord.runtime.policy import Tool
from pullcord.testing import ManualClock
from tests.conftest import FULL
from tests.declaring import declared_as
from tests.runs import some_tools
from tests.runs.observed_runs import HASTY, happened, question, runtime_with, seen, shown, unowned

CYCLES: Final = 50 if FULL else 6
PATIENT: Final = 10**6
MANY: Final = 20


def calls(tool: Callable[..., Any], *args: Any) -> Function:
    async def agent(ctx: Context) -> Any:
        return await ctx.tool(tool, *args)

    return agent


async def nap(ctx: Context) -> None:
    """Another run, in which some time passes for all the processes here."""
    await ctx.exec("sleep", "0.3")


async def time_passes(runtime: Runtime) -> None:
    await (await runtime.start("nap")).result()


async def begun(runtime: Runtime, *, run_id: str = "r1", wait_for: str = "begun\n") -> RunHandle:
    """The run, whose tool has said that it has begun."""
    run = await runtime.start("agent", run_id=run_id)
    await shown(run, wait_for)
    return run


async def pause(run: RunHandle) -> None:
    await run.pause(by="ana")
    await run.wait_for(RunState.PAUSED)


async def attempts(runtime: Runtime) -> list[int]:
    return [event.attempt for event in await happened(runtime, "r1", StepStarted)]


# --- cancel ---


async def test_nothing_is_written_after_the_receipt(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    beats = calls(some_tools.beats, str(path), 10**6, 0.01)
    async with runtime_with(agent=beats, nap=nap) as runtime:
        run = await begun(runtime, wait_for="beat 2\n")
        await run.cancel(by="ana")
        receipt = await run.receipt()
        written = path.read_text()
        await time_passes(runtime)
        assert path.read_text() == written
    assert (receipt.interrupted, receipt.rung) == (("beats",), "terminated")
    assert receipt.partial_text[0].startswith("beat 0\nbeat 1\nbeat 2\n")


async def test_a_tool_is_told_first_and_may_clean_up(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    async with runtime_with(agent=calls(some_tools.cleans_up, str(path))) as runtime:
        run = await begun(runtime)
        await run.cancel(by="ana")
        receipt = await run.receipt()
        [interrupted] = await happened(runtime, run.id, StepInterrupted)
    assert path.read_text() == "cleaned up\n"
    assert (receipt.interrupted, receipt.rung) == (("cleans_up",), "terminated")
    assert interrupted.began


async def test_one_that_ignores_that_is_killed_at_its_deadline() -> None:
    stubborn = pullcord.tool(stop_grace_s=0.05)(some_tools.ignores_sigterm)
    async with runtime_with(agent=calls(stubborn)) as runtime:
        run = await begun(runtime)
        await run.cancel(by="ana")
        receipt = await run.receipt()
        [interrupted] = await happened(runtime, run.id, StepInterrupted)
    assert (receipt.interrupted, receipt.rung) == (("ignores_sigterm",), "killed")
    assert interrupted.ladder_ms["terminated"] < 50 <= interrupted.ladder_ms["killed"]
    assert receipt.attention == ()


@pytest.mark.parametrize("presses", [1, 2])
async def test_a_second_press_or_a_hard_one_kills_it_at_once(presses: int) -> None:
    stubborn = pullcord.tool(stop_grace_s=PATIENT)(some_tools.ignores_sigterm)
    async with runtime_with(agent=calls(stubborn)) as runtime:
        run = await begun(runtime)
        if presses == 2:
            assert (await run.cancel(by="ana")).verdict == "applied"
            assert (await run.snapshot()).state is RunState.CANCELLING
        assert (await run.cancel(by="ana", now=True)).verdict == "applied"
        receipt = await run.receipt()
        assert len(await happened(runtime, run.id, Hurried)) == presses - 1
    assert (receipt.interrupted, receipt.rung) == (("ignores_sigterm",), "killed")


async def test_a_tool_whose_agent_loses_its_patience_is_stopped(tmp_path: Path) -> None:
    path, lost = tmp_path / "lines", asyncio.Event()

    async def agent(ctx: Context) -> str:
        call = asyncio.ensure_future(ctx.tool(some_tools.beats, str(path), 10**6, 0.01))
        await lost.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        written = path.read_text()
        await ctx.exec("sleep", "0.2")
        return "still" if path.read_text() == written else "it went on"

    async with runtime_with(agent=agent) as runtime:
        run = await begun(runtime, wait_for="beat 2\n")
        lost.set()
        assert await run.result() == "still"
        [interrupted] = await happened(runtime, run.id, StepInterrupted)
    assert interrupted.rung == "terminated"


async def test_of_many_at_once_each_is_stopped(tmp_path: Path) -> None:
    async def agent(ctx: Context) -> None:
        async def one(number: int) -> None:
            path = str(tmp_path / f"lines-{number}")
            await ctx.branch(str(number)).tool(some_tools.beats, path, 10**6, 0.01)

        await asyncio.gather(*(one(number) for number in range(MANY)))

    async with runtime_with(agent=agent, nap=nap) as runtime:
        run = await runtime.start("agent", run_id="r1")
        for nth in range(1, MANY + 1):
            await seen(run, StepStarted, nth=nth)
        await run.cancel(by="ana")
        receipt = await run.receipt()
        written = [path.read_text() for path in tmp_path.glob("lines-*")]
        await time_passes(runtime)
        assert [path.read_text() for path in tmp_path.glob("lines-*")] == written
    stopped = Counter(step.heading for step in receipt.steps)
    assert stopped["interrupted"] + stopped["not_attempted"] == MANY
    assert stopped["interrupted"] >= len(written)


def descriptors(store: Path) -> int:
    """How many are open, without those of the store: it keeps as many readers as it once needed."""
    links = [Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd")]
    return sum(link.is_symlink() and store not in link.readlink().parents for link in links)


async def test_calls_leave_nothing_open_in_this_process(tmp_path: Path) -> None:
    """Whether they finish, fail, are stopped, or cannot be started."""

    async def agent(ctx: Context) -> list[int]:
        found: list[int] = []
        for _ in range(4):
            for call in (
                ctx.tool(some_tools.add, 1),
                ctx.tool(some_tools.exits),
                ctx.exec("no-such-command"),
                ctx.exec("sh", "-c", "sleep 60 & echo x"),
            ):
                with suppress(StepError):
                    await call
            slow = asyncio.ensure_future(ctx.exec("sleep", "60"))
            await ctx.exec("true")
            slow.cancel()
            with suppress(asyncio.CancelledError):
                await slow
            found.append(descriptors(tmp_path))
        return found

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        found = await (await runtime.start("agent")).result()
    assert found[1:] == found[:1] * 3


# --- its time ---


@pytest.mark.parametrize(("effect", "maybe"), [("once", "maybe"), ("none", "")])
async def test_one_that_takes_too_long_is_stopped_and_has_failed(effect: str, maybe: str) -> None:
    clock = ManualClock()
    slow = declared_as(timeout_s=10, effect=effect, stop_grace_s=0)(some_tools.ignores_sigterm)

    async def agent(ctx: Context) -> str:
        with pytest.raises(StepError) as told:
            await ctx.tool(slow)
        return told.value.error

    async with runtime_with(agent=agent, clock=clock) as runtime:
        run = await begun(runtime)
        clock.advance(9.9)
        assert (await run.snapshot()).open_steps()
        clock.advance(0.1)
        said = await run.result()
        [failed] = await happened(runtime, run.id, StepFailed)
        raised = [item.kind for item in await happened(runtime, run.id, AttentionRaised)]
        assert raised == (["in_doubt"] if maybe else [])
    assert said.startswith("TimeoutError: it took longer than 10 s")
    assert (failed.error, failed.happened) == (said, maybe)


@pytest.mark.parametrize("left_s", [0.5, -0.5])
async def test_its_time_does_not_pass_while_it_is_frozen(tmp_path: Path, left_s: float) -> None:
    clock, there = ManualClock(), tmp_path / "there"
    slow = pullcord.tool(timeout_s=10)(some_tools.waits_for)
    talk = asyncio.Event()

    async def agent(ctx: Context) -> Any:
        async def talks() -> None:
            """What is said is said only when the run really goes on."""
            while True:
                await talk.wait()
                talk.clear()
                await ctx.say("going on")

        talking = asyncio.create_task(talks())
        try:
            return await ctx.tool(slow, str(there))
        finally:
            talking.cancel()

    async with runtime_with(agent=agent, clock=clock) as runtime:
        run = await begun(runtime)
        for nth in (1, 2):
            clock.advance(3)
            await pause(run)
            clock.advance(50)
            await run.resume(by="ana")
            talk.set()
            await seen(run, TextEnded, text="going on", nth=nth)
        clock.advance(4 - left_s)
        if left_s > 0:
            there.write_text("in time")
            assert await run.result() == "in time"
        else:
            assert "took longer than 10 s" in (await run.wait_for(RunState.FAILED)).error


async def test_a_call_that_timed_out_may_be_tried_again(tmp_path: Path) -> None:
    clock, path = ManualClock(), tmp_path / "keys"
    again = Retry(attempts=2, wait_s=0)
    slow = pullcord.tool(timeout_s=10, effect="idempotent", retry=again)(remembers_its_key)
    async with runtime_with(agent=calls(slow, str(path)), clock=clock) as runtime:
        run = await begun(runtime)
        clock.advance(10)
        await seen(run, StepFailed)
        while not (await run.snapshot()).ended:
            clock.advance(0)
            await asyncio.sleep(0.001)
        assert await run.result() == "the second time"
    first, second = path.read_text().split()
    assert first == second


def remembers_its_key(ctx: pullcord.ToolContext, path: str) -> str:
    if some_tools.happened(path, ctx.idempotency_key):
        return "the second time"
    return some_tools.waits_for(f"{path}-never")


# --- pause ---


@pytest.mark.campaign
async def test_pauses_leave_no_trace_in_what_it_puts_out(tmp_path: Path) -> None:
    """It writes as fast as it can, and is frozen wherever it happens to be."""
    path = tmp_path / "lines"
    lines = CYCLES * 25
    beats = calls(some_tools.beats, str(path), lines, 0.002)
    async with runtime_with(agent=beats) as runtime:
        run = await begun(runtime, wait_for="beat 0\n")
        cycles = 0
        while cycles < CYCLES and (await run.snapshot()).state is RunState.RUNNING:
            await pause(run)
            cycles += 1
            written = path.read_text()
            assert (await run.snapshot()).pause.frozen == ("beats",)  # pyright: ignore[reportOptionalMemberAccess]
            await run.resume(by="ana")
            await shown_after(run, written)
        assert await run.result() == lines
        [ended] = await happened(runtime, run.id, TextEnded)
        pauses = await happened(runtime, run.id, Paused)
        assert await attempts(runtime) == [1]
    assert cycles == CYCLES
    assert path.read_text().split() == [str(number) for number in range(lines)]
    assert ended.text == "".join(f"beat {number}\n" for number in range(lines))
    assert all(paused.frozen == ("beats",) for paused in pauses)


async def shown_after(run: RunHandle, written: str) -> None:
    """Wait until it has put out a line that it had not written before."""
    await shown(run, f"beat {len(written.split())}\n")


async def test_nothing_is_written_while_it_is_paused(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    beats = calls(some_tools.beats, str(path), 10**6, 0.01)
    async with runtime_with(agent=beats, nap=nap) as runtime:
        run = await begun(runtime, wait_for="beat 2\n")
        await pause(run)
        written = path.read_text()
        await time_passes(runtime)
        assert path.read_text() == written
        receipt = await run.receipt()
        await run.resume(by="ana")
        await shown_after(run, written)
        await run.cancel(by="ana")
        await run.receipt()
    assert (receipt.state, receipt.under_way) == (RunState.PAUSED, ("beats",))


async def test_quick_presses_leave_it_as_the_last_one_wants_it(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    beats = calls(some_tools.beats, str(path), 10**6, 0.01)
    async with runtime_with(agent=beats, nap=nap) as runtime:
        run = await begun(runtime, wait_for="beat 2\n")
        for _ in range(10):
            await run.pause(by="ana")
            await run.resume(by="ana")
        written = path.read_text()
        await shown_after(run, written)
        for _ in range(10):
            await run.resume(by="ana")
            await run.pause(by="ana")
        paused = await run.wait_for(RunState.PAUSED)
        await time_passes(runtime)
        written = path.read_text()
        await time_passes(runtime)
        assert path.read_text() == written
        assert await attempts(runtime) == [1]
        assert paused.pause is not None
        assert paused.pause.frozen == ("beats",)
        await run.cancel(by="ana")
        await run.receipt()


async def test_a_pause_behind_a_resume_that_nobody_has_taken_up_still_lists_what_is_frozen(
    tmp_path: Path,
) -> None:
    """Both are recorded before the owner gets a turn."""
    path = tmp_path / "lines"
    beats = calls(some_tools.beats, str(path), 10**6, 0.01)
    async with runtime_with(agent=beats, nap=nap) as runtime:
        run = await begun(runtime, wait_for="beat 2\n")
        await pause(run)
        pressed = [asyncio.ensure_future(press) for press in (run.resume(), run.pause())]
        await asyncio.gather(*pressed)
        paused = await run.wait_for(RunState.PAUSED)
        await time_passes(runtime)
        written = path.read_text()
        await time_passes(runtime)
        assert path.read_text() == written
        assert paused.pause is not None
        assert paused.pause.frozen == ("beats",)
        await run.cancel(by="ana")
        await run.receipt()


async def test_a_cancel_stops_it_also_while_it_is_frozen(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    async with runtime_with(agent=calls(some_tools.cleans_up, str(path))) as runtime:
        run = await begun(runtime)
        await pause(run)
        await run.cancel(by="ana")
        receipt = await run.receipt()
    assert path.read_text() == "cleaned up\n"
    assert (receipt.interrupted, receipt.rung) == (("cleans_up",), "terminated")


async def test_a_pause_lets_it_finish_if_it_says_so(tmp_path: Path) -> None:
    there = tmp_path / "there"
    finishes = pullcord.tool(on_pause="finish")(some_tools.waits_for)
    async with runtime_with(agent=calls(finishes, str(there)), nap=nap) as runtime:
        run = await begun(runtime)
        await run.pause(by="ana")
        await time_passes(runtime)
        assert (await run.snapshot()).state is RunState.PAUSING
        there.write_text("finished")
        await run.wait_for(RunState.COMPLETED, RunState.PAUSED)
        await run.resume(by="ana")
        assert await run.result() == "finished"


@pytest.mark.parametrize("how", ["on_pause", "now"])
async def test_a_pause_cuts_it_if_it_or_somebody_says_so(tmp_path: Path, how: str) -> None:
    there = tmp_path / "there"
    says = {"on_pause": "cancel"} if how == "on_pause" else {}
    cut = declared_as(effect="idempotent", **says)(some_tools.waits_for)
    async with runtime_with(agent=calls(cut, str(there))) as runtime:
        run = await begun(runtime)
        await run.pause(by="ana", now=how == "now")
        paused = await run.wait_for(RunState.PAUSED)
        there.write_text("the second time")
        await run.resume(by="ana")
        assert await run.result() == "the second time"
        assert await attempts(runtime) == [1, 2]
    assert paused.pause is not None
    assert paused.pause.frozen == ()


async def test_a_parked_run_keeps_its_frozen_tool_in_memory(tmp_path: Path) -> None:
    there = tmp_path / "there"
    frozen, plain = calls(some_tools.waits_for, str(there)), asks
    at_once = Timing(park_after_s=0)
    async with runtime_with(agent=frozen, plain=plain, timing=at_once) as runtime:
        run = await begun(runtime)
        await pause(run)
        other = await runtime.start("plain")
        await pause(other)
        await unowned(runtime, other)  # as this one would be, if nothing of it were frozen
        assert (await runtime.journal.head(run.id)).holder.owner
        there.write_text("where it stood")
        await run.resume(by="ana")
        assert await run.result() == "where it stood"
        assert await attempts(runtime) == [1]


async def asks(ctx: Context) -> None:
    await ctx.ask("go on?")


async def test_somebody_in_another_process_may_resume_it(tmp_path: Path) -> None:
    store, there = tmp_path / "runs.db", tmp_path / "there"
    async with runtime_with(store, agent=calls(some_tools.waits_for, str(there))) as runtime:
        run = await begun(runtime)
        await other_process(store, "pause")
        await run.wait_for(RunState.PAUSED)
        there.write_text("where it stood")
        await other_process(store, "resume")
        assert await run.result() == "where it stood"
        assert await attempts(runtime) == [1]
        [paused] = await happened(runtime, "r1", Paused)
    assert paused.frozen == ("waits_for",)


async def other_process(store: Path, verb: str) -> None:
    words = ["-m", "pullcord", verb, "r1", "--store", str(store)]
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, stdout=asyncio.subprocess.DEVNULL
    )
    assert await process.wait() == 0


# --- shutdown ---


async def test_a_shutdown_thaws_it_for_its_grace_and_it_may_finish(tmp_path: Path) -> None:
    store, there = tmp_path / "runs.db", tmp_path / "there"
    agent = calls(some_tools.waits_for, str(there))
    async with runtime_with(store, agent=agent) as runtime:
        run = await begun(runtime)
        await pause(run)
        there.write_text("finished")
        assert (await run.snapshot()).open_steps()
    async with runtime_with(store, agent=agent) as runtime:
        run = await runtime.get("r1")
        now = await run.snapshot()
        assert (now.state, now.open_steps()) == (RunState.PAUSED, [])
        assert len(await happened(runtime, "r1", StepFinished)) == 1
        await run.resume(by="ana")
        assert await run.result() == "finished"
        assert await attempts(runtime) == [1]


@pytest.mark.parametrize("state", ["running", "frozen"])
async def test_else_nobody_knows_and_a_person_is_asked(tmp_path: Path, state: str) -> None:
    store, there = tmp_path / "runs.db", tmp_path / "there"
    agent = calls(some_tools.waits_for, str(there))
    async with runtime_with(store, agent=agent, timing=HASTY) as runtime:
        run = await begun(runtime)
        if state == "frozen":
            await pause(run)
    async with runtime_with(store, agent=agent) as runtime:
        run = await runtime.get("r1")
        [doubt] = await happened(runtime, "r1", StepInDoubt)
        if state == "frozen":
            assert (await run.snapshot()).state is RunState.PAUSED
            await run.resume(by="ana")
        asked = await question(run, kind="doubt")
        [item] = await happened(runtime, "r1", AttentionRaised)
        assert (item.kind, item.item) == ("in_doubt", doubt.step)
        assert (await run.answer(asked, {"happened": "by hand"}, by="ana")).holds
        assert await run.result() == "by hand"
        [settled] = await happened(runtime, "r1", DoubtSettled)
        assert await attempts(runtime) == [1]
    assert (settled.choice, settled.by) == ("happened", "ana")


@pytest.mark.parametrize("state", ["running", "frozen"])
async def test_what_may_be_begun_again_is_begun_again(tmp_path: Path, state: str) -> None:
    store, there = tmp_path / "runs.db", tmp_path / "there"
    agent = calls(pullcord.tool(effect="none")(some_tools.waits_for), str(there))
    async with runtime_with(store, agent=agent, timing=HASTY) as runtime:
        run = await begun(runtime)
        if state == "frozen":
            await pause(run)
    there.write_text("the second time")
    async with runtime_with(store, agent=agent) as runtime:
        run = await runtime.get("r1")
        if state == "frozen":
            await run.resume(by="ana")
        assert await run.result() == "the second time"
        assert await attempts(runtime) == [1, 2]


# --- redirect ---


def redirected(tool: Tool[..., Any], *args: Any) -> Function:
    async def agent(ctx: Context) -> Any:
        try:
            return await ctx.tool(tool, *args)
        except NotDone as error:
            told = [error.outcome, *await ctx.instructions()]
            await ctx.ask("go on?")
            return told

    return agent


async def test_a_redirect_stops_it_if_it_says_so_and_its_agent_is_told_in_every_life(
    tmp_path: Path,
) -> None:
    store, path = tmp_path / "runs.db", tmp_path / "lines"
    agent = redirected(pullcord.tool(on_redirect="cancel")(some_tools.cleans_up), str(path))
    async with runtime_with(store, agent=agent) as runtime:
        run = await begun(runtime)
        await run.redirect("the other one", by="ana")
        await question(run)
        [interrupted] = await happened(runtime, "r1", StepInterrupted)
    assert (interrupted.redirected, interrupted.rung) == (True, "terminated")
    assert path.read_text() == "cleaned up\n"
    async with runtime_with(store, agent=agent) as runtime:
        run = await runtime.get("r1")
        await run.answer(await question(run), "yes")
        assert await run.result() == ["interrupted", "the other one"]
        assert await attempts(runtime) == [1]


async def test_a_redirect_lets_it_finish_if_it_says_nothing_else(tmp_path: Path) -> None:
    there = tmp_path / "there"
    agent = redirected(pullcord.tool(some_tools.waits_for), str(there))
    async with runtime_with(agent=agent) as runtime:
        run = await begun(runtime)
        await run.redirect("the other one", by="ana")
        there.write_text("finished")
        assert await run.result() == "finished"


async def test_a_redirect_while_it_is_frozen_stops_it_when_the_run_goes_on(tmp_path: Path) -> None:
    path = tmp_path / "lines"
    agent = redirected(pullcord.tool(on_redirect="cancel")(some_tools.cleans_up), str(path))
    async with runtime_with(agent=agent) as runtime:
        run = await begun(runtime)
        await pause(run)
        await run.redirect("the other one", by="ana")
        assert (await run.snapshot()).state is RunState.PAUSED
        await run.resume(by="ana")
        await run.answer(await question(run), "yes")
        assert await run.result() == ["interrupted", "the other one"]
    assert path.read_text() == "cleaned up\n"
