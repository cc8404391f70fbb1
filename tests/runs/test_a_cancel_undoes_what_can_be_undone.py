"""A cancel takes back what was declared provisional: newest first, each once, and it says what it
could not take back. Nothing that a person presses meanwhile makes it skip one."""

import asyncio
import fcntl
import functools
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import (
    Call,
    Context,
    Retry,
    RunHandle,
    RunState,
    Runtime,
    StepError,
    Timing,
    ToolContext,
)
from pullcord.core.events import (
    AttentionRaised,
    CancelRequested,
    Deferred,
    Hurried,
    Released,
    StepFailed,
    StepStarted,
    StepUndone,
    UndoFailed,
    UndoStarted,
)
from pullcord.errors import InvalidInput
from pullcord.runtime.policy import Policy
from tests.declaring import declared_as
from tests.runs import undo_tools
from tests.runs.observed_runs import (
    HASTY,
    children,
    events,
    happened,
    names,
    question,
    runtime_with,
    seen,
)
from tests.runs.tool_maker import ToolMaker, WatchedClock, calling, cancelled, step_of, until
from tests.runs.undo_tools import did, read

HOUR = 3600.0


async def never() -> None:
    await asyncio.Event().wait()


# --- in which order ---


async def test_the_newest_is_undone_first() -> None:
    maker = ToolMaker()
    async with runtime_with(agent=calling(*maker.tools("a b c"))) as runtime:
        run = await runtime.start("agent")
        receipt = await cancelled(run)
        undone = await happened(runtime, run.id, StepUndone)
        steps = {step: known.name for step, known in (await run.snapshot()).steps.items()}
    assert maker.did == ["do a", "do b", "do c", "undo c", "undo b", "undo a"]
    assert [steps[event.step] for event in undone] == ["c", "b", "a"]
    assert (receipt.undone, receipt.done, receipt.attention) == (("a", "b", "c"), (), ())


@pytest.mark.parametrize("order", ["x y z", "z y x", "y z x"])
async def test_of_parallel_branches_the_last_to_finish_is_undone_first(order: str) -> None:
    maker = ToolMaker()
    gates = {name: asyncio.Event() for name in "xyz"}

    async def held(name: str) -> str:
        await gates[name].wait()
        return name

    async def agent(ctx: Context) -> None:
        async def one(name: str) -> None:
            await ctx.branch(name).tool(maker.tool(name, functools.partial(held, name)))

        await asyncio.gather(*(one(name) for name in "xyz"))
        await ctx.ask("Go on?")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        for nth, name in enumerate(order.split(), start=1):
            gates[name].set()
            await until_finished(run, nth)
        await cancelled(run)
    assert maker.undone == order.split()[::-1]


async def until_finished(run: RunHandle, count: int) -> None:
    while sum(s.status == "finished" for s in (await run.snapshot()).steps.values()) < count:  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def test_a_tool_without_an_undo_is_kept_and_named() -> None:
    maker = ToolMaker()
    tools = [maker.tool("a"), maker.tool("b", undo=None), maker.tool("c")]
    async with runtime_with(agent=calling(*tools)) as runtime:
        receipt = await cancelled(await runtime.start("agent"))
    assert maker.undone == ["c", "a"]
    assert (receipt.undone, receipt.done) == (("a", "c"), ("b",))


# --- what the undo is told ---


async def test_an_undo_is_handed_the_call_and_its_result() -> None:
    told = list[tuple[Call, ToolContext]]()

    async def discard(ctx: ToolContext, call: Call) -> None:
        told.append((call, ctx))

    @pullcord.tool(undo=discard)
    async def draft(ctx: ToolContext, to: str, copies: int = 1) -> dict[str, Any]:
        return {"id": 7, "key": ctx.idempotency_key}

    async def agent(ctx: Context) -> None:
        await ctx.tool(draft, "bo")
        await ctx.ask("Go on?")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await cancelled(run)
        step = await step_of(run, "draft")
    [(call, context)] = told
    assert (call.tool, call.args, call.known) == ("draft", {"to": "bo", "copies": 1}, "finished")
    assert call.idempotency_key == f"r1-{step}"
    assert call.result == {"id": 7, "key": call.idempotency_key}
    assert context.idempotency_key == f"undo-r1-{step}"
    assert (context.run_id, context.step, context.attempt) == ("r1", step, 1)


async def test_a_sync_undo_runs_in_a_process_of_its_own(tmp_path: Path) -> None:
    book = str(tmp_path / "book")

    async def agent(ctx: Context) -> None:
        await ctx.tool(undo_tools.hold, book, "a")
        await ctx.tool(undo_tools.draft, book, "b")
        await ctx.tool(undo_tools.hold, book, "c", fails=1)
        await ctx.ask("Go on?")

    async with runtime_with(agent=agent) as runtime:
        receipt = await cancelled(await runtime.start("agent"))
    lines = [line for line in read(book) if line[0] != "as"]
    assert [line[:2] for line in lines[3:]] == [
        ["undo", "c"],
        ["undo", "c"],
        ["undo", "b"],
        ["undo", "a"],
    ]
    assert receipt.undone == ("hold", "draft", "hold")
    assert str(os.getpid()) not in [line[3] for line in lines if line[1] != "b"]
    attempts = [(name, words[0][:5], words[1]) for what, name, *words in read(book) if what == "as"]
    assert attempts == [("c", "undo-", "1"), ("c", "undo-", "2"), ("a", "undo-", "1")]


# --- what is undone ---


async def returns() -> str:
    return "made"


async def raises() -> None:
    raise ValueError("declined")


async def returns_nonsense() -> object:
    return object()


async def finishes_all_the_same() -> str:
    try:
        await never()
    except asyncio.CancelledError:
        pass
    return "made"


@pytest.mark.parametrize(
    ("work", "declared", "known", "result"),
    [
        (returns, {}, "finished", "made"),
        (returns_nonsense, {}, "failed", None),
        (never, {"timeout_s": 0.01}, "failed", None),
        (never, {}, "interrupted", None),
        (never, {"effect": "idempotent"}, "interrupted", None),
        (finishes_all_the_same, {}, "late", "made"),
        (raises, {}, "", None),
    ],
    ids=lambda given: getattr(given, "__name__", None) or str(given or "nothing"),
)
async def test_what_happened_or_may_have_happened_is_undone_and_what_failed_is_not(
    work: Callable[[], Any], declared: dict[str, Any], known: str, result: object
) -> None:
    maker = ToolMaker()
    begun = asyncio.Event()

    async def beginning() -> Any:
        begun.set()
        return await work()

    tool = maker.tool("a", beginning, **declared)
    async with runtime_with(agent=calling(tool)) as runtime:
        run = await runtime.start("agent")
        is_held = known in ("interrupted", "late")
        await (begun.wait() if is_held else question(run))
        await run.cancel()
        receipt = await run.receipt()
    expected = [(known, result)] if known else []
    assert [(call.known, call.result) for call in maker.calls] == expected
    assert receipt.undone == (("a",) if known else ())
    assert receipt.failed == (() if known else ("a",))


async def test_a_result_in_the_same_instant_as_the_cancel_is_undone() -> None:
    """However the race ends, what was made is taken back, with its result."""
    for ahead in range(4):
        maker, begun, gate = ToolMaker(), asyncio.Event(), asyncio.Event()

        async def held(begun: asyncio.Event = begun, gate: asyncio.Event = gate) -> str:
            begun.set()
            await gate.wait()
            return "made"

        async with runtime_with(agent=calling(maker.tool("a", held))) as runtime:
            run = await runtime.start("agent")
            await begun.wait()
            gate.set()
            for _ in range(ahead):
                await asyncio.sleep(0)
            await run.cancel()
            receipt = await run.receipt()
        [call] = maker.calls
        assert (call.result, call.known in ("finished", "late")) == ("made", True)
        assert (receipt.undone, receipt.done, receipt.interrupted) == (("a",), (), ())


async def test_what_a_restart_has_left_in_doubt_is_undone_and_no_doubt_is_left(
    tmp_path: Path,
) -> None:
    maker, begun = ToolMaker(), asyncio.Event()

    async def hangs() -> None:
        begun.set()
        await never()

    agent = calling(maker.tool("a"), maker.tool("b", hangs))
    async with runtime_with(tmp_path / "runs.db", timing=HASTY, agent=agent) as runtime:
        await runtime.start("agent", run_id="r1")
        await begun.wait()
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.get("r1")
        await question(run)
        assert len((await run.snapshot()).attention) == 1
        await run.cancel()
        receipt = await run.receipt()
    assert [(call.tool, call.known, call.args, call.result) for call in maker.calls] == [
        ("b", "in_doubt", {}, None),
        ("a", "finished", {}, "made by a"),
    ]
    assert (receipt.undone, receipt.in_doubt, receipt.attention) == (("a", "b"), (), ())


async def test_what_an_attempt_before_may_have_done_is_not_forgotten(tmp_path: Path) -> None:
    """Cut off by a restart, tried again and refused: the first attempt may have had its effect."""
    maker, begun = ToolMaker(), asyncio.Event()

    async def hangs_then_fails() -> None:
        if maker.did.count("do a") == 1:
            begun.set()
            await never()
        raise ConnectionError("declined")

    agent = calling(maker.tool("a", hangs_then_fails, effect="idempotent"))
    async with runtime_with(tmp_path / "runs.db", timing=HASTY, agent=agent) as runtime:
        await runtime.start("agent", run_id="r1")
        await begun.wait()
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        receipt = await cancelled(await runtime.get("r1"))
    assert maker.did == ["do a", "do a", "undo a"]
    assert receipt.undone == ("a",)


async def test_what_did_not_happen_by_its_probes_word_and_then_failed_is_not_undone(
    tmp_path: Path,
) -> None:
    maker, begun = ToolMaker(), asyncio.Event()

    async def hangs_then_fails() -> None:
        if not begun.is_set():
            begun.set()
            await never()
        raise ConnectionError("declined")

    async def probe(_call: Call) -> bool:
        return False

    agent = calling(maker.tool("a", hangs_then_fails, probe=probe))
    async with runtime_with(tmp_path / "runs.db", timing=HASTY, agent=agent) as runtime:
        await runtime.start("agent", run_id="r1")
        await begun.wait()
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        receipt = await cancelled(await runtime.get("r1"))
    assert maker.did == ["do a", "do a"]
    assert (receipt.undone, receipt.failed) == ((), ("a",))


# --- an undo that fails ---


@pytest.mark.parametrize("times", [1, 2, 99])
async def test_an_undo_that_fails_is_tried_three_times_and_then_named(times: int) -> None:
    maker, clock = ToolMaker(fails={"b": times}), WatchedClock()
    again = Retry(attempts=3, wait_s=HOUR, wait_max_s=9 * HOUR)
    tools = maker.tools("a b c", undo_retry=again)
    async with runtime_with(clock=clock, agent=calling(*tools)) as runtime:
        run = await runtime.start("agent")
        await question(run)
        await run.cancel()
        for wait_s in [HOUR, 2 * HOUR][:times]:
            await until(lambda wait_s=wait_s: wait_s in clock.asked)
            assert maker.undone.count("a") == 0, "an older one before it was decided"
            clock.advance(wait_s)
        receipt = await run.receipt()
        step = await step_of(run, "b")
        started = await happened(runtime, run.id, UndoStarted)
        failed = await happened(runtime, run.id, UndoFailed)
        raised = await happened(runtime, run.id, AttentionRaised)
    calls = min(times + 1, 3)
    assert maker.undone == ["c", *["b"] * calls, "a"]
    assert [wait for wait in clock.asked if wait >= HOUR] == [HOUR, 2 * HOUR][: calls - 1]
    attempts = [(event.attempt, event.error) for event in started if event.step == step]
    error = "ConnectionError: no line to b"
    assert attempts == [(n + 1, error if n else "") for n in range(calls)]
    if times < 3:
        assert (receipt.undone, receipt.could_not_undo) == (("a", "b", "c"), ())
        assert (failed, raised, receipt.attention) == ([], [], ())
    else:
        assert (receipt.undone, receipt.could_not_undo) == (("a", "c"), ("b",))
        assert [(event.step, event.error) for event in failed] == [(step, error)]
        assert [event.kind for event in raised] == ["undo_failed"]
        [text] = receipt.attention
        assert f"pullcord undo {run.id} {step}" in text
        assert error in text


@pytest.mark.parametrize(
    ("retry", "waits"),
    [
        (Retry(attempts=1, wait_s=HOUR), []),
        (Retry(attempts=5, wait_s=HOUR, wait_max_s=3 * HOUR), [1, 2, 3, 3]),
    ],
)
async def test_the_waits_between_attempts_double_up_to_a_bound(
    retry: Retry, waits: list[int]
) -> None:
    maker, clock = ToolMaker(fails={"a": 99}), WatchedClock()
    async with runtime_with(
        clock=clock, agent=calling(maker.tool("a", undo_retry=retry))
    ) as runtime:
        run = await runtime.start("agent")
        await question(run)
        await run.cancel()
        for nth, wait in enumerate(waits, start=1):
            await until(lambda n=nth: len([w for w in clock.asked if w >= HOUR]) == n)
            clock.advance(wait * HOUR)
        assert (await run.receipt()).could_not_undo == ("a",)
    assert [wait / HOUR for wait in clock.asked if wait >= HOUR] == waits
    assert maker.undone == ["a"] * retry.attempts


async def test_an_undo_that_hangs_is_ended_by_its_time() -> None:
    maker = ToolMaker(held=["a"])
    tool = maker.tool("a", undo_timeout_s=0.02, undo_retry=Retry(attempts=2, wait_s=0))
    async with runtime_with(agent=calling(tool)) as runtime:
        receipt = await cancelled(await runtime.start("agent"))
    assert maker.undone == ["a", "a"]
    assert receipt.could_not_undo == ("a",)
    assert "TimeoutError: it took longer than 0.02 s" in receipt.attention[0]


async def test_a_process_undo_that_hangs_is_killed_before_the_next_attempt(tmp_path: Path) -> None:
    book = str(tmp_path / "book")

    async def agent(ctx: Context) -> None:
        await ctx.tool(undo_tools.lock, book, "a")
        await ctx.ask("Go on?")

    async with runtime_with(agent=agent) as runtime:
        receipt = await cancelled(await runtime.start("agent"))
        assert is_dead(book)
    assert did(book)[:2] == ["do a", "undo a"]
    assert not [line for line in read(book) if line[0] == "beside"]
    assert receipt.could_not_undo == ("lock",)
    assert "TimeoutError" in receipt.attention[0]


def is_dead(book: str) -> bool:
    """Whether the undo that hangs lives no more: it holds a lock for as long as it does."""
    with open(f"{book}.alive", "w") as alive:
        try:
            fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
    return True


@pytest.mark.parametrize("is_thread", [False, True], ids=["loop", "thread"])
async def test_an_undo_that_cannot_be_ended_is_not_begun_beside_itself(is_thread: bool) -> None:
    """Its time is over and it goes on all the same: nobody may call it again meanwhile."""
    gate, under_way, most = asyncio.Event(), 0, 0
    loop = asyncio.get_running_loop()

    async def stubborn(_call: Call) -> None:
        nonlocal under_way, most
        under_way += 1
        most = max(most, under_way)
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                pass
        under_way -= 1

    def blocking(call: Call) -> None:
        asyncio.run_coroutine_threadsafe(stubborn(call), loop).result()

    undo = blocking if is_thread else stubborn
    retry = Retry(attempts=3, wait_s=0)
    maker = ToolMaker()
    tool = maker.tool("a", undo=undo, undo_timeout_s=0.02, undo_retry=retry)
    async with runtime_with(timing=Timing(stop_grace_s=0.02), agent=calling(tool)) as runtime:
        receipt = await cancelled(await runtime.start("agent"))
        gate.set()
        await until(lambda: not under_way)
    assert most == 1
    assert receipt.could_not_undo == ("a",)


@pytest.mark.parametrize("error", [SystemExit(3), BaseException("odd"), asyncio.CancelledError()])
async def test_whatever_an_undo_raises_it_is_named_and_the_others_go_on(
    error: BaseException,
) -> None:
    maker = ToolMaker()

    async def leaves(_call: Call) -> None:
        raise error

    tools = [maker.tool("a"), maker.tool("b", undo=leaves), maker.tool("c")]
    async with runtime_with(agent=calling(*tools)) as runtime:
        receipt = await cancelled(await runtime.start("agent"))
    assert (receipt.undone, receipt.could_not_undo) == (("a", "c"), ("b",))
    assert type(error).__name__ in receipt.attention[0]


async def test_an_undo_that_returns_an_awaitable_is_waited_for() -> None:
    """A function around an async one, an object with an async `__call__`: what it gives back is
    what has to happen."""
    maker = ToolMaker()

    async def later(call: Call) -> None:
        maker.did.append(f"undo {call.tool}")

    class Discarding:
        async def __call__(self, call: Call) -> None:
            await later(call)

    def discard(call: Call) -> Any:
        return later(call)

    tools = [
        maker.tool("a", undo=discard),
        maker.tool("b", undo=Discarding()),
        maker.tool("c", undo=functools.partial(later)),
    ]
    async with runtime_with(agent=calling(*tools)) as runtime:
        receipt = await cancelled(await runtime.start("agent"))
    assert maker.undone == ["c", "b", "a"]
    assert receipt.undone == ("a", "b", "c")


# --- what people press meanwhile ---


async def test_a_second_cancel_hurries_and_abandons_nothing() -> None:
    maker = ToolMaker(held=["b"])
    async with runtime_with(agent=calling(*maker.tools("a b c"))) as runtime:
        run = await runtime.start("agent")
        await question(run)
        await run.cancel()
        await maker.undoing.wait()
        again = await run.cancel(now=True)
        more = [await run.cancel(now=True), await run.cancel()]
        await seen(run, Hurried)
        maker.go_on.set()
        receipt = await run.receipt()
    assert (again.verdict, [ack.verdict for ack in more]) == ("applied", ["already"] * 2)
    assert maker.undone == ["c", "b", "a"]
    assert receipt.undone == ("a", "b", "c")


async def test_a_second_cancel_ends_the_waits_between_attempts() -> None:
    maker = ToolMaker(fails={"a": 99, "b": 2})
    tools = maker.tools("a b", undo_retry=Retry(attempts=3, wait_s=HOUR, wait_max_s=9 * HOUR))
    clock = WatchedClock()
    async with runtime_with(clock=clock, agent=calling(*tools)) as runtime:
        run = await runtime.start("agent")
        await question(run)
        await run.cancel()
        await until(lambda: HOUR in clock.asked)
        await run.cancel(now=True)
        receipt = await run.receipt()
    assert maker.undone == ["b", "b", "b", "a", "a", "a"]
    assert (receipt.undone, receipt.could_not_undo) == (("b",), ("a",))


async def test_a_cancel_that_is_in_a_hurry_from_the_start_undoes_all_the_same() -> None:
    maker = ToolMaker(fails={"b": 1})
    tools = maker.tools("a b", undo_retry=Retry(attempts=3, wait_s=HOUR, wait_max_s=9 * HOUR))
    async with runtime_with(clock=WatchedClock(), agent=calling(*tools)) as runtime:
        receipt = await cancelled(await runtime.start("agent"), now=True)
    assert maker.undone == ["b", "b", "a"]
    assert receipt.undone == ("a", "b")


@pytest.mark.parametrize("verb", ["pause", "resume", "redirect", "undo"])
async def test_it_is_neither_paused_nor_redirected(verb: str) -> None:
    maker = ToolMaker(held=["b"])
    async with runtime_with(agent=calling(*maker.tools("a b"))) as runtime:
        run = await runtime.start("agent")
        await question(run)
        cancel = await run.cancel()
        await maker.undoing.wait()
        before = await names(runtime, run.id)
        match verb:
            case "redirect":
                ack = await run.redirect("the other way")
            case "undo":
                ack = await run.undo()
            case _:
                ack = await getattr(run, verb)()
        after = await names(runtime, run.id)
        maker.go_on.set()
        receipt = await run.receipt()
    expected = ("already", "") if verb == "undo" else ("too_late", "cancelling")
    assert (ack.verdict, ack.reason, ack.seq) == (*expected, cancel.seq)
    assert after == before
    assert receipt.undone == ("a", "b")


async def test_a_weaker_cancel_does_not_take_the_undo_back() -> None:
    maker = ToolMaker(held=["b"])
    async with runtime_with(agent=calling(*maker.tools("a b"))) as runtime:
        run = await runtime.start("agent")
        await question(run)
        await run.cancel()
        await maker.undoing.wait()
        again = await run.cancel(undo=False, back_to=await step_of(run, "b"))
        maker.go_on.set()
        receipt = await run.receipt()
    assert again.verdict == "already"
    assert receipt.undone == ("a", "b")


# --- how much is undone ---


async def test_without_undo_nothing_is_undone_and_the_record_says_so() -> None:
    maker = ToolMaker()
    async with runtime_with(agent=calling(*maker.tools("a b"))) as runtime:
        run = await runtime.start("agent")
        receipt = await cancelled(run, undo=False)
        [asked] = await happened(runtime, run.id, CancelRequested)
        assert await happened(runtime, run.id, UndoStarted) == []
    assert maker.undone == []
    assert (receipt.done, receipt.undone, receipt.attention) == (("a", "b"), (), ())
    assert [line.undoable for line in receipt.steps] == [True, True]
    assert asked.undo is False


@pytest.mark.parametrize(("kept", "undone"), [("a", "c b"), ("b", "c"), ("c", "")])
async def test_back_to_a_step_keeps_it_and_what_was_done_before_it(kept: str, undone: str) -> None:
    maker = ToolMaker()
    async with runtime_with(agent=calling(*maker.tools("a b c"))) as runtime:
        run = await runtime.start("agent")
        await question(run)
        receipt = await cancelled(run, back_to=await step_of(run, kept))
    assert maker.undone == undone.split()
    assert set(receipt.undone) == set(undone.split())
    assert set(receipt.done) == set("abc") - set(undone.split())


async def test_back_to_a_step_that_is_under_way_keeps_it_with_all_before_it() -> None:
    maker, begun = ToolMaker(), asyncio.Event()

    async def hangs() -> None:
        begun.set()
        await never()

    tools = [maker.tool("a"), maker.tool("b", hangs)]
    async with runtime_with(agent=calling(*tools)) as runtime:
        run = await runtime.start("agent")
        await begun.wait()
        await run.cancel(back_to=await step_of(run, "b"))
        receipt = await run.receipt()
    assert maker.undone == []
    assert (receipt.done, receipt.interrupted) == (("a",), ("b",))


async def test_back_to_a_step_that_never_was_is_refused_and_nothing_is_cancelled() -> None:
    maker = ToolMaker()
    async with runtime_with(agent=calling(maker.tool("a"))) as runtime:
        run = await runtime.start("agent")
        await question(run)
        before = await names(runtime, run.id)
        ack = await run.cancel(back_to="b-123")
        assert (ack.verdict, ack.reason) == ("rejected", "unknown_step")
        assert "b-123" in ack.message
        assert await names(runtime, run.id) == before
        await run.cancel()
        await run.receipt()
    assert maker.undone == ["a"]


# --- with children, with what is deferred, on a thread, as a fork ---


def family(maker: ToolMaker) -> dict[str, Any]:
    async def child(ctx: Context) -> None:
        await ctx.tool(maker.tool("c1"))
        await ctx.tool(maker.tool("c2"))
        await ctx.ask("Go on?")

    async def parent(ctx: Context) -> None:
        await ctx.tool(maker.tool("p1"))
        spawned = await ctx.spawn("child")
        await ctx.tool(maker.tool("p2"))
        await spawned.result()

    return {"parent": parent, "child": child}


def newest_first(maker: ToolMaker) -> list[str]:
    did = [line.removeprefix("do ") for line in maker.did if line.startswith("do ")]
    return did[::-1]


async def test_a_child_that_lives_is_undone_with_its_parent_newest_first() -> None:
    maker = ToolMaker(held=["c2"])
    async with runtime_with(**family(maker)) as runtime:
        run = await runtime.start("parent")
        child = await asked_child(runtime, run, maker)
        await run.cancel()
        await maker.undoing.wait()
        assert not {"c1", "p1"}.intersection(maker.undone)
        maker.go_on.set()
        mine, its = await run.receipt(), await child.receipt()
    assert maker.undone == newest_first(maker)
    assert (mine.undone[:2], its.undone, its.state) == (
        ("p1", "p2"),
        ("c1", "c2"),
        RunState.CANCELLED,
    )
    assert len(mine.undone) == 4


async def asked_child(runtime: Runtime, run: RunHandle, maker: ToolMaker) -> RunHandle:
    """The one child, when it asks and its parent has done all it can."""
    await until(lambda: "do p2" in maker.did)
    await until_finished(run, 2)
    [child] = await children(runtime, run)
    await question(child)
    return child


async def test_back_to_a_step_of_the_parent_stops_the_child_too() -> None:
    """A child knows nothing of its parent's steps; it is stopped with it all the same."""
    maker = ToolMaker()
    async with runtime_with(**family(maker)) as runtime:
        run = await runtime.start("parent")
        child = await asked_child(runtime, run, maker)
        ack = await run.cancel(back_to=await step_of(run, "p1"))
        assert ack.holds
        assert (await child.snapshot()).state in (RunState.CANCELLING, RunState.CANCELLED)
        mine, its = await run.receipt(), await child.receipt()
    assert maker.undone == newest_first(maker)[:-1]
    assert (mine.done, mine.undone[0], its.undone) == (("p1",), "p2", ("c1", "c2"))


async def test_without_undo_the_children_are_not_undone_either() -> None:
    maker = ToolMaker()
    async with runtime_with(**family(maker)) as runtime:
        run = await runtime.start("parent")
        child = await asked_child(runtime, run, maker)
        await run.cancel(undo=False)
        mine, its = await run.receipt(), await child.receipt()
    assert maker.undone == []
    assert (mine.done[:2], len(mine.done), its.done) == (("p1", "p2"), 4, ("c1", "c2"))


@pytest.mark.parametrize("ends_by", ["cancel", "cancel without undo", "failure", "return"])
async def test_what_is_deferred_is_released_last_however_the_run_ends(ends_by: str) -> None:
    maker = ToolMaker(fails={"b": 99})

    async def agent(ctx: Context) -> None:
        async def unlock() -> None:
            maker.did.append("release")

        await ctx.defer(unlock)
        for tool in maker.tools("a b"):
            await ctx.tool(tool)
        if await ctx.ask("Go on?") == "fail":
            raise ValueError("no")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        asked = await question(run)
        match ends_by:
            case "cancel":
                await run.cancel()
            case "cancel without undo":
                await run.cancel(undo=False)
            case _:
                await run.answer(asked, "fail" if ends_by == "failure" else "yes")
        await run.receipt()
        assert len(await happened(runtime, run.id, Deferred)) == 1
        assert len(await happened(runtime, run.id, Released)) == 1
    undoing = ["undo b"] * 3 + ["undo a"] if ends_by == "cancel" else []
    assert maker.did == ["do a", "do b", *undoing, "release"]


async def test_the_next_run_on_the_thread_is_not_told_that_it_was_done() -> None:
    maker, told = ToolMaker(), list[Any]()

    async def second(ctx: Context) -> None:
        told.extend(await ctx.history())

    tools = [maker.tool("a"), maker.tool("b", undo=None)]
    async with runtime_with(first=calling(*tools), second=second) as runtime:
        await cancelled(await runtime.start("first", thread="t1"))
        await (await runtime.start("second", thread="t1")).result()
    [turn] = told
    assert [name for name, _ in turn.done] == ["b"]


async def test_a_fork_carries_out_again_what_was_undone_and_keeps_what_was_not() -> None:
    maker = ToolMaker()
    tools = [maker.tool("a", undo=None), maker.tool("b")]
    async with runtime_with(agent=calling(*tools)) as runtime:
        run = await runtime.start("agent")
        await cancelled(run)
        fork = await run.fork()
        await fork.answer(await question(fork), "yes")
        assert await fork.result() == "yes"
        await cancelled(await run.fork())
    assert maker.did == ["do a", "do b", "undo b", "do b", "do b", "undo b"]


async def test_a_fork_from_before_the_cancel_does_not_lean_on_what_is_undone_since() -> None:
    maker = ToolMaker()
    async with runtime_with(agent=calling(maker.tool("a"))) as runtime:
        run = await runtime.start("agent")
        await question(run)
        before = (await run.snapshot()).seq
        await cancelled(run)
        fork = await run.fork(at=before)
        await fork.answer(await question(fork), "yes")
        await fork.result()
    assert maker.did == ["do a", "undo a", "do a"]


async def test_a_fork_while_it_is_being_undone_does_not_lean_on_what_goes_away() -> None:
    """Nobody knows yet whether it will be undone: a person is asked before it is done again."""
    maker = ToolMaker(held=["a"])
    async with runtime_with(agent=calling(maker.tool("a"))) as runtime:
        run = await runtime.start("agent")
        await question(run)
        await run.cancel()
        await maker.undoing.wait()
        fork = await run.fork()
        assert await question(fork) == "doubts"
        assert maker.did.count("do a") == 1
        maker.go_on.set()
        await run.receipt()
        await fork.answer("doubts", "run")
        await question(fork, nth=2)
    assert maker.did.count("do a") == 2


async def test_a_quarantined_run_is_undone_and_nothing_of_it_is_told() -> None:
    maker = ToolMaker(fails={"a": 99})
    tools = [maker.tool("a"), maker.tool("b")]
    async with runtime_with(agent=calling(*tools)) as runtime:
        run = await runtime.start("agent")
        receipt = await cancelled(run, quarantine=True)
        told = [item async for _, item in run.events()]
        raised = [e for e in await events(runtime, run.id) if isinstance(e, UndoFailed)]
    assert [call.result for call in maker.calls[:1]] == ["made by b"]
    assert (receipt.undone, receipt.could_not_undo) == (("b",), ("a",))
    assert raised[0].error == "ConnectionError: no line to a"
    assert "no line to" not in f"{told} {receipt}"


# --- how it is declared ---


def no_parameter() -> None: ...


async def two_parameters(call: Call, other: int) -> None: ...


def only_by_name(*, call: Call) -> None: ...


@pytest.mark.parametrize("undo", [no_parameter, two_parameters, only_by_name, "discard", 3])
@pytest.mark.parametrize("where", ["tool", "open"])
async def test_an_undo_that_cannot_take_a_call_is_refused_where_it_is_declared(
    undo: Any, where: str
) -> None:
    def declare() -> object:
        if where == "tool":
            return pullcord.tool(undo=undo)(returns)
        return pullcord.open(":memory:", tools={"returns": {"undo": undo}})

    with pytest.raises(InvalidInput, match="undo has to take one call"):
        declare()


@pytest.mark.parametrize(
    "declared",
    [
        {"undo_retry": 3},
        {"undo_retry": "often"},
        {"undo_timeout_s": "long"},
        {"undo_timeout_s": -1},
        {"undo_timeout_s": float("nan")},
    ],
    ids=str,
)
async def test_how_an_undo_is_tried_is_checked_where_it_is_declared_or_works(
    declared: dict[str, Any],
) -> None:
    """What was let through must not keep a cancel from ever coming to its end."""
    maker = ToolMaker()
    try:
        tool = maker.tool("a", **declared)
    except InvalidInput:
        return
    async with runtime_with(agent=calling(tool)) as runtime:
        receipt = await cancelled(await runtime.start("agent"))
    assert receipt.undone == ("a",)


@pytest.mark.parametrize(
    "how", [{"undo": undo_tools.discard}, Policy(undo=undo_tools.discard), undo_tools.draft]
)
async def test_the_undo_of_a_foreign_tool_is_given_by_its_name(how: Any, tmp_path: Path) -> None:
    book = str(tmp_path / "book")

    async def agent(ctx: Context) -> None:
        await ctx.tool(undo_tools.foreign, book, "a")
        await ctx.ask("Go on?")

    tools = {"foreign": how}
    async with (
        asyncio.timeout(120),
        pullcord.open(":memory:", agents={"agent": agent}, tools=tools) as runtime,
    ):
        receipt = await cancelled(await runtime.start("agent"))
    assert did(book) == ["do a", "undo a"]
    assert receipt.undone == ("foreign",)


async def test_an_undo_that_is_a_command_is_run(tmp_path: Path) -> None:
    """Declared as a tool that names a command: naming it is not running it."""
    made = tmp_path / "made"

    async def make() -> None:
        made.touch()

    @pullcord.tool(command=True)
    def remove(call: Call) -> list[str]:
        return ["rm", str(made)]

    maker = ToolMaker()
    try:
        tool = maker.tool("a", make, undo=remove)
    except InvalidInput:
        return  # to refuse it is as good
    async with runtime_with(agent=calling(tool)) as runtime:
        receipt = await cancelled(await runtime.start("agent"))
    assert made.exists() == (receipt.undone == ())


async def test_an_undo_that_is_itself_a_once_tool_is_called_once(tmp_path: Path) -> None:
    book = str(tmp_path / "book")

    async def agent(ctx: Context) -> None:
        await ctx.tool(undo_tools.grant, book, "a")
        await ctx.tool(undo_tools.grant, book, "b", fails=1)
        await ctx.ask("Go on?")

    async with runtime_with(agent=agent) as runtime:
        receipt = await cancelled(await runtime.start("agent"))
    assert did(book) == ["do a", "do b", "undo b", "undo a"]
    assert len(receipt.undone) == len(receipt.could_not_undo) == 1


@pytest.mark.parametrize("undo_effect", ["idempotent", "once"])
async def test_what_a_tool_does_that_could_not_be_stopped_is_pointed_out_until_it_is_undone(
    undo_effect: str,
) -> None:
    """It goes on in its thread, and has its effect when its run has ended. An undo before that
    would count for nothing; whoever asks for it afterwards gets it."""
    maker, gate, begun = ToolMaker(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def make() -> str:
        loop.call_soon_threadsafe(begun.set)
        gate.wait(60)
        maker.did.append("do a")
        return "made"

    make.__name__ = "a"
    undo = declared_as(effect=undo_effect)(maker.undo)
    tool = pullcord.tool(run_in="thread", undo=undo, stop_grace_s=0)(make)
    async with runtime_with(agent=calling(tool)) as runtime:
        run = await runtime.start("agent")
        await begun.wait()
        await run.cancel()
        before = await run.receipt()
        gate.set()
        await seen_late(runtime, run)
        late = await run.receipt()
        assert (await run.undo(await step_of(run, "a"))).holds
        after = await run.receipt()
    for receipt in (before, late):
        assert (receipt.undone, receipt.could_not_undo) == ((), ("a",))
        assert any(f"pullcord undo {run.id}" in text for text in receipt.attention)
    assert any("may still be going on" in text for text in before.attention)
    assert maker.did == ["do a", "undo a"]
    assert [(call.known, call.result) for call in maker.calls] == [("late", "made")]
    assert (after.undone, after.attention) == (("a",), ())


async def test_what_took_too_long_and_cannot_be_stopped_is_not_called_undone() -> None:
    """Its time was over, its agent went on, and so did its thread."""
    maker, gate = ToolMaker(), threading.Event()

    def make() -> str:
        gate.wait(60)
        maker.did.append("do a")
        return "made"

    make.__name__ = "a"
    declared: dict[str, Any] = {"timeout_s": 0.01, "stop_grace_s": 0}
    tool = declared_as(run_in="thread", undo=maker.undo, **declared)(make)
    async with runtime_with(agent=calling(tool)) as runtime:
        run = await runtime.start("agent")
        before = await cancelled(run)
        gate.set()
        await seen_late(runtime, run)
        await run.undo()
        after = await run.receipt()
    assert any("may still be going on" in text for text in before.attention)
    assert maker.did[-2:] == ["do a", "undo a"], "its effect is there, and nobody takes it back"
    assert after.undone == ("a",)


async def seen_late(runtime: Runtime, run: RunHandle) -> None:
    while "late_result" not in await names(runtime, run.id):  # noqa: ASYNC110
        await asyncio.sleep(0.001)


async def test_calls_of_tools_with_one_name_are_each_undone_in_their_own_way() -> None:
    """`ctx.exec("true")` twice, each with its own undo; a third without."""
    done = list[str]()

    def noting(what: str) -> Any:
        async def undo(_call: Call) -> None:
            done.append(what)

        return undo

    async def agent(ctx: Context) -> None:
        await ctx.exec("true", undo=noting("first"), key="1")
        await ctx.exec("true", undo=noting("second"), key="2")
        await ctx.exec("true", key="3")
        await ctx.ask("Go on?")

    async with runtime_with(agent=agent) as runtime:
        receipt = await cancelled(await runtime.start("agent"))
    assert done == ["second", "first"]
    assert (len(receipt.undone), len(receipt.done), receipt.attention) == (2, 1, ())


async def test_a_step_that_failed_is_seen_by_its_agent_and_not_undone() -> None:
    maker = ToolMaker()

    async def agent(ctx: Context) -> None:
        with pytest.raises(StepError):
            await ctx.tool(maker.tool("a", raises))
        await ctx.ask("Go on?")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        receipt = await cancelled(run)
        assert len(await happened(runtime, run.id, StepFailed)) == 1
        assert len(await happened(runtime, run.id, StepStarted)) == 1
    assert (maker.undone, receipt.failed) == ([], ("a",))
