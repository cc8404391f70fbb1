"""However a Pydantic AI tool asks for somebody's word: one queue, and it allows one call."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent, ModelRetry, RunContext, ToolDefinition
from pydantic_ai import Tool as TheirTool
from pydantic_ai import messages as m
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred
from pydantic_ai.toolsets import ApprovalRequiredToolset, ExternalToolset, FunctionToolset

from pullcord import RunHandle, RunState, Runtime
from pullcord.core.events import QuestionAsked, QuestionWithdrawn, StepStarted
from pullcord.core.values import load
from pullcord.testing.scripted import Call, ScriptedModel
from tests.agents import module_tools, till_tools
from tests.agents.light_tools import lines
from tests.agents.scripted_agents import Ledger, assert_valid, plain, runtime_of
from tests.runs.observed_runs import HASTY, happened, question, seen

pytestmark = pytest.mark.timeout(60)

WAYS = ["requires", "raises", "toolset", "declared", "named"]


class Till:
    """An agent with a tool that needs somebody's word, in one of the ways to say so."""

    def __init__(self, way: str, path: Path, *script: Any) -> None:
        self.path, self.policies = path, dict[str, Any]()
        self.ledger = Ledger()
        pay: Any = till_tools.pay.function

        async def pay_if_allowed(ctx: RunContext[Any], path: str, amount: int) -> str:
            if not ctx.tool_call_approved:
                raise ApprovalRequired(metadata={"why": "money"})
            return pay(path, amount)

        toolset: Any = FunctionToolset([pay])
        match way:
            case "requires":
                toolset = FunctionToolset([TheirTool(pay, requires_approval=True)])
            case "raises":
                toolset = FunctionToolset([TheirTool(pay_if_allowed, name="pay")])
            case "toolset":
                toolset = ApprovalRequiredToolset(toolset)
            case "declared":
                toolset = FunctionToolset([till_tools.pay])  # pyright: ignore[reportArgumentType]
            case _:
                self.policies["pay"] = {"approve": "always"}
        self.model = ScriptedModel(script or ([self.call(5)], "Done.", "Next turn."))
        self.agent: Agent[Any, Any] = Agent(
            self.model, tools=[self.ledger.note, self.ledger.slow], toolsets=[toolset], name="till"
        )

    def call(self, amount: int, **more: Any) -> Call:
        return Call("pay", {"path": str(self.path), "amount": amount}, **more)

    def opened(self, path: Path | str = ":memory:", **more: Any) -> Any:
        return runtime_of(self.agent, path, tools=self.policies, **more)

    def told(self) -> list[tuple[Any, str]]:
        """What the model was told about its calls, with how each ended."""
        return [
            (part.content, part.outcome)
            for message in self.model.requests[-1]
            for part in message.parts
            if isinstance(part, m.ToolReturnPart)
        ]


async def card(run: RunHandle, nth: int = 1) -> str:
    return await question(run, nth=nth, kind="approval")


@pytest.fixture(params=WAYS)
def till(request: pytest.FixtureRequest, tmp_path: Path) -> Till:
    return Till(request.param, tmp_path / "book")


async def test_nothing_is_done_before_somebody_allows_it(till: Till) -> None:
    async with till.opened() as runtime:
        run = await runtime.start(till.agent, "pay", thread="t1")
        asked = await card(run)
        await run.wait_for(RunState.WAITING)
        [event] = await happened(runtime, run.id, QuestionAsked)
        details = load(event.details)
        assert (details["tool"], details["args"]["amount"]) == ("pay", 5)
        assert lines(till.path) == []
        await run.approve(asked, by="ana")
        assert await run.result() == "Done."
        assert (await run.receipt()).done == ("pay",)
        [began] = [s for s in await happened(runtime, run.id, StepStarted) if s.approval]
    assert (began.approval, began.call) == (asked, event.call)  # bound to exactly that
    assert lines(till.path) == ["paid 5"]
    assert till.told() == [("paid 5", "success")]
    assert_valid(till.model)


async def test_a_no_and_its_reason_reach_the_model(till: Till) -> None:
    async with till.opened() as runtime:
        run = await runtime.start(till.agent, "pay", thread="t1")
        await run.deny(await card(run), by="ana", reason="too much")
        assert await run.result() == "Done."
        receipt = await run.receipt()
    assert lines(till.path) == []
    [(content, outcome)] = till.told()
    assert (content, outcome) == ("denied: too much", "denied")
    assert receipt.done == ()
    assert_valid(till.model)


async def test_edited_arguments_are_checked_by_the_tool_and_asked_about_anew(till: Till) -> None:
    async with till.opened() as runtime:
        run = await runtime.start(till.agent, "pay")
        await run.edit(await card(run), {"amount": "much"}, by="ana")
        again = await card(run, 2)  # not a number: the call as it was
        await run.edit(again, {"amount": 3}, by="ana")
        last = await card(run, 3)
        asked = await happened(runtime, run.id, QuestionAsked)
        assert lines(till.path) == []
        await run.approve(last, by="bob")
        assert await run.result() == "Done."
    assert [load(e.details)["args"]["amount"] for e in asked] == [5, 5, 3]
    assert "cannot be called like that" in asked[1].text
    assert len({e.call for e in asked if e.question != again}) == 2
    assert lines(till.path) == ["paid 3"]


async def test_a_redirect_withdraws_the_card_and_the_conversation_goes_on(till: Till) -> None:
    async with till.opened() as runtime:
        run = await runtime.start(till.agent, "pay", thread="t1")
        asked = await card(run)
        await run.wait_for(RunState.WAITING)
        await run.redirect("do not pay!")
        assert await run.result() == "Done."
        known = (await run.snapshot()).questions[asked]
        late = await run.approve(asked)
        assert await (await runtime.start(till.agent, "and?", thread="t1")).result() == "Next turn."
    assert known.status == "withdrawn"
    assert not late.holds
    assert lines(till.path) == []
    said = plain(till.model.requests[1])
    assert said[-2][1].startswith("not_started:")
    assert said[-1] == ("user", "do not pay!")
    assert_valid(till.model)


async def test_a_cancel_withdraws_the_card_and_says_that_it_was_not_done(till: Till) -> None:
    async with till.opened() as runtime:
        run = await runtime.start(till.agent, "pay", thread="t1")
        asked = await card(run)
        await run.wait_for(RunState.WAITING)
        await run.cancel(by="ana")
        receipt = await run.receipt()
        assert (receipt.state, receipt.done) == (RunState.CANCELLED, ())
        assert any(name.startswith("pay") for name in receipt.not_attempted)
        assert not (await run.approve(asked)).holds
        await (await runtime.start(till.agent, "and?", thread="t1")).result()
    assert lines(till.path) == []
    [(content, _)] = till.told()
    assert content.startswith("not_started:")
    assert_valid(till.model)


async def test_the_card_outlives_the_process_that_asked(till: Till, tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    async with till.opened(store) as runtime:
        run = await runtime.start(till.agent, "pay", run_id="r1")
        asked = await card(run)
        await run.wait_for(RunState.WAITING)
    async with till.opened(store) as runtime:
        run = await runtime.get("r1")
        assert (await run.snapshot()).open_questions() == [asked]
        assert (await run.approve(asked, by="ana")).holds
        assert await run.result() == "Done."
        assert len(await happened(runtime, "r1", QuestionAsked)) == 1
    assert lines(till.path) == ["paid 5"]
    assert len(till.model.requests) == 2
    assert_valid(till.model)


@pytest.mark.parametrize("way", WAYS)
async def test_a_pause_keeps_the_card_and_what_it_allows_waits(way: str, tmp_path: Path) -> None:
    till = Till(way, tmp_path / "book")
    async with till.opened() as runtime:
        run = await runtime.start(till.agent, "pay")
        asked = await card(run)
        await run.pause()
        await run.wait_for(RunState.PAUSED)
        assert (await run.approve(asked, by="ana")).holds
        assert lines(till.path) == []
        await run.resume()
        assert await run.result() == "Done."
    assert lines(till.path) == ["paid 5"]


@pytest.mark.parametrize("way", WAYS)
async def test_of_several_each_is_answered_by_itself(way: str, tmp_path: Path) -> None:
    till = Till(way, tmp_path / "book")
    till.model = ScriptedModel(
        [
            [till.call(1, id="a"), till.call(2, id="b"), till.call(3, id="c")],
            "Done.",
        ]
    )
    till.agent.model = till.model
    async with till.opened() as runtime:
        run = await runtime.start(till.agent, "pay")
        await card(run, 3)
        asked = {
            load(e.details)["args"]["amount"]: e.question
            for e in await happened(runtime, run.id, QuestionAsked)
        }
        await run.approve(asked[2], by="ana")
        await until(till.path, ["paid 2"])  # while the other two are still open
        assert sorted((await run.snapshot()).open_questions()) == sorted([asked[1], asked[3]])
        await run.deny(asked[1], by="ana")
        await run.approve(asked[3], by="ana")
        assert await run.result() == "Done."
    assert lines(till.path) == ["paid 2", "paid 3"]
    assert [content for content, _ in till.told()] == [
        "denied: no reason given",
        "paid 2",
        "paid 3",
    ]
    assert_valid(till.model)


async def test_another_call_goes_on_while_a_card_is_open(tmp_path: Path) -> None:
    till = Till("declared", tmp_path / "book")
    till.model = ScriptedModel([[till.call(1), Call("slow", {"what": "x"})], "Done."])
    till.agent.model = till.model
    async with till.opened() as runtime:
        run = await runtime.start(till.agent, "pay")
        asked = await card(run)
        await till.ledger.begun.wait()
        till.ledger.go_on.set()
        await until_did(till.ledger, ["x"])
        await run.approve(asked)
        assert await run.result() == "Done."
    assert lines(till.path) == ["paid 1"]


async def test_arguments_edited_by_a_person_pass_the_tools_own_check(tmp_path: Path) -> None:
    did: list[Any] = []

    async def visit(guest: module_tools.Guest) -> str:
        """Visit somebody."""
        did.append(guest)
        return guest.name

    def check(ctx: RunContext[Any], guest: module_tools.Guest) -> None:
        if guest.name == "Eve":
            raise ModelRetry("never Eve")

    tool = TheirTool(visit, requires_approval=True, args_validator=check)
    call = Call("visit", {"name": "Ana", "born": "1999-01-02"})
    for edited, told in (("Bob", "Bob"), ("Eve", "never Eve")):
        model = ScriptedModel([[call], "Done."])
        agent: Agent[Any, Any] = Agent(model, tools=[tool], name="till")
        async with runtime_of(agent) as runtime:
            run = await runtime.start(agent, "go")
            guest = {"name": edited, "born": "2001-01-01"}
            await run.edit(await card(run), {"guest": guest}, by="ana")
            await run.approve(await card(run, 2), by="ana")
            assert await run.result() == "Done."
        assert told in str(plain(model.requests[-1])[-1][1])
        assert_valid(model)
    assert did == [module_tools.Guest.model_validate({"name": "Bob", "born": "2001-01-01"})]


# --- carried out elsewhere ---


def elsewhere(*script: Any, kind: str) -> tuple[ScriptedModel, Agent[Any, Any], Ledger]:
    schema = {"type": "object", "properties": {"who": {"type": "string"}}}
    external = ExternalToolset([ToolDefinition(name="call_up", parameters_json_schema=schema)])

    async def call_up(who: str) -> str:
        """Have somebody outside do it."""
        raise CallDeferred

    ledger = Ledger()
    model = ScriptedModel(script)
    toolset: Any = external if kind == "toolset" else FunctionToolset([call_up])
    tools = [ledger.note, TheirTool(ledger.slow, name="slow", requires_approval=True)]
    return model, Agent(model, tools=tools, toolsets=[toolset], name="desk"), ledger


@pytest.mark.parametrize("kind", ["toolset", "raised"])
async def test_what_somebody_else_does_is_a_question_whose_answer_is_the_result(
    tmp_path: Path, kind: str
) -> None:
    calls = [
        Call("call_up", {"who": "Ana"}, id="a"),
        Call("call_up", {"who": "Bob"}, id="b"),
        Call("call_up", {"who": "Eve"}, id="c"),
        Call("note", {"what": "x"}),
    ]
    model, agent, ledger = elsewhere(calls, "Done.", kind=kind)
    store = tmp_path / "runs.db"
    async with runtime_of(agent, store) as runtime:
        run = await runtime.start(agent, "go", run_id="r1")
        asked = await _asked(runtime, run, 3)  # all at once
        await run.answer(asked["Bob"], {"said": "yes"})
        await run.answer(asked["Eve"], None)
    async with runtime_of(agent, store) as runtime:
        run = await runtime.get("r1")
        assert (await run.snapshot()).open_questions() == [asked["Ana"]]
        await run.answer(asked["Ana"], "hello")
        assert await run.result() == "Done."
    returns = {
        part.tool_call_id: part.content
        for message in model.requests[-1]
        for part in message.parts
        if isinstance(part, m.ToolReturnPart) and part.tool_name == "call_up"
    }
    assert returns == {"a": "hello", "b": {"said": "yes"}, "c": None}
    assert ledger.did == ["x"]
    assert len(model.requests) == 2
    assert_valid(model)


@pytest.mark.parametrize("kind", ["toolset", "raised"])
async def test_a_redirect_takes_the_question_off_the_table(kind: str) -> None:
    model, agent, _ = elsewhere([Call("call_up", {"who": "Ana"})], "Done.", "Next.", kind=kind)
    async with runtime_of(agent) as runtime:
        run = await runtime.start(agent, "go", thread="t1")
        await _asked(runtime, run, 1)
        await run.wait_for(RunState.WAITING)
        await run.redirect("hang up!")
        assert await run.result() == "Done."
        assert len(await happened(runtime, run.id, QuestionWithdrawn)) <= 1
        assert len(await happened(runtime, run.id, QuestionAsked)) == 1
        await (await runtime.start(agent, "and?", thread="t1")).result()
    said = plain(model.requests[1])
    assert said[-2][1].startswith("unknown:")
    assert said[-1] == ("user", "hang up!")
    assert_valid(model)


@pytest.mark.parametrize("kind", ["toolset", "raised"])
async def test_a_cancel_tells_the_next_turn_what_is_known(kind: str) -> None:
    calls = [Call("call_up", {"who": "Ana"}, id="a"), Call("call_up", {"who": "Bob"}, id="b")]
    model, agent, _ = elsewhere(calls, "Next.", kind=kind)
    async with runtime_of(agent, timing=HASTY) as runtime:
        run = await runtime.start(agent, "go", thread="t1")
        asked = await _asked(runtime, run, 2)
        await run.answer(asked["Ana"], "hello")
        await run.cancel(by="ana")
        await run.receipt()
        await (await runtime.start(agent, "and?", thread="t1")).result()
    returns = [said[1] for said in plain(model.requests[-1]) if said[0] == "return"]
    assert returns[0] == "hello"
    assert returns[1].startswith("unknown:")
    assert_valid(model)


async def _asked(runtime: Runtime, run: RunHandle, count: int) -> dict[str, str]:
    """The questions about calls that are carried out elsewhere, by whom they are about."""
    await seen(run, QuestionAsked, nth=count)
    found = await happened(runtime, run.id, QuestionAsked)
    return {load(e.details)["args"]["who"]: e.question for e in found}


async def until(path: Path, wanted: list[str]) -> None:
    while lines(path) != wanted:  # noqa: ASYNC110 (another process writes it)
        await asyncio.sleep(0.005)


async def until_did(ledger: Ledger, wanted: list[str]) -> None:
    while ledger.did != wanted:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
