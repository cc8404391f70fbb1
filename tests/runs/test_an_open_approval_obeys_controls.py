"""An approval that is open outlives restarts and pauses, and goes with a cancel, a redirect, a
deploy, its time, or an agent that waits no longer. Whoever answers it then is told so."""

import asyncio
import functools
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import Context, Run, RunHandle, RunState, StepError, Timing
from pullcord.core.events import (
    Answered,
    CancelRequested,
    QuestionAsked,
    QuestionWithdrawn,
    StepFailed,
    StepFinished,
    StepStarted,
)
from pullcord.core.values import load
from pullcord.testing import ManualClock
from tests.numbers import outside
from tests.runs.approval_tools import hold, noted
from tests.runs.approving import DAY_S, Bank, args_of, card, open_cards, payer, told
from tests.runs.observed_runs import (
    HASTY,
    PARKING,
    UNHURRIED,
    events,
    happened,
    names,
    question,
    runtime_with,
    seen,
    settles,
    unowned,
)

AMOUNTS = (1, 2, 3)


def many(bank: Bank, *amounts: int, **declared: Any) -> Any:
    """An agent that makes these calls at the same time and says what it was told of each."""

    async def agent(ctx: Context) -> Any:
        pay = bank.pay(**declared)
        return await asyncio.gather(*(told(ctx.tool(pay, amount)) for amount in amounts))

    return agent


async def cards(run: RunHandle, count: int) -> dict[int, QuestionAsked]:
    """The open cards by the amount that they are about, once there are so many."""
    await card(run, nth=count)
    found = dict[int, QuestionAsked]()
    now = await run.snapshot()
    for nth in range(1, len(now.questions) + 1):
        asked = await card(run, nth=nth)
        if now.questions[asked.question].status == "open":
            found[args_of(asked)["amount"]] = asked
    return found


# --- time ---


async def test_what_nobody_approves_in_time_is_not_started_and_not_asked_again() -> None:
    bank, clock = Bank(), ManualClock()
    async with runtime_with(agent=payer(bank.pay()), clock=clock, timing=UNHURRIED) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        await settles(run, clock, RunState.WAITING)
        clock.advance(7 * DAY_S - 0.001)
        assert await open_cards(run) == [asked.question]
        clock.advance(0.001)
        await settles(run, clock, RunState.COMPLETED)
        assert await run.result() == ["not_started", "nobody approved it in time"]
        [answer] = await happened(runtime, run.id, Answered)
        assert (answer.by, answer.verdict) == ("clock", "expired")
        assert len(await happened(runtime, run.id, QuestionAsked)) == 1
        assert (await run.receipt()).not_attempted == ("pay (expired)",)
        assert (await run.approve(asked.question)).verdict == "too_late"
    assert bank.tried == []


@pytest.mark.parametrize("verb", ["approve", "edit", "deny"])
@pytest.mark.parametrize("paused", [False, True], ids=["waiting", "paused"])
async def test_an_expired_card_cannot_be_answered_although_nobody_has_noticed(
    verb: str, paused: bool, tmp_path: Path
) -> None:
    bank, clock = Bank(), ManualClock()
    agent = payer(bank.pay(approve_within_s=60.0))
    async with runtime_with(
        tmp_path / "r.db", agent=agent, clock=clock, timing=UNHURRIED
    ) as runtime:
        run = await runtime.start("agent", run_id="r1")
        asked = await card(run)
        await settles(run, clock, RunState.WAITING)
        if paused:
            await run.pause()
    clock.advance(60)
    async with runtime_with(tmp_path / "r.db", clock=clock) as elsewhere:
        run = await elsewhere.get("r1")
        edit = functools.partial(run.edit, args={"amount": 1})
        judge = {"approve": run.approve, "deny": run.deny, "edit": edit}[verb]
        late = await judge(asked.question)
        assert (late.verdict, late.reason) == ("too_late", "expired")
        assert await open_cards(run) == []
        [answer] = await happened(elsewhere, "r1", Answered)
        assert (answer.verdict, late.seq) == ("expired", (await run.snapshot()).seq)
        again = await judge(asked.question)
        assert (again.verdict, again.seq) == ("too_late", late.seq)
    async with runtime_with(
        tmp_path / "r.db", agent=agent, clock=clock, timing=UNHURRIED
    ) as runtime:
        run = await runtime.get("r1")
        if paused:
            await run.resume()
        await settles(run, clock, RunState.COMPLETED)
        assert await run.result() == ["not_started", "nobody approved it in time"]
    assert bank.tried == []


async def test_what_is_answered_in_the_last_moment_is_in_time(tmp_path: Path) -> None:
    bank, clock = Bank(), ManualClock()
    agent = payer(bank.pay(approve_within_s=60.0))
    async with runtime_with(
        tmp_path / "r.db", agent=agent, clock=clock, timing=UNHURRIED
    ) as runtime:
        run = await runtime.start("agent", run_id="r1")
        asked = await card(run)
        await settles(run, clock, RunState.WAITING)
    clock.advance(59.999)
    async with runtime_with(tmp_path / "r.db", clock=clock) as elsewhere:
        ack = await (await elsewhere.get("r1")).approve(asked.question)
        assert ack.verdict == "applied"
    async with runtime_with(
        tmp_path / "r.db", agent=agent, clock=clock, timing=UNHURRIED
    ) as runtime:
        run = await runtime.get("r1")
        await settles(run, clock, RunState.COMPLETED)
    assert bank.paid == [(100, "bob")]


async def test_of_several_cards_each_has_its_own_time() -> None:
    bank, clock = Bank(), ManualClock()

    async def agent(ctx: Context) -> Any:
        soon, late = bank.pay(approve_within_s=10.0), bank.pay(approve_within_s=100.0)
        return await asyncio.gather(told(ctx.tool(late, 2)), told(ctx.tool(soon, 1)))

    async with runtime_with(agent=agent, clock=clock, timing=UNHURRIED) as runtime:
        run = await runtime.start("agent")
        await cards(run, 2)
        await settles(run, clock, RunState.WAITING)
        clock.advance(10)
        await seen(run, Answered, verdict="expired")
        [left] = await open_cards(run)
        await run.approve(left)
        await settles(run, clock, RunState.COMPLETED)
        assert await run.result() == [
            "paid 2 to bob",
            ["not_started", "nobody approved it in time"],
        ]
    assert bank.paid == [(2, "bob")]


async def test_an_edit_begins_the_time_anew() -> None:
    bank, clock = Bank(), ManualClock()
    pay = bank.pay(approve_within_s=60.0)
    async with runtime_with(agent=payer(pay), clock=clock, timing=UNHURRIED) as runtime:
        run = await runtime.start("agent")
        first = await card(run)
        clock.advance(59)
        await run.edit(first.question, {"amount": 50})
        second = await card(run, nth=2)
        assert second.due_ms == first.due_ms + 59_000
        clock.advance(59)
        assert (await run.approve(second.question)).verdict == "applied"
        await settles(run, clock, RunState.COMPLETED)
    assert bank.paid == [(50, "bob")]


# --- cancel ---


@pytest.mark.parametrize("verb", ["approve", "deny"])
async def test_a_cancel_withdraws_every_card_and_a_late_answer_is_told_who_won(verb: str) -> None:
    bank = Bank()
    async with runtime_with(agent=many(bank, *AMOUNTS)) as runtime:
        run = await runtime.start("agent")
        shown = await cards(run, 3)
        cancelled = await run.cancel(by="ana", reason="wrong path")
        for asked in shown.values():
            late = await getattr(run, verb)(asked.question, by="bo")
            assert late.verdict == "too_late"
            assert late.reason in ("cancelling", "ended")
            assert "cancelled by ana: wrong path" in late.message
        receipt = await run.receipt()
        assert receipt.not_attempted == ("pay (withdrawn)",) * 3
        assert (await run.approve(shown[1].question)).reason == "ended"
        order = await events(runtime, run.id)
        after = order[cancelled.seq :]
        assert not [event for event in after if isinstance(event, QuestionAsked | Answered)]
        assert await open_cards(run) == []
    assert bank.tried == []


async def test_after_a_denial_and_a_cancel_no_further_card_comes() -> None:
    """The agent asks for the next as soon as it is told no; the cancel came first."""
    bank = Bank()

    async def agent(ctx: Context) -> None:
        for amount in range(1, 10):
            await told(ctx.tool(bank.pay(), amount))

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        first = await card(run)
        await asyncio.gather(run.deny(first.question), run.cancel())
        await run.wait_for(RunState.CANCELLED)
        order = [type(event) for event in await events(runtime, run.id)]
        assert QuestionAsked not in order[order.index(CancelRequested) :]
        assert await open_cards(run) == []
    assert bank.tried == []


async def test_an_answer_after_a_cancel_is_too_late_also_when_no_process_runs(
    tmp_path: Path,
) -> None:
    bank = Bank()
    async with runtime_with(tmp_path / "r.db", agent=payer(bank.pay())) as runtime:
        run = await runtime.start("agent", run_id="r1")
        asked = await card(run)
        await run.wait_for(RunState.WAITING)
    async with runtime_with(tmp_path / "r.db") as elsewhere:
        run = await elsewhere.get("r1")
        await run.cancel()
        assert (await run.approve(asked.question)).verdict == "too_late"
        assert (await run.snapshot()).state is RunState.CANCELLED
    async with runtime_with(tmp_path / "r.db", agent=payer(bank.pay())) as runtime:
        assert (await (await runtime.get("r1")).snapshot()).state is RunState.CANCELLED
    assert bank.tried == []


async def test_the_receipt_names_a_call_that_was_approved_and_never_began(tmp_path: Path) -> None:
    bank = Bank()
    async with runtime_with(tmp_path / "r.db", agent=payer(bank.pay())) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        await run.wait_for(RunState.WAITING)
        await run.pause()
        await run.approve(asked.question)
        await run.cancel()
        receipt = await run.receipt()
    assert bank.tried == []
    assert len(receipt.not_attempted) == 1
    assert receipt.not_attempted[0].startswith("pay (")


# --- pause ---


async def test_a_pause_keeps_the_card_and_nothing_runs_until_resume() -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay())) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        await run.wait_for(RunState.WAITING)
        await run.pause()
        assert await open_cards(run) == [asked.question]
        ack = await run.approve(asked.question)
        assert (ack.verdict, ack.state) == ("applied", RunState.PAUSED)
        await run.resume()
        assert await run.result() == "paid 100 to bob"
        order = await names(runtime, run.id)
    assert "step_started" not in order[: order.index("resumed")]
    assert bank.paid == [(100, "bob")]


async def test_an_approval_given_while_paused_holds_across_a_restart(tmp_path: Path) -> None:
    bank = Bank()
    agent = payer(bank.pay())
    async with runtime_with(tmp_path / "r.db", agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        asked = await card(run)
        await run.wait_for(RunState.WAITING)
        await run.pause()
    async with runtime_with(tmp_path / "r.db", agent=agent) as runtime:
        run = await runtime.get("r1")
        await run.approve(asked.question)
    assert bank.tried == []
    async with runtime_with(tmp_path / "r.db", agent=agent) as runtime:
        run = await runtime.get("r1")
        assert (await run.snapshot()).state is RunState.PAUSED
        await run.resume()
        assert await run.result() == "paid 100 to bob"
        assert len((await run.snapshot()).questions) == 1
    assert bank.paid == [(100, "bob")]


@pytest.mark.parametrize("verb", ["deny", "edit"])
async def test_while_paused_it_can_be_denied_or_edited_and_the_agent_hears_after_resume(
    verb: str,
) -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay())) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        await run.wait_for(RunState.WAITING)
        await run.pause()
        if verb == "deny":
            await run.deny(asked.question, reason="no")
        else:
            await run.edit(asked.question, {"amount": 50})
        assert (await run.snapshot()).state is RunState.PAUSED
        assert len(await happened(runtime, run.id, QuestionAsked)) == 1
        await run.resume()
        if verb == "edit":
            await run.deny((await card(run, nth=2)).question, reason="no")
        assert await run.result() == ["denied", "no"]
    assert bank.tried == []


# --- redirect ---


@pytest.mark.parametrize("parked", [False, True], ids=["in memory", "parked"])
async def test_a_redirect_takes_the_card_off_the_table_for_good(
    parked: bool, tmp_path: Path
) -> None:
    bank = Bank()

    async def agent(ctx: Context) -> Any:
        first = await told(ctx.tool(bank.pay(), 100))
        said = await ctx.instructions()
        return [first, said, await ctx.ask("Go on?")]

    timing = PARKING if parked else None
    async with runtime_with(tmp_path / "r.db", agent=agent, timing=timing) as runtime:
        run = await runtime.start("agent", run_id="r1")
        asked = await card(run)
        await run.wait_for(RunState.WAITING)
        if parked:
            await unowned(runtime, run)
        redirected = await run.redirect("pay nobody")
        late = await run.approve(asked.question)
        assert (late.verdict, late.seq) == ("too_late", redirected.seq)
        await question(run, kind="question")
    async with runtime_with(tmp_path / "r.db", agent=agent) as runtime:
        run = await runtime.get("r1")
        await run.answer(await question(run, kind="question"), "yes")
        assert await run.result() == [["not_started", "redirected"], ["pay nobody"], "yes"]
        assert len([q for q in (await run.snapshot()).questions.values() if q.tool]) == 1
    assert bank.tried == []


async def test_a_redirect_while_paused_takes_the_card_off_the_table() -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay())) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        await run.wait_for(RunState.WAITING)
        await run.pause()
        await run.redirect("pay nobody")
        assert (await run.approve(asked.question)).verdict == "too_late"
        await run.resume()
        assert await run.result() == ["not_started", "redirected"]
    assert bank.tried == []


# --- restarts ---


@pytest.mark.parametrize("verb", ["approve", "deny"])
@pytest.mark.parametrize("when", ["after the ask", "after the answer"])
async def test_a_restart_loses_neither_the_question_nor_its_answer(
    when: str, verb: str, tmp_path: Path
) -> None:
    bank = Bank()
    agent = payer(bank.pay())
    async with runtime_with(tmp_path / "r.db", agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        asked = await card(run)
        await run.wait_for(RunState.WAITING)
    assert bank.tried == []
    if when == "after the answer":
        async with runtime_with(tmp_path / "r.db") as elsewhere:
            run = await elsewhere.get("r1")
            assert await open_cards(run) == [asked.question]
            assert (await getattr(run, verb)(asked.question, reason="so")).state is RunState.QUEUED
        assert bank.tried == []
    async with runtime_with(tmp_path / "r.db", agent=agent) as runtime:
        run = await runtime.get("r1")
        if when == "after the ask":
            assert await open_cards(run) == [asked.question]
            await getattr(run, verb)(asked.question, reason="so")
        result = await run.result()
        assert len(await happened(runtime, "r1", QuestionAsked)) == 1
    approved = verb == "approve"
    assert result == ("paid 100 to bob" if approved else ["denied", "so"])
    assert bank.paid == ([(100, "bob")] if approved else [])


async def test_a_made_call_is_not_made_again_by_its_approval(tmp_path: Path) -> None:
    bank = Bank()

    async def agent(ctx: Context) -> Any:
        first = await told(ctx.tool(bank.pay(), 100))
        return [first, await ctx.ask("Go on?")]

    for life in range(3):
        async with runtime_with(tmp_path / "r.db", agent=agent) as runtime:
            if life == 0:
                run = await runtime.start("agent", run_id="r1")
                await run.approve((await card(run)).question)
            run = await runtime.get("r1")
            await question(run, kind="question")
            await run.wait_for(RunState.WAITING)
    assert bank.paid == [(100, "bob")]


# --- deploys ---


async def asked_before(path: Path, before: Any, *, answer: str = "") -> QuestionAsked:
    """Have a card from `before`, perhaps answer it, and shut everything down."""
    async with runtime_with(path, agent=before) as runtime:
        run = await runtime.start("agent", run_id="r1")
        asked = await card(run)
        await run.wait_for(RunState.WAITING)
    if answer:
        async with runtime_with(path) as elsewhere:
            await getattr(await elsewhere.get("r1"), answer)(asked.question, reason="so")
    return asked


async def take_back(_call: pullcord.Call) -> None:
    pass


@pytest.mark.parametrize(
    "declared",
    [{"version": "2"}, {"effect": "idempotent"}, {"undo": take_back}],
    ids=lambda declared: next(iter(declared)),
)
@pytest.mark.parametrize("answer", ["", "approve"], ids=["open", "approved"])
async def test_a_changed_policy_asks_anew(
    answer: str, declared: dict[str, Any], tmp_path: Path
) -> None:
    bank = Bank()
    first = await asked_before(tmp_path / "r.db", payer(bank.pay()), answer=answer)
    async with runtime_with(tmp_path / "r.db", agent=payer(bank.pay(**declared))) as runtime:
        run = await runtime.get("r1")
        if not answer:  # nothing wakes it but somebody who wants something of it
            await run.pause()
            await run.resume()
        second = await card(run, nth=2)
        assert second.call != first.call
        assert second.step == first.step
        assert await open_cards(run) == [second.question]
        late = await run.approve(first.question)
        assert late.verdict == "too_late"
        assert bank.tried == []
        await run.approve(second.question)
        assert await run.result() == "paid 100 to bob"
        [intent] = await happened(runtime, "r1", StepStarted)
    assert (intent.approval, intent.call) == (second.question, second.call)
    assert bank.paid == [(100, "bob")]


@pytest.mark.parametrize("key", ["invoice-7", None], ids=["same key", "no key"])
async def test_changed_arguments_ask_anew_and_withdraw_the_old_card(
    key: str | None, tmp_path: Path
) -> None:
    bank = Bank()
    pay = bank.pay()
    first = await asked_before(tmp_path / "r.db", payer(pay, 100, key=key))
    async with runtime_with(tmp_path / "r.db", agent=payer(pay, 999, key=key)) as runtime:
        run = await runtime.get("r1")
        await run.pause()
        await run.resume()
        second = await card(run, nth=2)
        assert args_of(second)["amount"] == 999
        assert await open_cards(run) == [second.question]
        assert (await run.approve(first.question)).verdict == "too_late"
        assert bank.tried == []
        await run.approve(second.question)
        assert await run.result() == "paid 999 to bob"
    assert bank.paid == [(999, "bob")]


@pytest.mark.parametrize("key", ["invoice-7", None], ids=["same key", "no key"])
async def test_an_approval_of_other_arguments_does_not_count(
    key: str | None, tmp_path: Path
) -> None:
    bank = Bank()
    pay = bank.pay()
    before = payer(pay, 100, key=key)
    await asked_before(tmp_path / "r.db", before, answer="approve")
    async with runtime_with(tmp_path / "r.db", agent=payer(pay, 999, key=key)) as runtime:
        run = await runtime.get("r1")
        second = await card(run, nth=2)
        assert bank.tried == []
        await run.deny(second.question, reason="not that much")
        assert await run.result() == ["denied", "not that much"]
    assert bank.tried == []


async def test_an_idempotent_call_begun_with_other_arguments_needs_a_new_approval(
    tmp_path: Path,
) -> None:
    """Approved, begun and cut off; then its code asks for something else under the same key."""
    bank = Bank()
    bank.close_the_counter()
    pay = bank.pay(effect="idempotent")
    before = payer(pay, 100, key="invoice-7")
    async with runtime_with(tmp_path / "r.db", agent=before, timing=HASTY) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await run.approve((await card(run)).question)
        await bank.at_the_counter.wait()
    bank.counter.set()
    async with runtime_with(tmp_path / "r.db", agent=payer(pay, 999, key="invoice-7")) as runtime:
        run = await runtime.get("r1")
        second = await card(run, nth=2)
        assert bank.tried == [(100, "bob")]
        await run.approve(second.question)
        assert await run.result() == "paid 999 to bob"
        intents = await happened(runtime, "r1", StepStarted)
    assert [load(intent.args)["amount"] for intent in intents] == [100, 999]
    assert len({intent.approval for intent in intents}) == 2


async def test_a_deploy_that_moves_a_call_does_not_take_its_card_away(tmp_path: Path) -> None:
    """Of two calls the first is gone and another has come behind the second, which now stands
    where the first stood. It is still meant, and somebody may be looking at its card."""
    bank = Bank()
    path = tmp_path / "r.db"
    async with runtime_with(path, agent=many(bank, 1, 2)) as runtime:
        run = await runtime.start("agent", run_id="r1")
        before = await cards(run, 2)
        await run.wait_for(RunState.WAITING)
    async with runtime_with(path, agent=many(bank, 2, 9)) as runtime:
        run = await runtime.get("r1")
        await run.pause()
        await run.resume()
        await seen(run, QuestionAsked, nth=3)
        await run.wait_for(RunState.WAITING)
        now = await cards(run, 3)
        assert set(now) >= {2, 9}
        assert now[2].question == before[2].question
        for amount in (2, 9):
            assert (await run.approve(now[amount].question)).verdict == "applied"
        assert await run.result() == ["paid 2 to bob", "paid 9 to bob"]
    assert sorted(bank.paid) == [(2, "bob"), (9, "bob")]


async def test_a_deploy_that_needs_no_approval_any_more_leaves_no_card(tmp_path: Path) -> None:
    bank = Bank()
    first = await asked_before(tmp_path / "r.db", payer(bank.pay()))
    bank.close_the_counter()
    async with runtime_with(tmp_path / "r.db", agent=payer(bank.pay(approve="never"))) as runtime:
        run = await runtime.get("r1")
        await run.pause()
        await run.resume()
        await bank.at_the_counter.wait()
        assert await open_cards(run) == [], "a card about a call that is being made"
        assert (await run.deny(first.question)).verdict == "too_late"
        bank.counter.set()
        assert await run.result() == "paid 100 to bob"


async def test_a_deploy_that_is_rolled_back_asks_again(tmp_path: Path) -> None:
    bank = Bank()
    path = tmp_path / "r.db"
    await asked_before(path, payer(bank.pay()))
    for nth, declared in ((2, {"version": "2"}), (3, {})):
        async with runtime_with(path, agent=payer(bank.pay(**declared))) as runtime:
            run = await runtime.get("r1")
            await run.pause()
            await run.resume()
            asked = await card(run, nth=nth)
            await run.wait_for(RunState.WAITING)
            assert await open_cards(run) == [asked.question]
    async with runtime_with(path, agent=payer(bank.pay())) as runtime:
        run = await runtime.get("r1")
        await run.approve(asked.question)
        assert await run.result() == "paid 100 to bob"
    assert bank.paid == [(100, "bob")]


async def test_a_denial_is_not_asked_about_again_because_of_a_deploy(tmp_path: Path) -> None:
    """Its agent was told no, and went on without it."""
    bank = Bank()

    def asking(pay: Callable[..., Any]) -> Any:
        async def agent(ctx: Context) -> Any:
            return [await told(ctx.tool(pay, 100)), await ctx.ask("Go on?")]

        return agent

    async with runtime_with(tmp_path / "r.db", agent=asking(bank.pay())) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await run.deny((await card(run)).question, reason="no")
        name = await question(run, kind="question")
    async with runtime_with(tmp_path / "r.db", agent=asking(bank.pay(version="2"))) as runtime:
        run = await runtime.get("r1")
        await run.answer(name, "yes")
        ended = await run.wait_for(RunState.COMPLETED, RunState.WAITING)
        assert ended.state is RunState.COMPLETED
        assert await run.result() == [["denied", "no"], "yes"]
    assert bank.tried == []


class OverLimit:
    """A predicate that is an object: it has no name of its own."""

    def __init__(self, limit: int) -> None:
        self.limit = limit

    def __call__(self, call: pullcord.Call) -> bool:
        return call.args["amount"] > self.limit


def partial_over(limit: int) -> Any:
    """Another function object each time, as in another process."""

    def over(limit: int, call: pullcord.Call) -> bool:
        return call.args["amount"] > limit

    return functools.partial(over, limit)


@pytest.mark.parametrize(
    "make",
    [lambda: OverLimit(10), lambda: partial_over(10)],
    ids=["object", "partial"],
)
async def test_a_predicate_without_a_name_is_the_same_after_a_restart(
    make: Any, tmp_path: Path
) -> None:
    """Nothing was deployed: whoever has approved the call is not asked a second time."""
    bank = Bank()
    kept = [make()]  # so that the second cannot be at the same address
    await asked_before(tmp_path / "r.db", payer(bank.pay(approve=kept[0])), answer="approve")
    async with runtime_with(tmp_path / "r.db", agent=payer(bank.pay(approve=make()))) as runtime:
        run = await runtime.get("r1")
        await run.wait_for(RunState.COMPLETED, RunState.WAITING)
        assert len(await happened(runtime, "r1", QuestionAsked)) == 1
        assert await run.result() == "paid 100 to bob"
    assert bank.paid == [(100, "bob")]


# --- several at once ---


async def test_five_answered_out_of_order_across_two_restarts_each_get_their_own(
    tmp_path: Path,
) -> None:
    bank = Bank()
    path, agent = tmp_path / "r.db", many(bank, 1, 2, 3, 4, 5)
    async with runtime_with(path, agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        shown = await cards(run, 5)
        assert len({asked.question for asked in shown.values()}) == 5
        await run.approve(shown[4].question, by="ana")
        await seen(run, StepFinished, step=shown[4].step)
        await run.wait_for(RunState.WAITING)
    assert bank.paid == [(4, "bob")]
    async with runtime_with(path, agent=agent) as runtime:
        run = await runtime.get("r1")
        await run.deny(shown[2].question, reason="not two")
        await run.edit(shown[5].question, {"amount": 50}, by="bo")
        edited = await card(run, nth=6)
        assert args_of(edited) == {"amount": 50, "to": "bob"}
        await run.wait_for(RunState.WAITING)
    assert bank.paid == [(4, "bob")]
    async with runtime_with(path, agent=agent) as runtime:
        run = await runtime.get("r1")
        for asked in (shown[3], edited, shown[1]):
            assert (await run.approve(asked.question)).verdict == "applied"
        assert await run.result() == [
            "paid 1 to bob",
            ["denied", "not two"],
            "paid 3 to bob",
            "paid 4 to bob",
            "paid 50 to bob",
        ]
        intents = await happened(runtime, "r1", StepStarted)
        asked_for = {asked.question: asked for asked in (*shown.values(), edited)}
        for intent in intents:
            mine = asked_for[intent.approval]
            assert (intent.call, intent.step) == (mine.call, mine.step)
            assert load(intent.args) == args_of(mine)
        assert len(await happened(runtime, "r1", QuestionAsked)) == 6
    assert sorted(bank.paid) == [(1, "bob"), (3, "bob"), (4, "bob"), (50, "bob")]


async def test_other_branches_go_on_while_one_waits() -> None:
    bank = Bank()

    async def agent(ctx: Context) -> Any:
        async def work() -> list[Any]:
            return [await ctx.step(f"work {n}", bank.pay_out, n) for n in range(3)]

        return await asyncio.gather(told(ctx.tool(bank.pay(), 100)), work())

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        await seen(run, StepFinished, nth=3)
        assert bank.paid == [0, 1, 2]
        assert await open_cards(run) == [asked.question]
        await run.approve(asked.question)
        assert (await run.result())[0] == "paid 100 to bob"


async def test_of_four_at_once_a_cancel_leaves_four_truths_and_nothing_running(
    tmp_path: Path,
) -> None:
    """Done, failed, waiting for approval, running: each is in the receipt as what it is."""
    bank, pids = Bank(), tmp_path / "pids"
    heard: list[Any] = []

    @pullcord.tool
    async def works() -> str:
        return "done"

    @pullcord.tool
    async def breaks() -> str:
        raise ConnectionError("declined")

    async def agent(ctx: Context) -> None:
        async def hear(call: Any) -> None:
            try:
                heard.append(await told(call))
            except StepError as error:
                heard.append(error.error)

        calls = (
            ctx.tool(works),
            ctx.tool(breaks),
            ctx.tool(bank.pay(), 1),
            ctx.tool(hold, str(pids)),
        )
        await asyncio.gather(*(hear(call) for call in calls))

    before = asyncio.all_tasks()
    async with runtime_with(
        tmp_path / "r.db", agent=agent, timing=Timing(stop_grace_s=0.1)
    ) as runtime:
        run = await runtime.start("agent")
        await card(run)
        await seen(run, StepFinished)
        await seen(run, StepFailed)
        while not noted(pids):  # noqa: ASYNC110 (only the file says so)
            await asyncio.sleep(0.001)
        holds = outside(int(noted(pids)[0]))
        await run.cancel(by="ana")
        receipt = await run.receipt()
        assert (receipt.done, receipt.failed) == (("works",), ("breaks",))
        assert (receipt.interrupted, receipt.not_attempted) == (("hold",), ("pay (withdrawn)",))
        assert (receipt.in_doubt, receipt.undone, receipt.attention) == ((), (), ())
        assert not is_alive(holds)
        assert await open_cards(run) == []
    assert asyncio.all_tasks() == before
    assert heard == ["done", "ConnectionError: declined"]
    assert bank.tried == []


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


# --- an agent that waits no longer ---


def impatient(bank: Bank, enough: asyncio.Event, *, busy: bool, is_crossed: bool = False) -> Any:
    """An agent that waits for an approval until it has had enough, and then asks a person.

    `is_crossed`: the answer may come first, and the call may be over by then.
    """

    async def agent(ctx: Context) -> Any:
        async def other() -> None:
            if busy:
                await ctx.step("other", enough.wait)

        beside = asyncio.create_task(other())
        waiting = asyncio.create_task(told(ctx.tool(bank.pay(), 100)))
        await enough.wait()
        waiting.cancel()
        if is_crossed:
            await asyncio.wait({waiting})
        else:
            with pytest.raises(asyncio.CancelledError):
                await waiting
        await beside
        return await ctx.ask("Who decides?")

    return agent


@pytest.mark.parametrize("busy", [True, False], ids=["running", "waiting"])
async def test_the_card_of_an_agent_that_waits_no_longer_is_withdrawn(busy: bool) -> None:
    bank, enough = Bank(), asyncio.Event()
    async with runtime_with(agent=impatient(bank, enough, busy=busy)) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        if not busy:
            await run.wait_for(RunState.WAITING)
        enough.set()
        name = await question(run, kind="question")
        assert await open_cards(run) == []
        late = await run.approve(asked.question)
        assert late.verdict == "too_late"
        await run.answer(name, "nobody")
        assert await run.result() == "nobody"
        [withdrawn] = await happened(runtime, run.id, QuestionWithdrawn)
        assert withdrawn.question == asked.question
    assert bank.tried == []


async def test_an_agent_with_a_timeout_of_its_own_gets_its_timeout_and_no_card_stays() -> None:
    bank = Bank()

    async def agent(ctx: Context) -> Any:
        try:
            async with asyncio.timeout(0.1):
                await ctx.tool(bank.pay(), 100)
        except TimeoutError:
            return await ctx.ask("Who decides?")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        name = await question(run, kind="question")
        assert await open_cards(run) == []
        assert (await run.approve(asked.question)).verdict == "too_late"
        await run.answer(name, "nobody")
        assert await run.result() == "nobody"
    assert bank.tried == []


async def test_an_agent_that_gives_up_while_paused_leaves_no_card_after_resume() -> None:
    bank, enough = Bank(), asyncio.Event()
    async with runtime_with(agent=impatient(bank, enough, busy=False)) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        await run.wait_for(RunState.WAITING)
        await run.pause()
        enough.set()
        await run.resume()
        await question(run, kind="question")
        assert await open_cards(run) == []
        assert (await run.approve(asked.question)).verdict == "too_late"
    assert bank.tried == []


async def test_an_answer_that_crosses_an_agent_giving_up_harms_neither(tmp_path: Path) -> None:
    """Whoever comes first: the answerer is told, and the agent goes on."""
    for attempt in range(10):
        bank, enough = Bank(), asyncio.Event()
        path = tmp_path / f"{attempt}.db"
        async with (
            runtime_with(
                path, agent=impatient(bank, enough, busy=attempt % 2 == 0, is_crossed=True)
            ) as runtime,
            runtime_with(path) as elsewhere,
        ):
            run = await runtime.start("agent")
            asked = await card(run)
            other = await elsewhere.get(run.id)
            answering = asyncio.create_task(other.approve(asked.question))
            if attempt % 3:
                await answering
            enough.set()
            ack = await answering
            await other.answer(await question(run, kind="question"), "nobody")
            assert await run.result() == "nobody"
            assert ack.verdict in ("applied", "too_late")
            now: Run = await run.snapshot()
            known = now.questions[asked.question]
            assert (known.status == "answered") == (ack.verdict == "applied")


async def test_a_card_withdrawn_by_its_agent_is_not_booked_as_a_redirect(tmp_path: Path) -> None:
    """In its next life the agent waits again, or is told the truth: nobody has redirected it."""
    bank, enough = Bank(), asyncio.Event()
    path = tmp_path / "r.db"
    async with runtime_with(path, agent=impatient(bank, enough, busy=True)) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await card(run)
        enough.set()
        await question(run, kind="question")

    async def patient(ctx: Context) -> Any:
        return await told(ctx.tool(bank.pay(), 100))

    async with runtime_with(path, agent=patient) as runtime:
        run = await runtime.get("r1")
        await run.answer(await question(run, kind="question"), "nobody")
        await run.wait_for(RunState.WAITING, RunState.COMPLETED)
        if cards_left := await open_cards(run):
            await run.deny(cards_left[0], reason="no")
        assert (await run.result())[1] != "redirected"
    assert bank.tried == []
