"""An ended run can still be undone: what was kept on purpose, what failed, what a failure left.
And an undo goes on where it was, whoever goes on with it, and however often it was interrupted."""

import asyncio
import gc
import logging
from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import Call, Context, Retry, RunHandle, RunState, Runtime, Timing
from pullcord.core.events import (
    AttentionSettled,
    Claimed,
    StepFinished,
    UndoFailed,
    UndoRequested,
    UndoStarted,
)
from pullcord.journal.journal import Journal
from pullcord.runtime.runtime import worker_of
from tests.runs import undo_tools
from tests.runs.observed_runs import HASTY, happened, names, question, runtime_with, seen, unowned
from tests.runs.tool_maker import ToolMaker, WatchedClock, calling, cancelled, step_of, until
from tests.runs.undo_tools import did

PATIENT = Timing(shutdown_grace_s=3600)


def drafting(book: str, *names: str, tool: Any = undo_tools.draft, **given: Any) -> Any:
    """An agent that calls a tool that any process can find, once for each name. It fails when it is
    told to."""

    async def agent(ctx: Context) -> None:
        for name in names:
            await ctx.tool(tool, book, name, **given)
        if await ctx.ask("Go on?") == "fail":
            raise ValueError("no")

    return agent


@pytest.fixture
def book(tmp_path: Path) -> str:
    return str(tmp_path / "book")


async def draft_of(run: RunHandle, nth: int) -> str:
    return list((await run.snapshot()).steps)[nth - 1]


# --- after the end ---


async def test_what_was_kept_on_purpose_is_undone_when_somebody_asks(book: str) -> None:
    async with runtime_with(agent=drafting(book, "a", "b", "c")) as runtime:
        run = await runtime.start("agent")
        assert len((await cancelled(run, undo=False)).done) == 3
        first = await run.undo(await draft_of(run, 2), by="bo", reason="not that one")
        assert len((await run.receipt()).undone) == 1
        second = await run.undo(by="bo")
        receipt = await run.receipt()
        [asked, _] = await happened(runtime, run.id, UndoRequested)
    assert (first.verdict, second.verdict, first.state) == (
        "applied",
        "applied",
        RunState.CANCELLED,
    )
    assert (asked.by, asked.reason) == ("bo", "not that one")
    assert did(book) == ["do a", "do b", "do c", "undo b", "undo c", "undo a"]
    assert (len(receipt.undone), receipt.done) == (3, ())


async def test_later_too_it_goes_back_only_as_far_as_is_asked(book: str) -> None:
    async with runtime_with(agent=drafting(book, "a", "b", "c")) as runtime:
        run = await runtime.start("agent")
        await cancelled(run, undo=False)
        await run.undo(back_to=await draft_of(run, 1))
        await run.receipt()
    assert did(book)[3:] == ["undo c", "undo b"]


async def test_a_failed_run_is_undone_only_when_somebody_asks(book: str) -> None:
    async with runtime_with(agent=drafting(book, "a", "b")) as runtime:
        run = await runtime.start("agent")
        await run.answer(await question(run), "fail")
        receipt = await run.receipt()
        assert (receipt.state, len(receipt.done), did(book)[2:]) == (RunState.FAILED, 2, [])
        assert (await run.undo()).verdict == "applied"
        receipt = await run.receipt()
    assert (receipt.state, len(receipt.undone), receipt.error) == (
        RunState.FAILED,
        2,
        "ValueError: no",
    )
    assert did(book)[2:] == ["undo b", "undo a"]


async def test_a_failed_run_of_tools_that_only_its_agent_knows_is_undone_too() -> None:
    maker = ToolMaker()

    async def agent(ctx: Context) -> None:
        for tool in maker.tools("a b"):
            await ctx.tool(tool)
        if await ctx.ask("Go on?") == "fail":
            raise ValueError("no")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await run.answer(await question(run), "fail")
        await run.wait_for(RunState.FAILED)
        await run.undo()
        receipt = await run.receipt()
    assert maker.did == ["do a", "do b", "undo b", "undo a"]
    assert receipt.undone == ("a", "b")


async def test_what_a_retry_command_promises_can_work_for_closures_too() -> None:
    maker = ToolMaker(fails={"a": 3})
    async with runtime_with(agent=calling(maker.tool("a"))) as runtime:
        run = await runtime.start("agent")
        receipt = await cancelled(run)
        assert "Try again: pullcord undo" in receipt.attention[0]
        await run.undo(await step_of(run, "a"))
        receipt = await run.receipt()
    assert (receipt.undone, receipt.attention) == (("a",), ())


@pytest.mark.parametrize("fails", [3, 4, 6, 9])
async def test_an_undo_that_failed_is_tried_again_as_often_as_somebody_asks(
    fails: int, book: str
) -> None:
    """Three attempts each time; the attention item comes back until it is undone."""
    async with runtime_with(agent=drafting(book, "a", fails=fails)) as runtime:
        run = await runtime.start("agent")
        receipt = await cancelled(run)
        times = 0
        while receipt.could_not_undo:
            [text] = receipt.attention
            step = await draft_of(run, 1)
            assert f"pullcord undo {run.id} {step}" in text
            assert (await run.undo(step)).verdict == "applied"
            assert (await run.snapshot()).attention == {} or did(book)[-1] == "undo a"
            receipt = await run.receipt()
            times += 1
        assert len(await happened(runtime, run.id, UndoFailed)) == fails // 3
    assert times == fails // 3
    assert did(book) == ["do a", *["undo a"] * (fails + 1)]
    assert (len(receipt.undone), receipt.attention) == (1, ())


async def test_an_item_that_a_person_has_dealt_with_stays_away(book: str) -> None:
    async with runtime_with(agent=drafting(book, "a", fails=99)) as runtime:
        run = await runtime.start("agent")
        await cancelled(run)
        [item] = (await run.snapshot()).attention
        assert (await run.settle(item, by="bo")).holds
        receipt = await run.receipt()
        assert len(await happened(runtime, run.id, AttentionSettled)) == 1
    assert (receipt.attention, len(receipt.could_not_undo)) == ((), 1)


@pytest.mark.parametrize("state", ["running", "paused", "completed", "undone"])
async def test_undo_is_refused_where_there_is_nothing_to_undo(state: str, book: str) -> None:
    async with runtime_with(agent=drafting(book, "a")) as runtime:
        run = await runtime.start("agent")
        asked = await question(run)
        match state:
            case "paused":
                await run.pause()
                await run.wait_for(RunState.PAUSED)
            case "completed":
                await run.answer(asked, "yes")
                await run.result()
            case "undone":
                await cancelled(run)
            case _:
                pass
        before = await names(runtime, run.id)
        for ack in (await run.undo(), await run.undo(await draft_of(run, 1))):
            assert (ack.verdict, ack.reason) == ("rejected", "nothing_to_undo")
            assert ack.message
        assert await names(runtime, run.id) == before
    assert did(book) == (["do a", "undo a"] if state == "undone" else ["do a"])


@pytest.mark.parametrize("how", ["step", "back_to"])
async def test_undo_of_a_step_that_never_was_is_refused(how: str, book: str) -> None:
    async with runtime_with(agent=drafting(book, "a")) as runtime:
        run = await runtime.start("agent")
        await cancelled(run, undo=False)
        ack = await (run.undo("b-123") if how == "step" else run.undo(back_to="b-123"))
        assert (ack.verdict, ack.reason) == ("rejected", "unknown_step")
    assert did(book) == ["do a"]


async def test_asking_twice_is_asking_once(book: str) -> None:
    async with runtime_with(agent=drafting(book, "a", "b")) as runtime:
        run = await runtime.start("agent")
        await cancelled(run, undo=False)
        acks = await asyncio.gather(*(run.undo() for _ in range(10)))
        await run.receipt()
    assert sum(ack.verdict == "applied" for ack in acks) == 1
    assert did(book)[2:] == ["undo b", "undo a"]


async def test_while_it_is_cancelled_without_undo_nobody_is_told_that_it_will_be_undone(
    book: str,
) -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def stubborn() -> None:
        begun.set()
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                pass

    async def agent(ctx: Context) -> None:
        await ctx.tool(undo_tools.draft, book, "a")
        await ctx.step("b", stubborn)

    async with runtime_with(timing=Timing(stop_grace_s=3600), agent=agent) as runtime:
        run = await runtime.start("agent")
        await begun.wait()
        await run.cancel(undo=False)
        ack = await run.undo()
        gate.set()
        receipt = await run.receipt()
    assert ack.holds == (receipt.undone != ())


async def test_what_is_being_undone_is_not_forgotten_when_more_is_asked_for() -> None:
    """One that is under way stays under way: whoever takes over has to know that it had begun."""
    maker = ToolMaker(held=["a"])
    tools = maker.tools("a b")
    policies: Any = {tool.name: tool for tool in tools}
    async with (
        asyncio.timeout(120),
        pullcord.open(":memory:", agents={"agent": calling(*tools)}, tools=policies) as runtime,
    ):
        run = await runtime.start("agent")
        await cancelled(run, undo=False)
        step = await step_of(run, "a")
        await run.undo(step)
        await maker.undoing.wait()
        await run.undo()
        known = (await run.snapshot()).steps[step]
        maker.go_on.set()
        await run.receipt()
    assert (known.undo, known.undo_attempt) == ("started", 1)
    assert maker.undone == ["a", "b"]


async def test_an_ended_run_grows_no_older_by_being_undone(book: str) -> None:
    clock = WatchedClock()
    async with runtime_with(clock=clock, agent=drafting(book, "a")) as runtime:
        run = await runtime.start("agent")
        before = await cancelled(run, undo=False)
        clock.advance(3600)
        await run.undo()
        after = await run.receipt()
    assert after.times == before.times


async def test_a_clock_that_is_set_back_does_not_keep_it_from_being_undone(book: str) -> None:
    clock = WatchedClock()
    async with runtime_with(clock=clock, agent=drafting(book, "a")) as runtime:
        run = await runtime.start("agent")
        await cancelled(run, undo=False)
        clock.jump_wall(-7 * 24 * 3600)
        await run.undo()
        assert len((await run.receipt()).undone) == 1


async def test_many_that_are_being_undone_do_not_keep_others_asleep() -> None:
    maker = ToolMaker(held=["a"])
    tool = maker.tool("a")

    async def sleeper(ctx: Context) -> str:
        await ctx.sleep(0.01)
        return "awake"

    agents: Any = {"agent": calling(tool), "sleeper": sleeper}
    async with (
        asyncio.timeout(120),
        pullcord.open(":memory:", agents=agents, tools={"a": tool}) as runtime,
    ):
        for _ in range(60):
            run = await runtime.start("agent")
            await cancelled(run, undo=False)
            await run.undo()
        await until(lambda: len(maker.undone) == 60)
        try:
            async with asyncio.timeout(5):
                assert await (await runtime.start("sleeper")).result() == "awake"
        finally:
            maker.go_on.set()


# --- in the middle of it ---


async def test_the_next_process_goes_on_with_what_was_cut(tmp_path: Path) -> None:
    """An undo that a shutdown has cut is called again with the same key; what was undone is not."""
    maker = ToolMaker(held=["b"])
    agent = calling(*maker.tools("a b c"))
    async with runtime_with(tmp_path / "runs.db", timing=HASTY, agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await question(run)
        await run.cancel()
        await maker.undoing.wait()
    assert maker.undone == ["c", "b"]
    maker.go_on.set()
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.get("r1")
        receipt = await run.receipt()
        started = await happened(runtime, "r1", UndoStarted)
    assert maker.undone == ["c", "b", "b", "a"]
    assert receipt.undone == ("a", "b", "c")
    assert [event.attempt for event in started] == [1, 1, 2, 1]
    keys = [c.idempotency_key for c in maker.contexts]
    assert keys[1] == keys[2]
    assert len(set(keys)) == 3


async def test_a_shutdown_lets_the_undo_under_way_finish_and_begins_no_other(
    tmp_path: Path,
) -> None:
    maker = ToolMaker(held=["b"])
    agent = calling(*maker.tools("a b c"))

    async with runtime_with(tmp_path / "runs.db", timing=PATIENT, agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await question(run)
        await run.cancel()
        await maker.undoing.wait()
        releasing = asyncio.create_task(goes_on_when_closing(runtime, maker))
    await releasing
    assert maker.undone == ["c", "b"]
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        receipt = await (await runtime.get("r1")).receipt()
    assert maker.undone == ["c", "b", "a"]
    assert receipt.undone == ("a", "b", "c")


async def goes_on_when_closing(runtime: Runtime, maker: ToolMaker) -> None:
    """Let the undo go on as soon as the runtime is being closed."""
    await until(lambda: worker_of(runtime).is_closing)
    maker.go_on.set()


async def test_a_shutdown_does_not_wait_for_an_undo_that_ignores_it() -> None:
    begun, gate = asyncio.Event(), asyncio.Event()

    async def stubborn(_call: Call) -> None:
        begun.set()
        while not gate.is_set():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                pass

    tool = ToolMaker().tool("a", undo=stubborn, undo_timeout_s=3600)
    try:
        async with runtime_with(timing=HASTY, agent=calling(tool)) as runtime:
            run = await runtime.start("agent")
            await question(run)
            await run.cancel()
            await begun.wait()
    finally:
        gate.set()


async def test_an_undo_of_an_ended_run_goes_on_in_the_next_process(tmp_path: Path) -> None:
    maker = ToolMaker(held=["b"])
    tools = maker.tools("a b")
    policies: Any = {tool.name: tool for tool in tools}
    agents: Any = {"agent": calling(*tools)}

    def opened(timing: Timing) -> Any:
        path = tmp_path / "runs.db"
        return pullcord.open(path, agents=agents, tools=policies, timing=timing)

    async with asyncio.timeout(120):
        async with opened(HASTY) as runtime:
            run = await runtime.start("agent", run_id="r1")
            await cancelled(run, undo=False)
            await run.undo()
            await maker.undoing.wait()
        maker.go_on.set()
        async with opened(HASTY) as runtime:
            receipt = await (await runtime.get("r1")).receipt()
    assert maker.undone == ["b", "b", "a"]
    assert receipt.undone == ("a", "b")


async def test_it_is_taken_up_at_once_and_not_when_a_lease_has_lapsed(tmp_path: Path) -> None:
    """Who closes gives it back."""
    maker = ToolMaker(held=["a"])
    agent = calling(maker.tool("a"))
    async with runtime_with(tmp_path / "runs.db", timing=HASTY, agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await question(run)
        await run.cancel()
        await maker.undoing.wait()
    async with pullcord.open(tmp_path / "runs.db") as runtime, asyncio.timeout(120):
        assert (await runtime.journal.head("r1")).holder.owner == ""


async def test_an_ended_run_is_nobodys_when_it_has_been_undone(book: str) -> None:
    async with runtime_with(agent=drafting(book, "a")) as runtime:
        run = await runtime.start("agent")
        await cancelled(run, undo=False)
        await run.undo()
        await run.receipt()
        await unowned(runtime, run)
        claims = await happened(runtime, run.id, Claimed)
    assert len(claims) == 2


async def test_a_once_undo_that_was_cut_is_never_called_again(tmp_path: Path) -> None:
    maker, receipt = await cut_once_undo(tmp_path, probe=None)
    assert maker.undone == ["b", "a"]
    assert (receipt.undone, receipt.could_not_undo) == (("a",), ("b",))
    assert "nobody knows whether it was undone" in receipt.attention[0]


@pytest.mark.parametrize("says", [True, False, None, ConnectionError("no line")])
async def test_a_once_undo_that_was_cut_counts_if_the_probe_says_that_it_is_gone(
    says: object, tmp_path: Path
) -> None:
    async def probe(_call: object) -> object:
        if isinstance(says, Exception):
            raise says
        return says

    maker, receipt = await cut_once_undo(tmp_path, probe=probe)
    assert maker.undone == ["b", "a"]
    assert receipt.could_not_undo == (() if says is False else ("b",))
    assert receipt.undone == (("a", "b") if says is False else ("a",))
    assert bool(receipt.attention) == (says is not False)


async def cut_once_undo(tmp_path: Path, *, probe: Any) -> tuple[ToolMaker, Any]:
    maker = ToolMaker(held=["b"])
    once = pullcord.tool(effect="once")(maker.undo)
    tools = [maker.tool("a"), maker.tool("b", undo=once, probe=probe)]
    agent = calling(*tools)
    async with runtime_with(tmp_path / "runs.db", timing=HASTY, agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await question(run)
        await run.cancel()
        await maker.undoing.wait()
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        return maker, await (await runtime.get("r1")).receipt()


async def test_a_person_may_have_a_once_undo_tried_again(book: str) -> None:
    agent = drafting(book, "a", tool=undo_tools.grant, fails=1)
    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert len((await cancelled(run)).could_not_undo) == 1
        await run.undo(await draft_of(run, 1))
        receipt = await run.receipt()
    assert did(book) == ["do a", "undo a", "undo a"]
    assert (len(receipt.undone), receipt.attention) == (1, ())


async def test_attempts_are_counted_across_processes(tmp_path: Path) -> None:
    """Two failed here, a third is cut there: the one after it is the last."""
    maker = ToolMaker(fails={"a": 99})
    clock = WatchedClock()
    retry = Retry(attempts=3, wait_s=3600, wait_max_s=36000)
    agent = calling(maker.tool("a", undo_retry=retry))
    path = tmp_path / "runs.db"
    async with runtime_with(path, clock=clock, agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await question(run)
        await run.cancel()
        await until(lambda: 3600 in clock.asked)
    async with runtime_with(path, clock=clock, agent=agent) as runtime:
        await until(lambda: 7200 in clock.asked)
    async with runtime_with(path, clock=clock, agent=agent) as runtime:
        run = await runtime.get("r1")
        receipt = await run.receipt()
        started = await happened(runtime, "r1", UndoStarted)
    assert [event.attempt for event in started] == [1, 2, 3]
    assert maker.undone == ["a"] * 3
    assert receipt.could_not_undo == ("a",)


async def test_something_newer_that_is_asked_for_meanwhile_comes_first(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """An older one has failed and rests: the newer one does not wait for it, and nothing breaks."""
    maker, clock = ToolMaker(fails={"a": 1}), WatchedClock()
    retry = Retry(attempts=3, wait_s=3600, wait_max_s=36000)
    tools = maker.tools("a b", undo_retry=retry)
    policies: Any = {tool.name: tool for tool in tools}
    agents: Any = {"agent": calling(*tools)}
    async with (
        asyncio.timeout(120),
        pullcord.open(":memory:", agents=agents, tools=policies, clock=clock) as runtime,
    ):
        run = await runtime.start("agent")
        await cancelled(run, undo=False)
        await run.undo(await step_of(run, "a"))
        await until(lambda: 3600 in clock.asked)
        await run.undo()
        clock.advance(3600)
        receipt = await run.receipt()
    gc.collect()
    assert maker.undone == ["a", "b", "a"]
    assert (receipt.undone, receipt.attention) == (("a", "b"), ())
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


async def test_an_owner_that_was_overtaken_in_the_middle_of_an_undo_lets_go_of_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its alarms never ring, so that its lease lapses; another has taken over and undone it."""
    first, second = ToolMaker(held=["a"]), ToolMaker()
    path = tmp_path / "runs.db"
    quick = Timing(lease_s=0.05, shutdown_grace_s=0.05)
    asleep = Runtime(
        Journal.open(path),
        agents={"agent": calling(first.tool("a"))},
        clock=WatchedClock(),
        timing=quick,
    )
    async with asyncio.timeout(120), asleep as runtime:
        run = await runtime.start("agent", run_id="r1")
        await question(run)
        await run.cancel()
        await first.undoing.wait()
        agents = {"agent": calling(second.tool("a"))}
        soon = Timing(lease_s=0.5)
        async with pullcord.open(path, agents=agents, timing=soon) as other:
            receipt = await (await other.get("r1")).receipt()
            first.go_on.set()
            await until(lambda: "r1" not in worker_of(runtime).drivers)
    gc.collect()
    assert (first.undone, second.undone) == (["a"], ["a"])
    assert receipt.undone == ("a",)
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


# --- who knows how ---


async def test_an_agent_is_entered_again_only_to_say_how_its_tools_are_undone(
    tmp_path: Path,
) -> None:
    maker, entered = ToolMaker(), list[str]()

    def living(life: str) -> Any:
        async def agent(ctx: Context) -> None:
            entered.append(life)
            for tool in maker.tools("a b"):
                await ctx.tool(tool)
            await ctx.ask("Go on?")
            await ctx.tool(maker.tool("c"))

        return agent

    async with runtime_with(tmp_path / "runs.db", agent=living("first")) as runtime:
        await question(await runtime.start("agent", run_id="r1"))
    async with pullcord.open(tmp_path / "runs.db") as nobody:
        ack = await (await nobody.get("r1")).cancel()
        assert ack.state is RunState.CANCELLING
    async with runtime_with(tmp_path / "runs.db", agent=living("second")) as runtime:
        receipt = await (await runtime.get("r1")).receipt()
    assert entered == ["first", "second"]
    assert maker.did == ["do a", "do b", "undo b", "undo a"]
    assert (receipt.undone, receipt.attention) == (("a", "b"), ())


async def test_what_was_undone_before_does_not_hide_how_the_rest_is_undone() -> None:
    maker = ToolMaker()
    async with runtime_with(agent=calling(*maker.tools("a b c"))) as runtime:
        run = await runtime.start("agent")
        await cancelled(run, undo=False)
        for name in ("a", "c", "b"):
            await run.undo(await step_of(run, name))
            await run.receipt()
        receipt = await run.receipt()
    assert maker.undone == ["a", "c", "b"]
    assert (receipt.undone, receipt.attention) == (("a", "b", "c"), ())


async def test_what_the_agent_does_not_know_any_more_is_named(tmp_path: Path) -> None:
    maker = ToolMaker()
    path = tmp_path / "runs.db"
    async with runtime_with(path, agent=calling(*maker.tools("a b c"))) as runtime:
        await question(await runtime.start("agent", run_id="r1"))
    async with pullcord.open(path) as nobody:
        await (await nobody.get("r1")).cancel()
    async with runtime_with(path, agent=calling(*maker.tools("a c"))) as runtime:
        receipt = await (await runtime.get("r1")).receipt()
    assert maker.undone == ["c", "a"]
    assert (receipt.undone, receipt.could_not_undo) == (("a", "c"), ("b",))
    assert "nobody here knows" in receipt.attention[0]


async def test_an_agent_is_not_entered_where_its_tools_can_be_found(
    tmp_path: Path, book: str
) -> None:
    entered = list[str]()

    async def agent(ctx: Context) -> None:
        entered.append("")
        await ctx.tool(undo_tools.draft, book, "a")
        await ctx.tool(undo_tools.hold, book, "b")
        await ctx.ask("Go on?")

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        await question(await runtime.start("agent", run_id="r1"))
    async with pullcord.open(tmp_path / "runs.db") as nobody:
        await (await nobody.get("r1")).cancel()
    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        receipt = await (await runtime.get("r1")).receipt()
    assert len(entered) == 1
    assert [line for line in did(book) if not line.startswith("as")] == [
        "do a",
        "do b",
        "undo b",
        "undo a",
    ]
    assert len(receipt.undone) == 2


async def test_a_cancel_right_after_a_restart_finds_out_how_it_is_undone(tmp_path: Path) -> None:
    """The agent has been entered anew and has not come as far as its tools when it is cancelled."""
    maker, entered = ToolMaker(), asyncio.Event()
    lives = 0

    async def agent(ctx: Context) -> None:
        nonlocal lives
        lives += 1
        if lives == 2:
            entered.set()
            await asyncio.Event().wait()
        await ctx.tool(maker.tool("a"))
        await ctx.checkpoint()
        await asyncio.Event().wait()

    path = tmp_path / "runs.db"
    async with runtime_with(path, timing=HASTY, agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await seen(run, StepFinished)
    async with runtime_with(path, timing=HASTY, agent=agent) as runtime:
        run = await runtime.get("r1")
        await entered.wait()
        await run.cancel()
        receipt = await run.receipt()
    assert maker.undone == ["a"]
    assert (receipt.undone, receipt.attention) == (("a",), ())


async def test_a_cancel_right_after_a_restart_releases_what_was_deferred(tmp_path: Path) -> None:
    entered, released = asyncio.Event(), list[str]()
    lives = 0

    async def unlock() -> None:
        released.append("lock")

    async def agent(ctx: Context) -> None:
        nonlocal lives
        lives += 1
        if lives == 2:
            entered.set()
            await asyncio.Event().wait()
        await ctx.defer(unlock)
        await ctx.ask("Go on?")

    path = tmp_path / "runs.db"
    async with runtime_with(path, timing=HASTY, agent=agent) as runtime:
        await question(await runtime.start("agent", run_id="r1"))
    async with pullcord.open(path) as nobody:
        run = await nobody.get("r1")
        await run.answer((await run.snapshot()).open_questions()[0], "yes")
    async with runtime_with(path, timing=HASTY, agent=agent) as runtime:
        run = await runtime.get("r1")
        await entered.wait()
        await run.cancel()
        receipt = await run.receipt()
    assert (released, receipt.attention) == (["lock"], ())


@pytest.mark.parametrize("is_restarted", [False, True])
async def test_what_a_tool_declares_itself_counts_before_what_is_configured_for_its_name(
    is_restarted: bool, tmp_path: Path, book: str
) -> None:
    maker = ToolMaker()
    tools: Any = {"draft": {"undo": maker.undo}}

    def opened() -> Any:
        agents = {"agent": drafting(book, "a")}
        return pullcord.open(tmp_path / "runs.db", agents=agents, tools=tools)

    async with asyncio.timeout(120):
        async with opened() as runtime:
            run = await runtime.start("agent", run_id="r1")
            await question(run)
            if not is_restarted:
                await run.cancel()
                await run.receipt()
        async with pullcord.open(tmp_path / "runs.db") as nobody:
            await (await nobody.get("r1")).cancel()
        async with opened() as runtime:
            await (await runtime.get("r1")).receipt()
    assert (did(book), maker.undone) == (["do a", "undo a"], [])


async def test_a_policy_by_name_is_found_again_by_its_name(tmp_path: Path, book: str) -> None:
    entered = list[str]()

    async def agent(ctx: Context) -> None:
        entered.append("")
        await ctx.tool(undo_tools.foreign, book, "a")
        await ctx.ask("Go on?")

    def opened() -> Any:
        tools: Any = {"foreign": {"undo": undo_tools.discard}}
        return pullcord.open(tmp_path / "runs.db", agents={"agent": agent}, tools=tools)

    async with asyncio.timeout(120):
        async with opened() as runtime:
            await question(await runtime.start("agent", run_id="r1"))
        async with pullcord.open(tmp_path / "runs.db") as nobody:
            await (await nobody.get("r1")).cancel()
        async with opened() as runtime:
            receipt = await (await runtime.get("r1")).receipt()
    assert did(book) == ["do a", "undo a"]
    assert (receipt.undone, len(entered)) == (("foreign",), 1)
