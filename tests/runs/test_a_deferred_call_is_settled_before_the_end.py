"""A call declared `deferred` does not hold its agent up: it is queued, and settled before the run
ends, whatever happens in between."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import Context, RunHandle, RunState, StepError
from pullcord.core.events import (
    AttentionRaised,
    Completed,
    Event,
    QuestionAsked,
    StepFinished,
    StepStarted,
)
from pullcord.runtime.context import Queued
from pullcord.testing import ManualClock
from tests.runs.approving import DAY_S, Bank, args_of, card, open_cards, told
from tests.runs.observed_runs import (
    HASTY,
    PARKING,
    UNHURRIED,
    events,
    happened,
    question,
    runtime_with,
    seen,
    settles,
    unowned,
)


def forgetful(bank: Bank, *amounts: int, **declared: Any) -> Any:
    """An agent that queues payments, works on, and returns without looking back."""

    async def agent(ctx: Context) -> str:
        pay = bank.pay(deferred=True, **declared)
        for amount in amounts or (100,):
            assert isinstance(await ctx.tool(pay, amount), Queued)
        await ctx.step("work", bank.pay_out, "work")
        return "worked on"

    return agent


def careful(bank: Bank, **declared: Any) -> Any:
    """An agent that queues a payment, works on, and then waits for what became of it."""

    async def agent(ctx: Context) -> Any:
        queued = await ctx.tool(bank.pay(deferred=True, **declared), 100)
        await ctx.step("work", bank.pay_out, "work")
        return [await told(queued.result()), await told(queued.result())]

    return agent


def seq_of(order: list[Event], kind: type[Event]) -> int:
    return next(n for n, event in enumerate(order) if isinstance(event, kind))


async def waiting_with_its_work_done(run: RunHandle) -> QuestionAsked:
    """Wait until nothing but the queued call is left."""
    asked = await card(run)
    await seen(run, StepFinished)
    await run.wait_for(RunState.WAITING)
    return asked


async def test_the_agent_goes_on_at_once_and_the_run_ends_when_the_call_is_settled() -> None:
    bank = Bank()
    async with runtime_with(agent=forgetful(bank)) as runtime:
        run = await runtime.start("agent")
        asked = await waiting_with_its_work_done(run)
        assert bank.paid == ["work"]
        assert not (await run.snapshot()).ended
        await run.approve(asked.question)
        assert await run.result() == "worked on"
        order = await events(runtime, run.id)
        assert isinstance(order[-1], Completed)
        assert (await run.receipt()).done == ("work", "pay")
    assert bank.paid == ["work", (100, "bob")]


async def test_its_result_is_there_for_whoever_waits_for_it_as_often_as_wanted() -> None:
    bank = Bank()
    async with runtime_with(agent=careful(bank)) as runtime:
        run = await runtime.start("agent")
        asked = await waiting_with_its_work_done(run)
        await run.approve(asked.question)
        assert await run.result() == ["paid 100 to bob"] * 2
    assert bank.paid == ["work", (100, "bob")]


@pytest.mark.parametrize("waits", [True, False], ids=["waited for", "not waited for"])
async def test_a_denied_one_is_told_to_whoever_waits_and_fails_nobody_else(waits: bool) -> None:
    bank = Bank()
    async with runtime_with(agent=careful(bank) if waits else forgetful(bank)) as runtime:
        run = await runtime.start("agent")
        asked = await waiting_with_its_work_done(run)
        await run.deny(asked.question, reason="no")
        assert await run.result() == ([["denied", "no"]] * 2 if waits else "worked on")
        assert (await run.receipt()).not_attempted == ("pay (denied)",)
    assert bank.paid == ["work"]


async def test_one_that_expires_does_not_hold_the_run_for_ever() -> None:
    bank, clock = Bank(), ManualClock()
    async with runtime_with(agent=forgetful(bank), clock=clock, timing=UNHURRIED) as runtime:
        run = await runtime.start("agent")
        await settles(run, clock, RunState.WAITING)
        clock.advance(7 * DAY_S)
        await settles(run, clock, RunState.COMPLETED)
        assert await run.result() == "worked on"
        assert (await run.receipt()).not_attempted == ("pay (expired)",)
    assert bank.paid == ["work"]


async def test_an_edited_one_is_shown_again_and_made_as_it_was_approved() -> None:
    bank = Bank()
    async with runtime_with(agent=forgetful(bank)) as runtime:
        run = await runtime.start("agent")
        await run.edit((await card(run)).question, {"amount": 50})
        second = await card(run, nth=2)
        assert args_of(second)["amount"] == 50
        assert (50, "bob") not in bank.tried
        await run.approve(second.question)
        assert await run.result() == "worked on"
    assert sorted(map(str, bank.paid)) == ["(50, 'bob')", "work"]


async def test_a_failing_one_that_nobody_waits_for_is_in_the_receipt() -> None:
    @pullcord.tool(deferred=True)
    async def breaks() -> None:
        raise ConnectionError("declined")

    async def agent(ctx: Context) -> Any:
        queued = await ctx.tool(breaks)
        try:
            await queued.result()
        except StepError as error:
            await ctx.tool(breaks)
            return error.error

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == "ConnectionError: declined"
        assert (await run.receipt()).failed == ("breaks", "breaks")


async def test_one_that_needs_no_approval_is_made_beside_the_agent() -> None:
    bank = Bank()
    bank.close_the_counter()

    async def agent(ctx: Context) -> Any:
        queued = await ctx.tool(bank.pay(deferred=True, approve="never"), 100)
        said = repr(queued)
        await ctx.ask("Open the counter?")
        return [said, await queued.result(), repr(queued)]

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        name = await question(run)
        await bank.at_the_counter.wait()
        bank.counter.set()
        await run.answer(name, "yes")
        assert await run.result() == [
            "<queued call, open>",
            "paid 100 to bob",
            "<queued call, done>",
        ]


async def test_an_agent_that_loses_patience_with_it_does_not_take_it_back() -> None:
    bank = Bank()

    async def agent(ctx: Context) -> str:
        queued = await ctx.tool(bank.pay(deferred=True), 100)
        waiting = asyncio.create_task(queued.result())
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait({waiting})
        return "went on"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        await run.wait_for(RunState.WAITING)
        assert await open_cards(run) == [asked.question]
        await run.approve(asked.question)
        assert await run.result() == "went on"
    assert bank.paid == [(100, "bob")]


# --- stopped, and started again ---


@pytest.mark.parametrize("returned", [True, False], ids=["agent returned", "agent waits"])
async def test_a_cancel_withdraws_it(returned: bool) -> None:
    bank = Bank()
    async with runtime_with(agent=forgetful(bank) if returned else careful(bank)) as runtime:
        run = await runtime.start("agent")
        asked = await waiting_with_its_work_done(run)
        await run.cancel()
        receipt = await run.receipt()
        assert (receipt.state, receipt.done) == (RunState.CANCELLED, ("work",))
        assert receipt.not_attempted == ("pay (withdrawn)",)
        assert (await run.approve(asked.question)).verdict == "too_late"
    assert bank.paid == ["work"]


async def test_a_cancel_stops_one_that_is_being_made() -> None:
    bank = Bank()

    async def agent(ctx: Context) -> None:
        await ctx.tool(bank.pay(deferred=True), 100)

    async with runtime_with(agent=agent, timing=HASTY) as runtime:
        run = await runtime.start("agent")
        bank.close_the_counter()
        await run.approve((await card(run)).question)
        await bank.at_the_counter.wait()
        await run.cancel()
        assert (await run.receipt()).interrupted == ("pay",)
    assert bank.paid == []


async def test_a_redirect_answers_it_and_the_run_goes_on() -> None:
    bank = Bank()
    async with runtime_with(agent=careful(bank)) as runtime:
        run = await runtime.start("agent")
        await waiting_with_its_work_done(run)
        await run.redirect("pay nobody")
        assert await run.result() == [["not_started", "redirected"]] * 2
    assert bank.paid == ["work"]


async def test_a_pause_keeps_it_open() -> None:
    bank = Bank()
    async with runtime_with(agent=forgetful(bank)) as runtime:
        run = await runtime.start("agent")
        asked = await waiting_with_its_work_done(run)
        await run.pause()
        await run.approve(asked.question)
        assert (await run.snapshot()).state is RunState.PAUSED
        assert bank.paid == ["work"]
        await run.resume()
        assert await run.result() == "worked on"
    assert bank.paid == ["work", (100, "bob")]


@pytest.mark.parametrize("agent", [forgetful, careful], ids=["agent returned", "agent waits"])
@pytest.mark.parametrize("verb", ["approve", "deny"])
@pytest.mark.parametrize("parked", [True, False], ids=["parked", "restarted"])
async def test_it_is_found_again_when_the_agent_is_entered_anew(
    agent: Any, verb: str, parked: bool, tmp_path: Path
) -> None:
    bank = Bank()
    path, timing = tmp_path / "r.db", PARKING if parked else None
    async with runtime_with(path, agent=agent(bank), timing=timing) as runtime:
        run = await runtime.start("agent", run_id="r1")
        asked = await waiting_with_its_work_done(run)
        if parked:
            await unowned(runtime, run)
            await getattr(run, verb)(asked.question, reason="no")
            await run.result()
    async with runtime_with(path, agent=agent(bank)) as runtime:
        run = await runtime.get("r1")
        if not parked:
            await getattr(run, verb)(asked.question, reason="no")
        result = await run.result()
        assert len(await happened(runtime, "r1", QuestionAsked)) == 1
        assert (await run.snapshot()).attention == {}
    heard = "paid 100 to bob" if verb == "approve" else ["denied", "no"]
    assert result == ("worked on" if agent is forgetful else [heard, heard])
    assert bank.paid == ["work", *([(100, "bob")] if verb == "approve" else [])]


async def test_one_that_a_shutdown_cuts_is_asked_about_and_not_made_again(tmp_path: Path) -> None:
    bank = Bank()
    path = tmp_path / "r.db"

    async def agent(ctx: Context) -> str:
        await ctx.tool(bank.pay(deferred=True), 100)
        return "went on"

    bank.close_the_counter()
    async with runtime_with(path, agent=agent, timing=HASTY) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await run.approve((await card(run)).question)
        await bank.at_the_counter.wait()
    bank.counter.set()
    async with runtime_with(path, agent=agent) as runtime:
        run = await runtime.get("r1")
        doubt = await question(run, kind="doubt")
        assert not (await run.snapshot()).ended
        await run.answer(doubt, "happened")
        assert await run.result() == "went on"
        assert len(await happened(runtime, "r1", AttentionRaised)) == 1
        assert len(await happened(runtime, "r1", StepStarted)) == 1
    assert bank.tried == [(100, "bob")]


async def test_an_agent_that_fails_leaves_no_card_and_no_call_behind() -> None:
    bank = Bank()

    async def agent(ctx: Context) -> None:
        await ctx.tool(bank.pay(deferred=True), 100)
        await ctx.ask("Fail?")
        raise ValueError("lost")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        await run.answer(await question(run, kind="question"), "yes")
        assert (await run.wait_for(RunState.FAILED)).error == "ValueError: lost"
        assert await open_cards(run) == []
        late = await run.approve(asked.question)
        assert (late.verdict, late.reason) == ("too_late", "ended")
        assert (await run.receipt()).not_attempted == ("pay (withdrawn)",)
    assert bank.tried == []


async def test_several_are_settled_one_by_one_in_any_order(tmp_path: Path) -> None:
    bank = Bank()
    agent = forgetful(bank, 1, 2, 3)
    async with runtime_with(tmp_path / "r.db", agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        shown = {args_of(c)["amount"]: c for c in [await card(run, nth=n) for n in (1, 2, 3)]}
        await run.approve(shown[3].question)
        await seen(run, StepFinished, step=shown[3].step)
        await run.deny(shown[1].question, reason="no")
        await run.wait_for(RunState.WAITING)
        assert not (await run.snapshot()).ended
    async with runtime_with(tmp_path / "r.db", agent=agent) as runtime:
        run = await runtime.get("r1")
        await run.approve(shown[2].question)
        assert await run.result() == "worked on"
        order = await events(runtime, "r1")
        assert seq_of(order, Completed) == len(order) - 1
    assert bank.paid == ["work", (3, "bob"), (2, "bob")]


async def test_the_tasks_beside_the_agent_are_gone_with_the_runtime(tmp_path: Path) -> None:
    before = asyncio.all_tasks()
    async with runtime_with(tmp_path / "r.db", agent=forgetful(Bank(), 1, 2, 3)) as runtime:
        run = await runtime.start("agent")
        await card(run, nth=3)
    assert asyncio.all_tasks() == before
