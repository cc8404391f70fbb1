"""An approval allows one call: this tool, with these arguments, in this run, once."""

import asyncio
import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import Call, Context, NotDone, RunHandle, RunState, Timing
from pullcord.core.commands import Edit
from pullcord.core.events import Answered, QuestionAsked, StepInterrupted, StepStarted
from pullcord.core.values import dump, load
from pullcord.errors import InvalidInput
from pullcord.hooks import Notice
from pullcord.testing import ManualClock
from tests.runs.approval_tools import note, note_by_command, note_in_loop, note_in_thread, noted
from tests.runs.approving import Bank, args_of, card, open_cards, payer, told
from tests.runs.observed_runs import (
    HASTY,
    PARKING,
    UNHURRIED,
    OutsideWorld,
    happened,
    question,
    runtime_with,
    seen,
    settles,
    unowned,
)

# --- whether it is asked about ---


def over(limit: int) -> Callable[[Call], bool]:
    def is_over(call: Call) -> bool:
        return call.args["amount"] > limit

    return is_over


@pytest.mark.parametrize("approve", ["never", over(100)], ids=["never", "predicate"])
async def test_a_call_that_needs_no_approval_is_made_at_once(approve: Any) -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay(approve=approve))) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == "paid 100 to bob"
        assert (await run.snapshot()).questions == {}
        [intent] = await happened(runtime, run.id, StepStarted)
        assert (intent.approval, intent.call) == ("", "")
    assert bank.paid == [(100, "bob")]


def cannot_say(_call: Call) -> bool:
    raise LookupError("no price list")


@pytest.mark.parametrize(
    "approve",
    ["always", pullcord.always, over(99), cannot_say],
    ids=lambda a: getattr(a, "__name__", a),
)
async def test_a_call_that_needs_approval_is_made_once_and_only_then(approve: Any) -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay(approve=approve))) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        await run.wait_for(RunState.WAITING)
        assert (bank.tried, await happened(runtime, run.id, StepStarted)) == ([], [])
        ack = await run.approve(asked.question, by="ana")
        assert (ack.verdict, ack.state) == ("applied", RunState.QUEUED)
        assert await run.result() == "paid 100 to bob"
        [answer] = await happened(runtime, run.id, Answered)
        assert (answer.by, answer.verdict) == ("ana", "approved")
    assert bank.paid == [(100, "bob")]


async def test_a_policy_by_name_asks_for_a_tool_that_says_nothing_itself() -> None:
    bank = Bank()

    async def transfer(amount: int) -> int:
        await bank.pay_out(amount)
        return amount

    async with runtime_with(
        agent=payer(transfer), tools={"transfer": {"approve": "always"}}
    ) as runtime:
        run = await runtime.start("agent")
        asked = await card(run, tool="transfer")
        assert bank.tried == []
        await run.approve(asked.question)
        assert await run.result() == 100
    assert bank.paid == [100]


@pytest.mark.parametrize("approve", [True, "Always", "alway", "", None, 1], ids=repr)
async def test_a_policy_that_does_not_say_when_to_ask_is_refused(approve: Any) -> None:
    """Otherwise a slip of the pen would let everything through."""
    bank = Bank()
    with pytest.raises(InvalidInput, match="approve"):
        bank.pay(approve=approve)


async def test_the_predicate_is_handed_the_call() -> None:
    calls: list[Call] = []

    def ask(call: Call) -> bool:
        calls.append(call)
        return False

    async with runtime_with(agent=payer(Bank().pay(approve=ask), to="eve")) as runtime:
        run = await runtime.start("agent")
        await run.result()
        [step] = (await run.snapshot()).steps
    [call] = calls
    assert (call.tool, call.args) == ("pay", {"amount": 100, "to": "eve"} | call.args)
    assert call.idempotency_key == f"{run.id}-{step}"


# --- what is asked ---


async def test_the_question_says_which_call_exactly_and_until_when() -> None:
    clock, bank = ManualClock(), Bank()
    pay = bank.pay(approve_within_s=60.0, undo=no_later)
    async with runtime_with(agent=payer(pay, to="eve"), clock=clock, timing=UNHURRIED) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        assert asked.tool == "pay"
        assert load(asked.details) == {
            "tool": "pay",
            "args": {"amount": 100, "to": "eve"},
            "effect": "once",
            "can_be_undone": True,
        }
        assert asked.due_ms == clock.wall_ms() + 60_000
        assert len(asked.call) == 64
        await run.approve(asked.question, call=asked.call)
        await settles(run, clock, RunState.COMPLETED)
        [intent] = await happened(runtime, run.id, StepStarted)
    assert (intent.step, intent.approval, intent.call) == (asked.step, asked.question, asked.call)
    assert load(intent.args) == args_of(asked)


async def test_however_it_is_written_the_same_call_is_shown_the_same() -> None:
    shown: set[tuple[str, str, bytes]] = set()
    spellings: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((100,), {}),
        ((100, "bob"), {}),
        ((100,), {"to": "bob"}),
        ((), {"to": "bob", "amount": 100}),
    ]
    for args, kwargs in spellings:
        pay = Bank().pay()

        async def agent(ctx: Context, pay: Any = pay, args: Any = args, kw: Any = kwargs) -> Any:
            return await told(ctx.tool(pay, *args, **kw))

        async with runtime_with(agent=agent) as runtime:
            asked = await card(await runtime.start("agent", run_id="r1"))
            shown.add((asked.question, asked.call, bytes(asked.details)))
    [(_, _, details)] = shown
    assert details.startswith(b'{"args":{"amount":100,"to":"bob"},')


async def test_another_run_with_the_same_call_is_another_call() -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay())) as runtime:
        first, second = await runtime.start("agent"), await runtime.start("agent")
        mine, other = await card(first), await card(second)
        assert mine.call != other.call
        replayed = await second.approve(mine.question)
        assert (replayed.verdict, replayed.reason) == ("rejected", "unknown_question")
        replayed = await second.approve(other.question, call=mine.call)
        assert (replayed.verdict, replayed.reason) == ("rejected", "other_call")
        await first.approve(mine.question)
        await first.result()
        assert await open_cards(second) == [other.question]
    assert bank.paid == [(100, "bob")]


async def test_two_like_calls_in_one_run_are_two_approvals() -> None:
    bank = Bank()

    async def agent(ctx: Context) -> Any:
        pay = bank.pay()
        return await asyncio.gather(told(ctx.tool(pay, 100)), told(ctx.tool(pay, 100)))

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        first, second = await card(run), await card(run, nth=2)
        assert first.call != second.call
        await run.approve(second.question)
        await seen(run, StepStarted, step=second.step)
        await run.deny(first.question, reason="once is enough")
        assert await run.result() == [["denied", "once is enough"], "paid 100 to bob"]
    assert bank.paid == [(100, "bob")]


# --- no ---


@pytest.mark.parametrize(
    ("reason", "why"), [("too much", "too much"), ("", "no reason given")], ids=str
)
async def test_a_denied_call_is_not_made_and_its_agent_is_told_why(reason: str, why: str) -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay())) as runtime:
        run = await runtime.start("agent")
        ack = await run.deny((await card(run)).question, by="ana", reason=reason)
        assert ack.verdict == "applied"
        assert await run.result() == ["denied", why]
        assert (await run.receipt()).not_attempted == ("pay (denied)",)
        assert await happened(runtime, run.id, StepStarted) == []
    assert bank.tried == []


async def test_an_agent_that_lets_a_denial_pass_fails_with_it() -> None:
    async def agent(ctx: Context) -> Any:
        return await ctx.tool(Bank().pay(), 100)

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await run.deny((await card(run)).question, reason="too much")
        assert (
            await run.wait_for(RunState.FAILED)
        ).error == "NotDone: Step 'pay' failed: denied: too much"


# --- not this one, but that one ---


async def test_an_edited_call_is_shown_again_and_only_then_made() -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay())) as runtime:
        run = await runtime.start("agent")
        first = await card(run)
        ack = await run.edit(first.question, {"amount": 50}, by="ana")
        assert ack.verdict == "applied"
        second = await card(run, nth=2)
        await run.wait_for(RunState.WAITING)
        assert bank.tried == []
        assert args_of(second) == {"amount": 50, "to": "bob"}
        assert second.call != first.call
        assert second.step == first.step
        again = await run.approve(first.question)
        assert (again.verdict, again.seq) == ("too_late", ack.seq)
        wrong = await run.approve(second.question, call=first.call)
        assert (wrong.verdict, wrong.reason) == ("rejected", "other_call")
        assert bank.tried == []
        await run.approve(second.question, call=second.call)
        assert await run.result() == "paid 50 to bob"
        [intent] = await happened(runtime, run.id, StepStarted)
    assert (load(intent.args), intent.approval) == ({"amount": 50, "to": "bob"}, second.question)
    assert bank.paid == [(50, "bob")]


async def test_an_edited_call_can_be_denied() -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay())) as runtime:
        run = await runtime.start("agent")
        await run.edit((await card(run)).question, {"amount": 50})
        await run.deny((await card(run, nth=2)).question, reason="on second thoughts")
        assert await run.result() == ["denied", "on second thoughts"]
    assert bank.tried == []


async def test_an_edit_back_to_what_it_was_needs_a_third_approval() -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay())) as runtime:
        run = await runtime.start("agent")
        cards = [await card(run)]
        for nth, amount in ((2, 50), (3, 100)):
            await run.edit(cards[-1].question, {"amount": amount})
            cards.append(await card(run, nth=nth))
        assert [args_of(asked)["amount"] for asked in cards] == [100, 50, 100]
        assert len({asked.question for asked in cards}) == 3
        assert bank.tried == []
        for old in cards[:2]:
            assert (await run.approve(old.question)).verdict == "too_late"
        await run.approve(cards[2].question)
        assert await run.result() == "paid 100 to bob"
        [intent] = await happened(runtime, run.id, StepStarted)
    assert (intent.approval, intent.call) == (cards[2].question, cards[2].call)
    assert bank.paid == [(100, "bob")]


@pytest.mark.parametrize(
    ("args", "says"),
    [
        ({"nope": 1}, "it has no nope"),
        ({"amount": 1, "ctx": 2}, "it has no ctx"),
    ],
    ids=str,
)
async def test_an_edit_that_does_not_fit_changes_nothing_and_is_asked_again(
    args: Any, says: str
) -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay())) as runtime:
        run = await runtime.start("agent")
        first = await card(run)
        edit = Edit(by="ana", question=first.question, args=dump(args))
        assert (await runtime.journal.command(run.id, edit)).verdict == "applied"
        second = await card(run, nth=2)
        assert says in second.text
        assert (second.call, args_of(second)) == (first.call, args_of(first))
        assert bank.tried == []
        await run.approve(second.question)
        assert await run.result() == "paid 100 to bob"
    assert bank.paid == [(100, "bob")]


async def test_an_edit_that_says_nothing_new_is_no_approval_either() -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay())) as runtime:
        run = await runtime.start("agent")
        await run.edit((await card(run)).question, {})
        second = await card(run, nth=2)
        await run.wait_for(RunState.WAITING)
        assert bank.tried == []
        await run.approve(second.question)
        await run.result()
    assert bank.paid == [(100, "bob")]


@pytest.mark.parametrize("args", [{"amount": float("nan")}, ["amount", 5], "amount", 5, None])
async def test_an_edit_that_is_no_arguments_is_refused_and_the_card_stays(args: Any) -> None:
    async with runtime_with(agent=payer(Bank().pay())) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        with pytest.raises(InvalidInput):
            await run.edit(asked.question, args)
        assert await open_cards(run) == [asked.question]


# --- answers that are none ---


@pytest.mark.parametrize("value", [True, "yes", "approved", "run", {"happened": 1}], ids=str)
async def test_a_plain_answer_allows_nothing(value: Any) -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay())) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        ack = await run.answer(asked.question, value)
        assert ack.verdict == "rejected"
        assert f"pullcord approve {run.id} {asked.question}" in ack.message
        assert await open_cards(run) == [asked.question]
        await run.deny(asked.question)
        await run.result()
    assert bank.tried == []


async def ask(world: OutsideWorld, ctx: Context) -> Any:
    return await ctx.ask("Which one?")


async def sleep(world: OutsideWorld, ctx: Context) -> Any:
    await ctx.sleep(3600)


async def doubt(world: OutsideWorld, ctx: Context) -> Any:
    return await ctx.step("charge", world.slow, "charged")


@pytest.mark.parametrize("opens", [ask, sleep, doubt], ids=lambda opens: opens.__name__)
@pytest.mark.parametrize("verb", ["approve", "deny"])
async def test_what_is_no_approval_can_be_neither_approved_nor_denied(
    opens: Any, verb: str, tmp_path: Path
) -> None:
    world, path = OutsideWorld(), tmp_path / "runs.db"
    agent = functools.partial(opens, world)
    async with runtime_with(path, agent=agent, timing=HASTY) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await seen(run, StepStarted if opens is doubt else QuestionAsked)
    async with runtime_with(path, agent=agent, timing=HASTY) as runtime:
        run = await runtime.get("r1")
        name = await question(run)
        for control in (run.approve, run.deny) if verb == "approve" else (run.deny, run.approve):
            ack = await control(name)
            assert (ack.verdict, ack.reason) == ("rejected", "not_an_approval")
        assert (await run.snapshot()).open_questions() == [name]


@pytest.mark.parametrize("verb", ["approve", "deny"])
async def test_what_was_never_asked_cannot_be_judged(verb: str) -> None:
    async with runtime_with(agent=payer(Bank().pay())) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        ack = await getattr(run, verb)("something-else")
        assert (ack.verdict, ack.reason) == ("rejected", "unknown_question")
        assert await open_cards(run) == [asked.question]


@pytest.mark.parametrize("then", ["approve", "deny", "edit"])
@pytest.mark.parametrize("first", ["approve", "deny", "edit"])
async def test_of_two_answers_the_first_counts_and_the_second_is_told_so(
    first: str, then: str
) -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay())) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        applied = await judged(run, asked.question, first)
        late = await judged(run, asked.question, then)
        assert (applied.verdict, late.verdict) == ("applied", "too_late")
        assert late.seq == applied.seq
        assert f"record {applied.seq}" in late.message
        if first == "edit":
            await run.deny((await card(run, nth=2)).question, reason="no")
        expected = {
            "approve": "paid 100 to bob",
            "deny": ["denied", "no"],
            "edit": ["denied", "no"],
        }
        assert await run.result() == expected[first]
    assert len(bank.paid) == (first == "approve")


async def judged(run: RunHandle, name: str, how: str, **who: Any) -> pullcord.Ack:
    """Answer an approval in one of the three ways."""
    if how == "deny":
        return await run.deny(name, reason="no", **who)
    if how == "edit":
        return await run.edit(name, {"amount": 1}, **who)
    return await run.approve(name, **who)


async def test_an_answer_sent_again_with_its_key_gets_the_same_answer() -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay())) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        acks = [await run.approve(asked.question, key="k1") for _ in range(3)]
        reused = await run.deny(asked.question, key="k1")
        assert len({(ack.verdict, ack.seq) for ack in acks}) == 1
        assert (reused.verdict, reused.reason) == ("rejected", "key_reused")
        assert await run.result() == "paid 100 to bob"
    assert bank.paid == [(100, "bob")]


# --- arguments that change after they were shown ---


@pytest.mark.parametrize("when", ["while it waits", "when it is approved"])
async def test_what_is_done_is_what_was_shown_also_if_its_agent_changes_the_arguments(
    when: str,
) -> None:
    bank, went_on, meddled = Bank(), asyncio.Event(), asyncio.Event()
    to: list[str] = ["bob"]

    @pullcord.tool(approve="always")
    async def mail(to: list[str]) -> list[str]:
        await bank.pay_out(list(to))
        return list(to)

    async def agent(ctx: Context) -> Any:
        async def meddle() -> None:
            await went_on.wait()
            to.append("eve")
            meddled.set()

        sent, _ = await asyncio.gather(told(ctx.tool(mail, to)), meddle())
        return sent

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        if when == "while it waits":
            went_on.set()
            await meddled.wait()
            await run.approve(asked.question)
        else:
            await run.approve(asked.question)
            went_on.set()
        assert await run.result() == ["bob"]
        [intent] = await happened(runtime, run.id, StepStarted)
    assert bank.paid == [["bob"]]
    assert load(intent.args) == args_of(asked) == {"to": ["bob"]}


async def test_a_tool_that_changes_its_arguments_is_tried_again_with_what_was_approved() -> None:
    bank = Bank()

    @pullcord.tool(approve="always", effect="idempotent", retry=pullcord.Retry(wait_s=0))
    async def mail(to: list[str]) -> list[str]:
        to.append("eve")
        bank.tried.append(list(to))
        if len(bank.tried) == 1:
            raise ConnectionError("try again")
        return to

    async with runtime_with(agent=payer(mail, ["bob"])) as runtime:
        run = await runtime.start("agent")
        await run.approve((await card(run)).question)
        assert await run.result() == ["bob", "eve"]
        intents = await happened(runtime, run.id, StepStarted)
    assert [load(intent.args) for intent in intents] == [{"to": ["bob"]}] * 2
    assert bank.tried == [["bob", "eve"]] * 2


async def test_an_agent_that_meddles_with_its_call_does_not_reach_still_valid_either() -> None:
    seen_by_check: list[Any] = []
    to: list[str] = ["bob"]

    async def check(call: Call) -> bool:
        seen_by_check.append(list(call.args["to"]))
        return True

    @pullcord.tool(approve="always", still_valid=check)
    async def mail(to: list[str]) -> list[str]:
        return list(to)

    async with runtime_with(agent=payer(mail, to)) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        to.append("eve")
        await run.approve(asked.question)
        assert await run.result() == ["bob"]
    assert seen_by_check == [["bob"]]


# --- wherever the tool runs ---


@pytest.mark.parametrize("edited", [False, True], ids=["as it is", "edited"])
@pytest.mark.parametrize(
    "tool", [note, note_in_loop, note_in_thread, note_by_command], ids=lambda tool: tool.name
)
async def test_an_approved_tool_runs_with_what_was_approved_wherever_it_runs(
    tool: Any, edited: bool, tmp_path: Path
) -> None:
    pad = tmp_path / "pad"
    async with runtime_with(agent=payer(tool, str(pad), "one")) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        assert args_of(asked) == {"path": str(pad), "line": "one"}
        if edited:
            await run.edit(asked.question, {"line": "two"})
            asked = await card(run, nth=2)
        assert noted(pad) == []
        await run.approve(asked.question)
        await run.result()
    assert noted(pad) == (["two"] if edited else ["one"])


@pytest.mark.parametrize("edited", [False, True], ids=["as it is", "edited"])
async def test_an_approved_command_is_the_one_that_was_shown(edited: bool, tmp_path: Path) -> None:
    pad = tmp_path / "pad"

    async def agent(ctx: Context) -> Any:
        line = ["/bin/sh", "-c", "cat >> pad; echo $WORD >> pad"]
        ended = await ctx.exec(
            *line, input="one\n", cwd=str(tmp_path), env={"WORD": "env"}, approve="always"
        )
        return ended.status

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        asked = await card(run, tool="sh")
        shown = args_of(asked)
        assert (shown["argv"][0], shown["input"], shown["env"]) == (
            "/bin/sh",
            "one\n",
            {"WORD": "env"},
        )
        if edited:
            await run.edit(asked.question, {"input": "two\n"})
            asked = await card(run, nth=2)
        assert noted(pad) == []
        await run.approve(asked.question)
        assert await run.result() == 0
    assert noted(pad) == ["two" if edited else "one", "env"]


@pytest.mark.parametrize("argv", ["touch pad", [], ["touch", 3], None, ["a\0b"]], ids=repr)
async def test_a_command_edited_to_something_that_is_none_is_not_run(
    argv: Any, tmp_path: Path
) -> None:
    async def agent(ctx: Context) -> Any:
        try:
            await ctx.exec("touch", "pad", cwd=str(tmp_path), approve="always")
        except pullcord.StepError as error:
            return error.error
        return "it was run"

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await run.edit((await card(run)).question, {"argv": argv})
        second = await card(run, nth=2)
        if args_of(second)["argv"] == argv:  # shown as it was written: then it fails by name
            await run.approve(second.question)
            assert "does not say which command to run" in await run.result()
        else:
            await run.deny(second.question)
            assert "denied" in await run.result()
    assert list(tmp_path.iterdir()) == []


# --- the world may have changed ---


def no(_call: Call) -> bool:
    return False


async def no_later(_call: Call) -> bool:
    await asyncio.sleep(0)
    return False


def raising(_call: Call) -> bool:
    raise LookupError("the invoice is gone")


async def raising_later(_call: Call) -> bool:
    raise LookupError("the invoice is gone")


def nothing(_call: Call) -> Any:
    return None


def _with_context(ctx: pullcord.ToolContext, call: Call) -> bool:
    assert ctx.idempotency_key == call.idempotency_key
    return False


@pytest.mark.parametrize(
    "still_valid",
    [no, no_later, raising, raising_later, nothing, _with_context],
    ids=lambda f: f.__name__,
)
async def test_an_approved_call_that_is_no_longer_valid_is_not_made(still_valid: Any) -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay(still_valid=still_valid))) as runtime:
        run = await runtime.start("agent")
        assert (await run.approve((await card(run)).question)).verdict == "applied"
        outcome, why = await run.result()
        assert outcome == "not_started"
        expected = (
            "LookupError: the invoice is gone" if "rais" in still_valid.__name__ else "no longer"
        )
        assert expected in why
        assert await happened(runtime, run.id, StepStarted) == []
    assert bank.tried == []


async def test_a_valid_call_is_made_and_the_check_sees_what_was_approved() -> None:
    bank, calls = Bank(), list[Any]()

    async def check(call: Call) -> bool:
        calls.append((call.tool, call.args, list(bank.tried)))
        return True

    async with runtime_with(agent=payer(bank.pay(still_valid=check))) as runtime:
        run = await runtime.start("agent")
        first = await card(run)
        await run.edit(first.question, {"amount": 50})
        second = await card(run, nth=2)
        assert calls == []
        await run.approve(second.question)
        assert await run.result() == "paid 50 to bob"
    assert calls == [("pay", {"amount": 50, "to": "bob"}, [])]


async def test_a_call_that_needs_no_approval_is_not_checked() -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay(approve="never", still_valid=no))) as runtime:
        assert await (await runtime.start("agent")).result() == "paid 100 to bob"


async def test_what_an_agent_was_told_is_not_done_is_not_done_in_a_later_life(
    tmp_path: Path,
) -> None:
    """It was no longer valid, and the agent went on without it. Then it is valid again."""
    bank, valid = Bank(), [False]

    async def check(_call: Call) -> bool:
        return valid[-1]

    async def agent(ctx: Context) -> Any:
        first = await told(ctx.tool(bank.pay(still_valid=check), 100))
        await ctx.ask("And now?")
        return first

    async with runtime_with(tmp_path / "r.db", agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await run.approve((await card(run)).question)
        await question(run, kind="question")
    valid.append(True)
    async with runtime_with(tmp_path / "r.db", agent=agent) as runtime:
        run = await runtime.get("r1")
        await run.answer(await question(run, kind="question"), "go on")
        assert (await run.result())[0] == "not_started"
    assert bank.tried == []


# --- somebody is told ---


async def hooked(notify: Any, bank: Bank) -> None:
    timing = Timing(hook_s=0.05, hook_retry_s=0.01)
    async with runtime_with(agent=payer(bank.pay()), notify=notify, timing=timing) as runtime:
        run = await runtime.start("agent")
        await run.approve((await card(run)).question)
        assert await run.result() == "paid 100 to bob"


@pytest.mark.parametrize("is_async", [False, True], ids=["sync", "async"])
async def test_a_notification_hook_is_told_what_waits(is_async: bool) -> None:
    notices: list[Notice] = []
    here, arrived = asyncio.get_running_loop(), asyncio.Event()

    def take(notice: Notice) -> None:
        notices.append(notice)
        here.call_soon_threadsafe(arrived.set)

    async def take_later(notice: Notice) -> None:
        await asyncio.sleep(0)
        take(notice)

    agent = payer(Bank().pay())
    async with runtime_with(agent=agent, notify=take_later if is_async else take) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        await arrived.wait()
        [notice] = notices
        assert notice == Notice(
            run_id=run.id,
            question=asked.question,
            kind="approval",
            text=asked.text,
            tool="pay",
            args={"amount": 100, "to": "bob"},
            call=asked.call,
            expires_at_ms=asked.due_ms,
        )
        await run.approve(notice.question, call=notice.call)
        await run.result()
        assert len(notices) == 1


async def test_every_question_about_an_edited_call_is_told() -> None:
    told_of: list[Any] = []
    async with runtime_with(agent=payer(Bank().pay()), notify=told_of.append) as runtime:
        run = await runtime.start("agent")
        await run.edit((await card(run)).question, {"amount": 50})
        await run.approve((await card(run, nth=2)).question)
        await run.result()
    assert [notice.args["amount"] for notice in told_of] == [100, 50]


async def test_a_notification_that_is_answered_in_the_hook_itself_is_answered() -> None:
    bank = Bank()

    async def yes(notice: Notice) -> None:
        await (await runtime.get(notice.run_id)).approve(notice.question, call=notice.call)

    async with runtime_with(agent=payer(bank.pay()), notify=yes) as runtime:
        assert await (await runtime.start("agent")).result() == "paid 100 to bob"


def broken_hook(_notice: Notice) -> None:
    raise ConnectionError("no network")


async def broken_async_hook(_notice: Notice) -> None:
    raise ConnectionError("no network")


def meddling_hook(notice: Notice) -> None:
    notice.args["amount"] = 1_000_000


async def hanging_hook(_notice: Notice) -> None:
    await asyncio.get_running_loop().create_future()


@pytest.mark.parametrize(
    "notify",
    [broken_hook, broken_async_hook, meddling_hook, hanging_hook],
    ids=lambda hook: hook.__name__,
)
async def test_a_bad_hook_harms_neither_the_run_nor_the_shutdown(notify: Any) -> None:
    bank = Bank()
    await hooked(notify, bank)
    assert bank.paid == [(100, "bob")]


# --- forks ---


@pytest.mark.parametrize("at", [QuestionAsked, Answered], ids=["asked", "approved"])
async def test_a_fork_inherits_no_approval(at: Any) -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay())) as runtime:
        run = await runtime.start("agent")
        mine = await card(run)
        await run.approve(mine.question)
        await run.result()
        records = await runtime.journal.read(run.id)
        place = next(record.seq for record in records if isinstance(record.event, at))
        fork = await run.fork(at=place)
        asked = await card(fork)
        assert asked.call != mine.call
        assert bank.paid == [(100, "bob")]
        await fork.deny(asked.question, reason="once was enough")
        assert await fork.result() == ["denied", "once was enough"]
    assert bank.paid == [(100, "bob")]


async def test_a_fork_does_not_ask_about_what_is_done() -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay())) as runtime:
        run = await runtime.start("agent")
        await run.approve((await card(run)).question)
        await run.result()
        fork = await run.fork()
        assert await fork.result() == "paid 100 to bob"
        assert (await fork.snapshot()).questions == {}
    assert bank.paid == [(100, "bob")]


async def test_a_fork_asks_again_about_what_was_denied() -> None:
    bank = Bank()
    async with runtime_with(agent=payer(bank.pay())) as runtime:
        run = await runtime.start("agent")
        await run.deny((await card(run)).question)
        await run.result()
        fork = await run.fork()
        await fork.approve((await card(fork)).question)
        assert await fork.result() == "paid 100 to bob"
    assert bank.paid == [(100, "bob")]


# --- the same call again ---


async def test_an_idempotent_call_cut_by_a_shutdown_is_begun_again_by_the_same_approval(
    tmp_path: Path,
) -> None:
    bank = Bank()
    bank.close_the_counter()
    agent = payer(bank.pay(effect="idempotent"))
    async with runtime_with(tmp_path / "r.db", agent=agent, timing=HASTY) as runtime:
        run = await runtime.start("agent", run_id="r1")
        asked = await card(run)
        await run.approve(asked.question)
        await bank.at_the_counter.wait()
    bank.counter.set()
    async with runtime_with(tmp_path / "r.db", agent=agent) as runtime:
        run = await runtime.get("r1")
        assert await run.result() == "paid 100 to bob"
        assert len((await run.snapshot()).questions) == 1
        assert len(await happened(runtime, "r1", StepInterrupted)) == 1
        intents = await happened(runtime, "r1", StepStarted)
    assert [(i.attempt, i.approval, i.call) for i in intents] == [
        (1, asked.question, asked.call),
        (2, asked.question, asked.call),
    ]
    assert (bank.tried, bank.paid) == ([(100, "bob")] * 2, [(100, "bob")])


async def test_a_call_that_fails_is_tried_again_by_the_same_approval() -> None:
    tried: list[int] = []

    @pullcord.tool(approve="always", effect="idempotent", retry=pullcord.Retry(wait_s=0))
    async def flaky(amount: int) -> int:
        tried.append(amount)
        if len(tried) < 3:
            raise ConnectionError("down")
        return amount

    async with runtime_with(agent=payer(flaky)) as runtime:
        run = await runtime.start("agent")
        await run.approve((await card(run)).question)
        assert await run.result() == 100
        assert len((await run.snapshot()).questions) == 1
    assert tried == [100] * 3


async def test_a_call_that_began_and_is_no_longer_valid_is_not_called_not_started(
    tmp_path: Path,
) -> None:
    """It was cut by a shutdown and may have had its effect: nobody may say it never began."""
    bank, valid = Bank(), [True]
    bank.close_the_counter()

    async def check(_call: Call) -> bool:
        return valid[-1]

    agent = payer(bank.pay(effect="idempotent", still_valid=check))
    async with runtime_with(tmp_path / "r.db", agent=agent, timing=HASTY) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await run.approve((await card(run)).question)
        await bank.at_the_counter.wait()
    valid.append(False)
    async with runtime_with(tmp_path / "r.db", agent=agent) as runtime:
        outcome, _ = await (await runtime.get("r1")).result()
    assert outcome in ("unknown", "interrupted")


async def test_a_once_call_in_doubt_that_is_run_again_uses_its_approval(tmp_path: Path) -> None:
    bank = Bank()
    bank.close_the_counter()
    agent = payer(bank.pay())
    async with runtime_with(tmp_path / "r.db", agent=agent, timing=HASTY) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await run.edit((await card(run)).question, {"amount": 50})
        await run.approve((await card(run, nth=2)).question)
        await bank.at_the_counter.wait()
    bank.counter.set()
    async with runtime_with(tmp_path / "r.db", agent=agent) as runtime:
        run = await runtime.get("r1")
        name = await question(run, kind="doubt")
        assert bank.paid == []
        await run.answer(name, "run")
        assert await run.result() == "paid 50 to bob"
        intents = await happened(runtime, "r1", StepStarted)
    assert [load(intent.args)["amount"] for intent in intents] == [50, 50]
    assert bank.paid == [(50, "bob")]


async def test_a_probe_is_asked_about_the_call_that_was_made_not_the_one_first_meant(
    tmp_path: Path,
) -> None:
    """Edited to 50, paid, and cut off before it could say so. It must not be paid twice."""
    bank = Bank()

    async def probe(call: Call) -> bool:
        return (call.args["amount"], call.args["to"]) in bank.paid

    @pullcord.tool(approve="always", probe=probe)
    async def pay(amount: int, to: str = "bob") -> str:
        bank.paid.append((amount, to))
        bank.at_the_counter.set()
        await bank.counter.wait()
        return f"paid {amount} to {to}"

    bank.close_the_counter()
    async with runtime_with(tmp_path / "r.db", agent=payer(pay), timing=HASTY) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await run.edit((await card(run)).question, {"amount": 50})
        await run.approve((await card(run, nth=2)).question)
        await bank.at_the_counter.wait()
    bank.counter.set()
    async with runtime_with(tmp_path / "r.db", agent=payer(pay)) as runtime:
        await (await runtime.get("r1")).result()
    assert bank.paid == [(50, "bob")]


async def test_an_undo_is_handed_the_edited_call() -> None:
    bank, undone = Bank(), list[Any]()

    async def take_back(call: Call) -> None:
        undone.append((call.args, call.result))

    async def agent(ctx: Context) -> None:
        await ctx.tool(bank.pay(undo=take_back), 100)
        await ctx.ask("Go on?")

    async with runtime_with(agent=agent) as runtime:
        run = await runtime.start("agent")
        await run.edit((await card(run)).question, {"amount": 50})
        await run.approve((await card(run, nth=2)).question)
        await question(run, kind="question")
        await run.cancel()
        assert (await run.receipt()).undone == ("pay",)
    assert undone == [({"amount": 50, "to": "bob"}, "paid 50 to bob")]


async def test_an_approval_that_nobody_waits_for_in_memory_wakes_the_run(tmp_path: Path) -> None:
    bank = Bank()
    async with runtime_with(tmp_path / "r.db", agent=payer(bank.pay()), timing=PARKING) as runtime:
        run = await runtime.start("agent")
        asked = await card(run)
        await run.wait_for(RunState.WAITING)
        await unowned(runtime, run)
        async with runtime_with(tmp_path / "r.db") as elsewhere:
            ack = await (await elsewhere.get(run.id)).approve(asked.question)
            assert (ack.verdict, ack.state) == ("applied", RunState.QUEUED)
        assert await run.result() == "paid 100 to bob"
    assert bank.paid == [(100, "bob")]


def test_the_error_says_which_truth_it_is() -> None:
    refused = NotDone("pay", outcome="denied", why="too much")
    assert (refused.step, str(refused)) == ("pay", "Step 'pay' failed: denied: too much")
