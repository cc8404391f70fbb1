"""A tool that shares our process is asked to stop, in rungs with their times. What ignores that,
and what runs in a thread, is let go of by its deadline, and named; what still comes out of it is
kept."""

import asyncio
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import (
    Context,
    NotDone,
    Receipt,
    Retry,
    RunHandle,
    RunState,
    Runtime,
    StepError,
    ToolContext,
)
from pullcord.core.events import (
    AttentionRaised,
    LateResult,
    Paused,
    StepFailed,
    StepInterrupted,
    StepStarted,
    TextEnded,
)
from pullcord.core.values import load
from pullcord.runtime.agents import Function
from pullcord.runtime.policy import Tool
from pullcord.testing import ManualClock
from tests.declaring import declared_as
from tests.runs.observed_runs import HASTY, happened, question, runtime_with, seen

HURRY_S = 0.05


class Desk:
    """Tools in this process, held where the test wants them."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()
        self.in_thread = threading.Event()
        self.heard: list[str] = []  # how a tool was told to stop
        self.told = asyncio.Event()
        self._loop = asyncio.get_running_loop()

    async def waits(self) -> str:
        self.begun.set()
        await self.go_on.wait()
        return "done"

    async def cooperates(self) -> str:
        try:
            return await self.waits()
        except asyncio.CancelledError:
            self._hear()
            raise

    async def ignores(self) -> str:
        """Go on, whoever cancels it."""
        while not self.go_on.is_set():
            try:
                await self.waits()
            except asyncio.CancelledError:
                self._hear()
        return "done all the same"

    async def hesitates(self) -> str:
        """Lose the first cancellation, and heed the second."""
        try:
            await self.waits()
        except asyncio.CancelledError:
            self._hear()
        return await self.cooperates()

    def _hear(self) -> None:
        self.heard.append("cancelled")
        self.told.set()

    async def apologises(self) -> str:
        try:
            return await self.waits()
        except asyncio.CancelledError:
            raise ConnectionError("cut off") from None

    async def finishes_anyway(self) -> str:
        try:
            return await self.waits()
        except asyncio.CancelledError:
            return "done in the same instant"

    def blocks(self) -> str:
        """In a thread."""
        self._loop.call_soon_threadsafe(self.begun.set)
        self.in_thread.wait()
        return "done all the same"

    async def stands(self, ctx: ToolContext) -> str:
        """Work in slices, with a checkpoint between them."""
        while not self.go_on.is_set():
            self.begun.set()
            await asyncio.sleep(0)
            await ctx.checkpoint()
        return "done"


@pytest.fixture
async def desk() -> AsyncGenerator[Desk]:
    """What is still held when a test has failed is let go of, or it would hang for ever."""
    made = Desk()
    yield made
    made.go_on.set()
    made.in_thread.set()


def calls(tool: Callable[..., Any] | Tool[..., Any]) -> Function:
    async def agent(ctx: Context) -> Any:
        return await ctx.tool(tool)

    return agent


async def begun(runtime: Runtime, desk: Desk) -> RunHandle:
    run = await runtime.start("agent", run_id="r1")
    await desk.begun.wait()
    return run


# --- cancel ---


@pytest.mark.parametrize("how", ["cooperates", "apologises", "waits"])
async def test_a_tool_that_heeds_its_cancellation_is_interrupted(desk: Desk, how: str) -> None:
    async with runtime_with(agent=calls(getattr(desk, how))) as runtime:
        run = await begun(runtime, desk)
        await run.cancel(by="ana")
        receipt = await run.receipt()
        [interrupted] = await happened(runtime, run.id, StepInterrupted)
        assert await happened(runtime, run.id, AttentionRaised) == []
    assert (interrupted.rung, interrupted.began) == ("task_cancel", True)
    assert (receipt.interrupted, receipt.rung) == ((how,), "task_cancel")
    assert desk.heard == (["cancelled"] if how == "cooperates" else [])


async def test_one_that_finishes_in_the_instant_of_the_cancel_has_happened(desk: Desk) -> None:
    async with runtime_with(agent=calls(desk.finishes_anyway)) as runtime:
        run = await begun(runtime, desk)
        await run.cancel(by="ana")
        receipt = await run.receipt()
        [late] = await happened(runtime, run.id, LateResult)
    assert load(late.result) == "done in the same instant"
    assert (receipt.done, receipt.interrupted) == (("finishes_anyway",), ())


async def abandoned(runtime: Runtime, run: RunHandle, desk: Desk) -> Receipt:
    """The receipt of a run whose tool was let go of; then let the tool come to its end."""
    receipt = await run.receipt()
    [item] = await happened(runtime, run.id, AttentionRaised)
    assert item.kind == "not_stoppable"
    assert "may still be going on" in item.text
    desk.go_on.set()
    desk.in_thread.set()
    return receipt


async def assert_late_result_is_evidence(runtime: Runtime, run: RunHandle) -> None:
    late = await later(runtime, run, LateResult)
    assert load(late.result) == "done all the same"
    receipt = await run.receipt()
    assert receipt.done == (receipt.steps[0].name,)
    assert not receipt.interrupted
    assert not receipt.steps[0].still_running


async def later(runtime: Runtime, run: RunHandle, kind: Any) -> Any:
    """Wait for such an event, also behind the end of the run."""
    async for _, item in runtime.journal.changes.subscribe(run.id):
        if isinstance(event := getattr(item, "event", None), kind):
            return event
    raise AssertionError


async def test_one_that_ignores_it_is_let_go_of_at_its_deadline_and_not_before(desk: Desk) -> None:
    clock = ManualClock()
    stubborn = pullcord.tool(stop_grace_s=30)(desk.ignores)
    async with runtime_with(agent=calls(stubborn), clock=clock) as runtime:
        run = await begun(runtime, desk)
        await run.cancel(by="ana")
        await desk.told.wait()
        desk.told.clear()
        clock.advance(29.9)
        assert (await run.snapshot()).state is RunState.CANCELLING
        clock.advance(0.1)
        await desk.told.wait()
        assert (await run.snapshot()).state is RunState.CANCELLING
        clock.advance(HURRY_S)
        receipt = await abandoned(runtime, run, desk)
        assert (receipt.still_running, receipt.rung) == (("ignores",), "abandoned")
        await assert_late_result_is_evidence(runtime, run)
    assert desk.heard == ["cancelled", "cancelled"]


@pytest.mark.parametrize("how", ["ignores", "blocks"])
async def test_a_second_press_does_not_wait_for_the_deadline(desk: Desk, how: str) -> None:
    stubborn = pullcord.tool(stop_grace_s=10**6, run_in="thread" if how == "blocks" else "")
    async with runtime_with(agent=calls(stubborn(getattr(desk, how)))) as runtime:
        run = await begun(runtime, desk)
        assert (await run.cancel(by="ana")).verdict == "applied"
        assert (await run.cancel(by="ana")).verdict == "already"
        assert (await run.cancel(by="ana", now=True)).verdict == "applied"
        assert (await run.cancel(by="ana", now=True)).verdict == "already"
        receipt = await abandoned(runtime, run, desk)
        assert receipt.rung == "abandoned"
        await assert_late_result_is_evidence(runtime, run)


async def test_one_press_with_now_is_two_cancellations(desk: Desk) -> None:
    """Code that loses one, as `asyncio.wait_for` can, is stopped by the second, not let go of."""
    hesitant = pullcord.tool(stop_grace_s=10**6)(desk.hesitates)
    async with runtime_with(agent=calls(hesitant)) as runtime:
        run = await begun(runtime, desk)
        await run.cancel(by="ana", now=True)
        receipt = await run.receipt()
        assert (receipt.interrupted, receipt.rung) == (("hesitates",), "task_cancel")
        assert receipt.attention == ()
    assert desk.heard == ["cancelled", "cancelled"]


async def test_a_thread_is_named_before_it_starts_and_when_it_is_let_go_of(desk: Desk) -> None:
    in_thread = pullcord.tool(run_in="thread", stop_grace_s=0)(desk.blocks)
    async with runtime_with(agent=calls(in_thread)) as runtime:
        run = await begun(runtime, desk)
        assert (await seen(run, StepStarted)).run_in == "thread"
        await run.cancel(by="ana")
        receipt = await abandoned(runtime, run, desk)
        assert "a thread, which cannot be stopped" in receipt.attention[0]
        assert (receipt.still_running, receipt.rung) == (("blocks",), "abandoned")
        await assert_late_result_is_evidence(runtime, run)


async def test_a_thread_that_ends_within_the_grace_was_not_stopped_but_has_happened(
    desk: Desk,
) -> None:
    in_thread = pullcord.tool(run_in="thread", stop_grace_s=10**6)(desk.blocks)
    async with runtime_with(agent=calls(in_thread)) as runtime:
        run = await begun(runtime, desk)
        await run.cancel(by="ana")
        desk.in_thread.set()
        receipt = await run.receipt()
        assert await happened(runtime, run.id, AttentionRaised) == []
    assert (receipt.done, receipt.interrupted) == (("blocks",), ())


# --- its time ---


def outlasts(desk: Desk, how: str, **declared: Any) -> Tool[..., Any]:
    place = "thread" if how == "blocks" else ""
    return declared_as(timeout_s=10, run_in=place, **declared)(getattr(desk, how))


@pytest.mark.parametrize(
    ("how", "effect", "maybe"),
    [
        ("cooperates", "once", "maybe"),
        ("cooperates", "none", ""),
        ("ignores", "once", "maybe"),
        ("blocks", "idempotent", "maybe"),
    ],
)
async def test_a_tool_that_takes_too_long_has_failed_and_may_have_happened(
    desk: Desk, how: str, effect: str, maybe: str
) -> None:
    clock = ManualClock()
    errors: list[str] = []

    async def agent(ctx: Context) -> None:
        with pytest.raises(StepError) as told:
            await ctx.tool(outlasts(desk, how, effect=effect, stop_grace_s=3))
        errors.append(told.value.error)

    async with runtime_with(agent=agent, clock=clock) as runtime:
        run = await begun(runtime, desk)
        clock.advance(9.9)
        assert (await run.snapshot()).open_steps()
        clock.advance(0.1)
        if how != "cooperates":
            await turns()
            clock.advance(3)
            await turns()
            clock.advance(HURRY_S)
        await run.result()
        [failed] = await happened(runtime, run.id, StepFailed)
        raised = await happened(runtime, run.id, AttentionRaised)
        desk.go_on.set()
        desk.in_thread.set()
        if how != "cooperates":
            assert load((await later(runtime, run, LateResult)).result) == "done all the same"
    said = "TimeoutError: it took longer than 10 s"
    assert failed.error == said + ("; it may have had an effect" if maybe else "")
    assert errors == [failed.error]
    assert failed.happened == maybe
    doubtful = ["in_doubt"] if maybe else []
    assert [item.kind for item in raised] == (
        doubtful if how == "cooperates" else ["not_stoppable"]
    )


async def turns() -> None:
    """Let everything that is ready have its turn."""
    for _ in range(20):
        await asyncio.sleep(0)


async def test_every_attempt_has_its_own_time() -> None:
    clock = ManualClock()
    attempts: asyncio.Queue[int] = asyncio.Queue()

    @pullcord.tool(timeout_s=10, effect="none", retry=Retry(attempts=2, wait_s=0))
    async def slow(ctx: ToolContext) -> None:
        attempts.put_nowait(ctx.attempt)
        await asyncio.get_running_loop().create_future()

    async with runtime_with(agent=calls(slow), clock=clock) as runtime:
        run = await runtime.start("agent")
        assert await attempts.get() == 1
        clock.advance(10)
        await seen(run, StepFailed)
        while attempts.empty():
            clock.advance(0)
            await asyncio.sleep(0)
        clock.advance(9.9)
        assert (await run.snapshot()).open_steps()
        clock.advance(0.1)
        await run.wait_for(RunState.FAILED)
        assert len(await happened(runtime, run.id, StepFailed)) == 2


@pytest.mark.parametrize("left_s", [0.5, -0.5])
async def test_its_time_does_not_pass_while_it_stands_at_a_checkpoint(
    desk: Desk, left_s: float
) -> None:
    clock = ManualClock()
    async with runtime_with(agent=calls(outlasts(desk, "stands")), clock=clock) as runtime:
        run = await begun(runtime, desk)
        clock.advance(6)
        await run.pause(by="ana")
        await run.wait_for(RunState.PAUSED)
        clock.advance(59)
        await run.resume(by="ana")
        await run.wait_for(RunState.RUNNING)
        desk.begun.clear()
        await desk.begun.wait()
        clock.advance(4 - left_s)
        desk.go_on.set()
        if left_s > 0:
            assert await run.result() == "done"
        else:
            assert "took longer than 10 s" in (await run.wait_for(RunState.FAILED)).error


# --- pause ---


async def test_a_pause_lets_it_finish_if_it_says_nothing_else(desk: Desk) -> None:

    async def agent(ctx: Context) -> Any:
        first = await ctx.tool(desk.cooperates)
        return [first, await ctx.tool(desk.cooperates)]

    async with runtime_with(agent=agent) as runtime:
        run = await begun(runtime, desk)
        await run.pause(by="ana")
        assert (await run.snapshot()).state is RunState.PAUSING
        desk.go_on.set()
        await run.wait_for(RunState.PAUSED)
        assert len(await happened(runtime, run.id, StepStarted)) == 1
        await run.resume(by="ana")
        assert await run.result() == ["done", "done"]
    assert desk.heard == []


async def test_a_pause_cuts_it_if_it_says_so_and_resume_begins_it_again(desk: Desk) -> None:
    keys: list[str] = []

    @pullcord.tool(effect="idempotent", on_pause="cancel")
    async def fetch(ctx: ToolContext) -> str:
        keys.append(ctx.idempotency_key)
        return await desk.cooperates()

    async with runtime_with(agent=calls(fetch)) as runtime:
        run = await begun(runtime, desk)
        await run.pause(by="ana")
        await run.wait_for(RunState.PAUSED)
        assert desk.heard == ["cancelled"]
        desk.go_on.set()
        await run.resume(by="ana")
        assert await run.result() == "done"
        attempts = [event.attempt for event in await happened(runtime, run.id, StepStarted)]
        [paused] = await happened(runtime, run.id, Paused)
    assert attempts == [1, 2]
    assert len(set(keys)) == 1
    assert (paused.rung, paused.frozen) == ("task_cancel", ())


@pytest.mark.parametrize("verb", ["resume", "cancel"])
async def test_a_tool_stands_still_at_its_checkpoint_until_it_may_go_on(
    desk: Desk, verb: str
) -> None:
    async with runtime_with(agent=calls(desk.stands)) as runtime:
        run = await begun(runtime, desk)
        await run.pause(by="ana")
        await run.wait_for(RunState.PAUSED)
        desk.begun.clear()
        await turns()
        assert not desk.begun.is_set(), "it went on while paused"
        if verb == "resume":
            await run.resume(by="ana")
            await desk.begun.wait()
            desk.go_on.set()
            assert await run.result() == "done"
        else:
            await run.cancel(by="ana")
            assert (await run.receipt()).interrupted == ("stands",)
        assert len(await happened(runtime, run.id, StepStarted)) == 1


async def test_a_cancel_comes_in_at_a_checkpoint_too() -> None:
    """Also where a tool would have swallowed a cancellation."""
    begun = asyncio.Event()

    async def swallows(ctx: ToolContext) -> None:
        while True:
            begun.set()
            try:
                await asyncio.sleep(0)
                await ctx.checkpoint()
            except Exception:
                pass
            except asyncio.CancelledError:
                pass

    patient = pullcord.tool(stop_grace_s=10**6)(swallows)
    async with runtime_with(agent=calls(patient)) as runtime:
        run = await runtime.start("agent")
        await begun.wait()
        await run.cancel(by="ana")
        receipt = await run.receipt()
    assert receipt.interrupted == ("swallows",)
    assert receipt.rung != "abandoned"


# --- redirect ---


async def test_a_redirect_lets_it_finish_if_it_says_nothing_else(desk: Desk) -> None:

    async def agent(ctx: Context) -> Any:
        return [await ctx.tool(desk.cooperates), await ctx.instructions()]

    async with runtime_with(agent=agent) as runtime:
        run = await begun(runtime, desk)
        await run.redirect("the other one", by="ana")
        desk.go_on.set()
        assert await run.result() == ["done", ["the other one"]]
    assert desk.heard == []


def redirected(desk: Desk) -> Function:
    looks = pullcord.tool(on_redirect="cancel")(desk.cooperates)

    async def agent(ctx: Context) -> Any:
        try:
            return await ctx.tool(looks)
        except NotDone as error:
            told = [error.outcome, error.why, *await ctx.instructions()]
            await ctx.ask("go on?")
            return told

    return agent


TOLD = ["interrupted", "it was stopped by a redirect", "the other one"]


async def test_a_redirect_cuts_it_if_it_says_so_and_its_agent_is_told_in_every_life(
    desk: Desk,
    tmp_path: Path,
) -> None:
    store = tmp_path / "runs.db"
    async with runtime_with(store, agent=redirected(desk)) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await desk.begun.wait()
        await run.redirect("the other one", by="ana")
        await question(run)
        [interrupted] = await happened(runtime, "r1", StepInterrupted)
    assert desk.heard == ["cancelled"]
    assert (interrupted.redirected, interrupted.rung) == (True, "task_cancel")
    async with runtime_with(store, agent=redirected(desk)) as runtime:
        run = await runtime.get("r1")
        await run.answer(await question(run), "yes")
        assert await run.result() == TOLD
        assert len(await happened(runtime, "r1", StepStarted)) == 1


async def test_what_began_after_a_redirect_is_not_cut_by_it(desk: Desk) -> None:
    first = Desk()
    looks = pullcord.tool(on_redirect="cancel")(desk.waits)

    async def agent(ctx: Context) -> Any:
        await ctx.tool(first.waits)
        return [await ctx.tool(looks), await ctx.instructions()]

    async with runtime_with(agent=agent) as runtime:
        run = await begun(runtime, first)
        await run.redirect("the other one", by="ana")
        first.go_on.set()
        await desk.begun.wait()
        desk.go_on.set()
        assert await run.result() == ["done", ["the other one"]]


# --- shutdown ---


@pytest.mark.parametrize("how", ["cooperates", "ignores", "blocks"])
async def test_one_that_a_shutdown_has_cut_is_in_doubt_and_named_if_it_may_go_on(
    desk: Desk, tmp_path: Path, how: str
) -> None:
    store = tmp_path / "runs.db"
    tool = pullcord.tool(run_in="thread" if how == "blocks" else "")(getattr(desk, how))
    async with runtime_with(store, agent=calls(tool), timing=HASTY) as runtime:
        await begun(runtime, desk)
    desk.go_on.set()
    desk.in_thread.set()
    async with runtime_with(store, agent=calls(tool)) as runtime:
        run = await runtime.get("r1")
        asked = await question(run, kind="doubt")
        [item] = await happened(runtime, "r1", AttentionRaised)
        assert item.kind == ("in_doubt" if how == "cooperates" else "not_stoppable")
        await run.answer(asked, {"happened": "by hand"}, by="ana")
        assert await run.result() == "by hand"
        assert len(await happened(runtime, "r1", StepStarted)) == 1


# --- what becomes of one that its agent does not wait for ---


async def test_a_tool_whose_agent_loses_its_patience_is_cut(desk: Desk) -> None:
    lost = asyncio.Event()

    async def agent(ctx: Context) -> str:
        call = asyncio.ensure_future(ctx.tool(desk.cooperates))
        await lost.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        return "went on"

    async with runtime_with(agent=agent) as runtime:
        run = await begun(runtime, desk)
        lost.set()
        assert await run.result() == "went on"
        [interrupted] = await happened(runtime, run.id, StepInterrupted)
    assert desk.heard == ["cancelled"]
    assert interrupted.began


async def test_of_tools_at_once_each_has_its_own_outcome(desk: Desk) -> None:
    """One is done, one fails, one is under way: a cancel tells the truth about all of them."""

    async def done() -> str:
        return "done"

    async def fails() -> None:
        raise ValueError("no")

    async def agent(ctx: Context) -> None:
        async def one(tool: Callable[[], Awaitable[Any]]) -> Any:
            return await ctx.tool(tool)

        together = asyncio.gather(*map(one, (done, fails, desk.waits)), return_exceptions=True)
        await together

    async with runtime_with(agent=agent) as runtime:
        run = await begun(runtime, desk)
        await seen(run, StepFailed)
        await run.cancel(by="ana")
        receipt = await run.receipt()
    assert (receipt.done, receipt.failed) == (("done",), ("fails",))
    assert receipt.interrupted == ("waits",)


async def test_what_a_tool_in_this_process_prints_is_not_taken_for_its_output() -> None:
    async def prints() -> None:
        print("to whoever reads our output")

    async with runtime_with(agent=calls(prints)) as runtime:
        run = await runtime.start("agent")
        await run.result()
        assert await happened(runtime, run.id, TextEnded) == []
