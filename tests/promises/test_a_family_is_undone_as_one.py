"""What children did stays provisional as long as the run they worked for lives: its cancel undoes
it with its own, the newest first over all of them, and its receipt accounts for everybody."""

from contextlib import aclosing
from pathlib import Path
from typing import Any

import pullcord
from pullcord import Context, RunHandle, RunState, Runtime
from pullcord.core.events import ChildUndone, StepUndone
from pullcord.core.show.panel import Button
from pullcord.testing import ManualClock
from tests.runs.observed_runs import HASTY, children, happened, question, runtime_with, seen
from tests.runs.tool_maker import ToolMaker, until


def kid(maker: ToolMaker, tools: str = "draft", kept: str = "") -> Any:
    async def agent(ctx: Context) -> str:
        for tool in maker.tools(tools):
            await ctx.tool(tool)
        for tool in maker.tools(kept, undo=None):
            await ctx.tool(tool)
        return "done"

    return agent


def parent(maker: ToolMaker, **how: Any) -> Any:
    """Does `before`, has the child work, does `after`, and asks whether to go on."""

    async def agent(ctx: Context) -> None:
        await ctx.tool(maker.tool("before"))
        await (await ctx.spawn("kid", **how)).result()
        await ctx.tool(maker.tool("after"))
        await ctx.ask("Go on?")

    return agent


async def asked(runtime: Runtime, agent: str = "agent") -> RunHandle:
    run = await runtime.start(agent)
    await question(run)
    return run


async def cancel_button(runtime: Runtime, run: RunHandle) -> Button:
    panel = await runtime.journal.for_people(lambda look: look.panel(run.id))
    return next(b for b in panel.buttons if b.verb == "cancel")


async def test_what_a_completed_child_did_is_undone_and_named_with_its_parents_cancel() -> None:
    """Finding A3."""
    maker = ToolMaker()
    agents: Any = {"agent": parent(maker), "kid": kid(maker, "draft hold", kept="send")}
    async with runtime_with(**agents) as runtime:
        run = await asked(runtime)
        [child] = await children(runtime, run)
        assert (await cancel_button(runtime, run)).says.endswith("undoes 4, cannot undo 1: send")
        await run.cancel(by="ana")
        receipt = await run.receipt()
    assert maker.undone == ["after", "hold", "draft", "before"]
    of_kid = f"(in {child.id})"
    assert receipt.undone == ("before", "after", f"draft {of_kid}", f"hold {of_kid}")
    assert (receipt.done, receipt.no_undo) == ((f"send {of_kid}",), (f"send {of_kid}",))
    assert receipt.attention == ()


async def test_the_newest_comes_first_also_among_children_that_worked_at_the_same_time() -> None:
    maker = ToolMaker()
    order: list[Any] = []

    async def turn(ctx: Context, given: str) -> None:
        """Does its two things when it is told to."""
        for number in (1, 2):
            await ctx.ask("my turn?")
            await ctx.tool(maker.tool(f"{given}{number}"))

    async def agent(ctx: Context) -> None:
        kids = [await ctx.spawn("turn", name) for name in ("a", "b")]
        await ctx.ask("in between?")
        await ctx.tool(maker.tool("mine"))
        for one in kids:
            await one.result()
        await ctx.ask("Go on?")

    async with runtime_with(agent=agent, turn=turn) as runtime:
        run = await runtime.start("agent")
        await question(run)
        a, b = await children(runtime, run)
        for one in (a, b, run, b, a):
            order.append(one)
            await one.answer(await question(one, nth=order.count(one)))
            await until(lambda: len(maker.did) == len(order))
        await question(run, nth=2)
        await run.cancel()
        await run.receipt()
    assert maker.did[:5] == ["do a1", "do b1", "do mine", "do b2", "do a2"]
    assert maker.undone == ["a2", "b2", "mine", "b1", "a1"]


async def test_children_that_live_and_their_children_are_part_of_the_same_order() -> None:
    maker = ToolMaker()

    async def middle(ctx: Context) -> None:
        await (await ctx.spawn("kid")).result()
        await ctx.tool(maker.tool("middle"))
        await ctx.ask("middle?")

    async def agent(ctx: Context) -> None:
        await ctx.spawn("middle")
        await ctx.ask("begin?")
        await ctx.tool(maker.tool("last"))
        await ctx.ask("Go on?")

    async with runtime_with(agent=agent, middle=middle, kid=kid(maker)) as runtime:
        run = await runtime.start("agent")
        await question(run)
        [mid] = await children(runtime, run)
        await question(mid)
        assert (await cancel_button(runtime, run)).says.endswith("undoes 2")
        await run.answer(await question(run))
        await question(run, nth=2)
        await run.cancel()
        receipt = await run.receipt()
        assert (await mid.snapshot()).state is RunState.CANCELLED
    assert maker.undone == ["last", "middle", "draft"]
    assert len(receipt.undone) == 3


async def test_a_final_childs_work_is_kept_and_listed() -> None:
    maker = ToolMaker()
    async with runtime_with(agent=parent(maker, final=True), kid=kid(maker)) as runtime:
        run = await asked(runtime)
        [child] = await children(runtime, run)
        assert (await cancel_button(runtime, run)).says.endswith("undoes 2")
        await run.cancel()
        receipt = await run.receipt()
    assert maker.undone == ["after", "before"]
    assert receipt.done == (f"draft (in {child.id}, final)",)


async def test_a_final_child_that_has_not_completed_is_undone_like_any_other() -> None:
    maker = ToolMaker()

    async def waits(ctx: Context) -> None:
        await ctx.tool(maker.tool("draft"))
        await ctx.ask("Go on?")

    async with runtime_with(agent=parent(maker, final=True), kid=waits) as runtime:
        run = await runtime.start("agent")
        await until(lambda: "do draft" in maker.did)
        await run.cancel()
        await run.receipt()
    assert maker.undone == ["draft", "before"]


async def test_without_undo_it_is_kept_and_can_be_undone_later_as_one() -> None:
    maker = ToolMaker()
    async with runtime_with(agent=parent(maker), kid=kid(maker)) as runtime:
        run = await asked(runtime)
        await run.cancel(undo=False)
        assert len((await run.receipt()).done) == 3
        assert (await run.undo()).verdict == "applied"
        receipt = await run.receipt()
    assert maker.undone == ["after", "draft", "before"]
    assert len(receipt.undone) == 3


async def test_only_what_came_after_the_step_is_undone_whoever_did_it() -> None:
    maker = ToolMaker()

    async def agent(ctx: Context) -> None:
        await (await ctx.spawn("kid")).result()
        await ctx.tool(maker.tool("mark"))
        await (await ctx.spawn("other")).result()
        await ctx.ask("Go on?")

    async with runtime_with(agent=agent, kid=kid(maker), other=kid(maker, "late")) as runtime:
        run = await asked(runtime)
        [mark] = (await run.snapshot()).steps
        await run.cancel(back_to=mark)
        receipt = await run.receipt()
    assert maker.undone == ["late"]
    assert (len(receipt.done), len(receipt.undone)) == (2, 1)


async def test_a_completed_child_is_not_undone_alone() -> None:
    maker = ToolMaker()
    async with runtime_with(agent=parent(maker), kid=kid(maker)) as runtime:
        run = await asked(runtime)
        [child] = await children(runtime, run)
        ack = await child.undo()
        assert (ack.verdict, ack.reason) == ("rejected", "nothing_to_undo")
        assert f"pullcord cancel {run.id}" in ack.message
    assert maker.undone == []


async def test_what_a_root_that_has_completed_had_done_for_it_is_final() -> None:
    maker = ToolMaker()

    async def agent(ctx: Context) -> None:
        await (await ctx.spawn("kid")).result()

    async with runtime_with(agent=agent, kid=kid(maker)) as runtime:
        run = await runtime.start("agent")
        await run.result()
        assert (await run.cancel()).verdict == "too_late"
        assert (await run.undo()).verdict == "rejected"
        receipt = await run.receipt()
    assert (maker.undone, len(receipt.done), receipt.no_undo) == ([], 1, ())


async def test_an_undo_of_a_childs_that_fails_is_named_and_can_be_tried_again() -> None:
    maker = ToolMaker(fails={"draft": 3})
    async with runtime_with(agent=parent(maker), kid=kid(maker)) as runtime:
        run = await asked(runtime)
        [child] = await children(runtime, run)
        await run.cancel()
        receipt = await run.receipt()
        assert receipt.could_not_undo == (f"draft (in {child.id})",)
        assert f"pullcord undo {child.id}" in receipt.attention[0]
        assert receipt.undone == ("before", "after")
        assert (await child.undo()).verdict == "applied"
        await child.receipt()
        receipt = await run.receipt()
    assert (receipt.could_not_undo, receipt.attention) == ((), ())


async def test_a_childs_agent_that_nobody_knows_is_named_and_done_when_somebody_does(
    tmp_path: Path,
) -> None:
    maker, path = ToolMaker(), tmp_path / "runs.db"
    clock = ManualClock()
    async with runtime_with(path, agent=parent(maker), kid=kid(maker)) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await question(run)
        [child] = await children(runtime, run)
    async with runtime_with(path, agent=parent(maker), clock=clock) as runtime:
        run = await runtime.get("r1")
        await run.cancel()
        await until(lambda: maker.undone == ["after"])
        await run.cancel(now=True)  # who presses again does not wait for a process to come
        receipt = await run.receipt()
        assert maker.undone == ["after", "before"]
        assert receipt.could_not_undo == (f"draft (in {child.id})",)
        assert "no process here knows the agent kid" in receipt.attention[0]
        assert f"pullcord undo {child.id}" in receipt.attention[0]
    async with runtime_with(path, kid=kid(maker)) as runtime:
        await seen_undone(runtime, child.id)
        receipt = await (await runtime.get("r1")).receipt()
        assert (len(receipt.undone), receipt.could_not_undo, receipt.attention) == (3, (), ())
    assert maker.undone == ["after", "before", "draft"]


async def seen_undone(runtime: Runtime, run_id: str) -> None:
    async with aclosing(runtime.journal.changes.subscribe(run_id)) as stream:
        async for _, item in stream:
            if isinstance(getattr(item, "event", None), StepUndone):
                return


async def test_it_goes_on_in_the_next_process(tmp_path: Path) -> None:
    maker, path = ToolMaker(held=["draft"]), tmp_path / "runs.db"
    agents: Any = {"agent": parent(maker), "kid": kid(maker, "draft hold")}
    async with runtime_with(path, timing=HASTY, **agents) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await question(run)
        await run.cancel()
        await maker.undoing.wait()
    maker.go_on.set()
    async with runtime_with(path, **agents) as runtime:
        receipt = await (await runtime.get("r1")).receipt()
        assert len(await happened(runtime, "r1", ChildUndone)) == 1
    assert maker.undone == ["after", "hold", "draft", "draft", "before"]
    assert len(receipt.undone) == 4


async def test_a_fork_does_not_find_what_was_undone_as_done() -> None:
    maker = ToolMaker()
    async with runtime_with(agent=parent(maker), kid=kid(maker)) as runtime:
        run = await asked(runtime)
        await run.cancel()
        await run.receipt()
        fork = await run.fork()
        await question(fork)
        await fork.answer(await question(fork))
        await fork.result()
    assert [did for did in maker.did if did == "do draft"] == ["do draft"] * 2


async def test_a_child_that_is_cancelled_alone_undoes_those_who_worked_for_it() -> None:
    maker = ToolMaker()

    async def top(ctx: Context) -> str:
        try:
            await (await ctx.spawn("agent")).result()
        except pullcord.RunCancelled:
            return "went on"
        return ""

    async with runtime_with(top=top, agent=parent(maker), kid=kid(maker)) as runtime:
        run = await runtime.start("top")
        await until(lambda: "do after" in maker.did)
        [middle] = await children(runtime, run)
        await question(middle)
        await middle.cancel()
        assert await run.result() == "went on"
        assert len((await run.receipt()).undone) == 3
    assert maker.undone == ["after", "draft", "before"]


async def test_what_a_child_that_failed_had_done_is_undone_with_its_parents_cancel() -> None:
    maker = ToolMaker()

    async def fails(ctx: Context) -> None:
        await ctx.tool(maker.tool("draft"))
        raise ValueError("too hard")

    async def agent(ctx: Context) -> None:
        try:
            await (await ctx.spawn("kid")).result()
        except pullcord.RunFailed:
            await ctx.ask("Go on?")

    async with runtime_with(agent=agent, kid=fails) as runtime:
        run = await asked(runtime)
        await run.cancel()
        await run.receipt()
    assert maker.undone == ["draft"]


async def test_one_process_that_drives_only_the_root_undoes_the_family(tmp_path: Path) -> None:
    """As `pullcord run` does."""
    maker, path = ToolMaker(), tmp_path / "runs.db"
    agents: Any = {"agent": parent(maker), "kid": kid(maker)}
    async with pullcord.open(path, agents=agents, only="r1") as runtime:
        run = await runtime.start("agent", run_id="r1")
        await question(run)
        await run.cancel()
        await run.receipt()
    assert maker.undone == ["after", "draft", "before"]


async def test_a_family_cancelled_while_nobody_is_there_waits_for_who_can_undo_it(
    tmp_path: Path,
) -> None:
    maker, path = ToolMaker(), tmp_path / "runs.db"
    agents: Any = {"agent": parent(maker), "kid": kid(maker)}
    async with runtime_with(path, **agents) as runtime:
        await question(await runtime.start("agent", run_id="r1"))
    async with pullcord.open(path) as nobody:
        assert (await (await nobody.get("r1")).cancel()).state is RunState.CANCELLING
    async with runtime_with(path, **agents) as runtime:
        await seen(await runtime.get("r1"), ChildUndone)
        assert (await (await runtime.get("r1")).receipt()).state is RunState.CANCELLED
    assert maker.undone == ["after", "draft", "before"]
