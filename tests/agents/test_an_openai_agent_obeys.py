"""What is particular to the OpenAI Agents SDK: its tools, what of it is refused, and its page."""

import asyncio
import json
import os
import re
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from agents import (
    Agent,
    FunctionTool,
    HostedMCPTool,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    RunContextWrapper,
    Runner,
    WebSearchTool,
    function_tool,
)
from agents.mcp import MCPServerStdio
from agents.models.interface import Model
from agents.tool_context import ToolContext
from openai import AsyncOpenAI

import pullcord
from pullcord import RunFailed
from pullcord.agents.openai_agents.dialect import DIALECT
from pullcord.core.events import StepFailed, StepStarted
from pullcord.core.values import load
from pullcord.errors import InvalidInput
from tests.agents import sdk_tools
from tests.agents.frameworks import said_in
from tests.agents.provider.fake import FakeProvider
from tests.agents.provider.reply import call, say
from tests.runs.observed_runs import happened, question, runtime_with

pytestmark = pytest.mark.timeout(120)
ROOT = Path(__file__).parent.parent.parent


class Desk:
    """An agent with these tools, and the provider that its model is at."""

    def __init__(self, provider: FakeProvider, client: AsyncOpenAI, **more: Any) -> None:
        self.provider = provider
        model = OpenAIChatCompletionsModel("gpt-4o", client)
        self.agent = Agent[Any](name="talker", model=model, **more)

    def returns(self) -> list[str]:
        return [text for who, text in said_in(self.provider.seen[-1]) if who == "return"]


@asynccontextmanager
async def desk(*script: Any, **more: Any) -> AsyncGenerator[Desk]:
    with FakeProvider() as provider:
        provider.script = list(script)
        url = provider.url("chat")
        async with AsyncOpenAI(base_url=url, api_key="none") as client:
            yield Desk(provider, client, **more)
        assert provider.violations == []


# --- its model ---


@pytest.mark.parametrize("wire", ["chat", "responses"])
async def test_another_model_is_asked_at_the_same_place(wire: Any) -> None:
    kinds = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}
    with FakeProvider() as provider:
        provider.script = [say("ok")]
        async with AsyncOpenAI(base_url=provider.url(wire), api_key="none") as client:
            agent = Agent[Any](name="talker", model=kinds[wire]("gpt-4o", client))
            async with runtime_with(a=agent) as runtime:
                run = await runtime.start("a", "go", model="gpt-4o-mini")
                assert await run.result() == "ok"
        [asked] = provider.seen
        assert asked.body["model"] == "gpt-4o-mini"


async def test_another_model_is_refused_if_nobody_knows_where_to_ask_it() -> None:
    class Other(Model):
        get_response = stream_response = None  # type: ignore[assignment]

    agent = Agent[Any](name="talker", model=Other())
    async with runtime_with(a=agent) as runtime:
        run = await runtime.start("a", "go", model="gpt-4o-mini")
        with pytest.raises(RunFailed, match="Give the agent its model by name"):
            await run.result()


# --- its tools ---


@pytest.mark.parametrize(
    ("name", "args", "where"),
    [("whoami", {"name": "x"}, "process"), ("take", {"order": {"name": "x"}}, "process")],
)
async def test_a_decorated_sync_tool_has_a_process_of_its_own(
    name: str, args: Any, where: str
) -> None:
    tools = [sdk_tools.whoami, sdk_tools.take]
    async with (
        desk(call(name, args), say("ok"), tools=tools) as at,
        runtime_with(a=at.agent) as runtime,
    ):
        run = await runtime.start("a", "go")
        assert await run.result() == "ok"
        [began] = [s for s in await happened(runtime, run.id, StepStarted) if s.tool]
        [said] = at.returns()
    assert began.run_in == where
    assert said.startswith("x in ")
    assert not said.endswith(f" {os.getpid()}")


async def test_what_no_other_process_finds_runs_in_a_thread_and_is_handed_its_context() -> None:
    @function_tool
    def greet(ctx: RunContextWrapper[str], name: str) -> str:
        """Greet."""
        return f"{ctx.context} {name}"

    async with desk(call("greet", {"name": "x"}), say("ok"), tools=[greet]) as at:
        given = pullcord.AgentConfig(at.agent, deps=lambda: "Hello")
        async with runtime_with(a=given) as runtime:
            run = await runtime.start("a", "go")
            assert await run.result() == "ok"
            [began] = [s for s in await happened(runtime, run.id, StepStarted) if s.tool]
            assert at.returns() == ["Hello x"]
    assert began.run_in == "thread"


async def test_an_error_is_the_steps_and_told_as_the_tool_wants_it_told() -> None:
    @function_tool(failure_error_function=lambda _, error: f"It said {error}")
    async def boom() -> str:
        """Break."""
        raise ValueError("no")

    async with (
        desk(call("boom"), say("ok"), tools=[boom]) as at,
        runtime_with(a=at.agent) as runtime,
    ):
        run = await runtime.start("a", "go")
        assert await run.result() == "ok"
        [failed] = await happened(runtime, run.id, StepFailed)
        assert failed.error == "ValueError: no"
        assert at.returns() == ["It said no"]


async def test_a_tool_may_want_its_errors_to_end_the_run() -> None:
    @function_tool(failure_error_function=None)
    async def boom() -> str:
        """Break."""
        raise ValueError("no")

    async with desk(call("boom"), tools=[boom]) as at, runtime_with(a=at.agent) as runtime:
        run = await runtime.start("a", "go")
        with pytest.raises(RunFailed, match="no"):
            await run.result()


async def test_arguments_that_do_not_fit_are_told_and_begin_nothing() -> None:
    async with (
        desk(call("whoami", {"nam": 1}), say("ok"), tools=[sdk_tools.whoami]) as at,
        runtime_with(a=at.agent) as runtime,
    ):
        run = await runtime.start("a", "go")
        assert await run.result() == "ok"
        assert not [s for s in await happened(runtime, run.id, StepStarted) if s.tool]
        assert "error" in at.returns()[0]


async def test_what_the_sdk_wants_approved_is_approved_here_with_edited_arguments() -> None:
    did: list[str] = []

    @function_tool(needs_approval=True)
    async def pay(to: str) -> str:
        """Pay."""
        did.append(to)
        return f"paid {to}"

    async with (
        desk(call("pay", {"to": "eve"}), say("ok"), tools=[pay]) as at,
        runtime_with(a=at.agent) as runtime,
    ):
        run = await runtime.start("a", "go")
        await run.edit(await question(run, kind="approval"), {"whom": 5})
        await run.edit(await question(run, nth=2, kind="approval"), {"to": "bo"})
        assert did == []
        await run.approve(await question(run, nth=3, kind="approval"))
        assert await run.result() == "ok"
    assert did == ["bo"]


async def test_a_time_limit_of_the_sdk_is_one_of_ours() -> None:
    @function_tool(timeout=0.05)
    async def sleep() -> str:
        """Sleep."""
        await asyncio.Event().wait()
        return "rested"

    async with (
        desk(call("sleep"), say("ok"), tools=[sleep]) as at,
        runtime_with(a=at.agent) as runtime,
    ):
        run = await runtime.start("a", "go")
        assert await run.result() == "ok"
        [failed] = await happened(runtime, run.id, StepFailed)
        assert "TimeoutError" in failed.error


async def test_a_secret_reaches_the_tool_and_nobody_else() -> None:
    got: list[str] = []

    @function_tool
    async def login(password: str) -> str:
        """Log in."""
        got.append(password)
        return f"logged in with {password}"

    script = [call("login", {"password": "{{secret:key}}"}), say("ok")]
    async with (
        desk(*script, instructions="It is hunter2-long.", tools=[login]) as at,
        runtime_with(a=at.agent, secrets={"key": "hunter2-long"}) as runtime,
    ):
        run = await runtime.start("a", "use hunter2-long")
        assert await run.result() == "ok"
        records = str([r.event for r in await runtime.journal.read(run.id)])
        sent = b"".join(one.raw for one in at.provider.seen)
    assert got == ["hunter2-long"]
    assert b"hunter2-long" not in sent
    assert "hunter2-long" not in records


async def test_a_store_grows_with_what_is_said_and_not_with_its_square() -> None:
    script = [call("whoami", {"name": str(n)}) for n in range(4)]
    async with (
        desk(*script, say("ok"), tools=[sdk_tools.whoami]) as at,
        runtime_with(a=at.agent) as runtime,
    ):
        run = await runtime.start("a", "go")
        await run.result()
        asked = [s for s in await happened(runtime, run.id, StepStarted) if s.name == "model"]
        assert [len(load(s.args)["new"]) for s in asked] == [1, 1, 1, 1, 1]


async def test_it_works_unchanged_outside_of_a_run() -> None:
    async with desk(say("one"), call("whoami", {"name": "x"}), say("two"),
                    tools=[sdk_tools.whoami]) as at:  # fmt: skip
        async with runtime_with(a=at.agent) as runtime:
            assert await (await runtime.start("a", "go")).result() == "one"
        result = await Runner.run(at.agent, "go")
        assert result.final_output == "two"
        assert at.returns() == [f"x in {os.getpid()}"]


async def test_an_output_type_comes_out_as_json() -> None:
    async with (
        desk(say('{"name": "tea"}'), output_type=sdk_tools.Order) as at,
        runtime_with(a=at.agent) as runtime,
    ):
        assert await (await runtime.start("a", "go")).result() == {"name": "tea"}


@pytest.mark.parametrize("raw", ['{"to": "eve"}', '{"to": "eve",}', "eve", '["eve"]'])
async def test_a_hand_made_tool_asks_first_however_the_model_writes_its_arguments(raw: str) -> None:
    """Such a tool may read what is no JSON. It was called then without a step, and unapproved."""
    paid: list[str] = []

    async def pay(_: ToolContext[Any], given: str) -> str:
        paid.append(given)
        return f"paid {given}"

    tool = FunctionTool(
        name="pay", description="", params_json_schema={"type": "object", "properties": {}},
        on_invoke_tool=pay, strict_json_schema=False,
    )  # fmt: skip
    async with (
        desk(call("pay", raw), say("ok"), tools=[tool]) as at,
        runtime_with(a=at.agent, tools={"pay": {"approve": "always"}}) as runtime,
    ):
        run = await runtime.start("a", "go")
        card = await question(run)
        assert paid == []
        await run.approve(card, by="ana")
        assert await run.result() == "ok"
        assert paid == [raw]
        assert at.returns() == [f"paid {raw}"]
        assert [s.tool for s in await happened(runtime, run.id, StepStarted) if s.tool] == ["pay"]


async def test_arguments_that_cannot_be_read_are_told_and_refused_by_nobody() -> None:
    called: list[str] = []

    @function_tool
    async def note(what: str) -> None:
        called.append(what)

    async with (
        desk(call("note", '{"what": '), say("ok"), tools=[note]) as at,
        runtime_with(a=at.agent) as runtime,
    ):
        assert await (await runtime.start("a", "go")).result() == "ok"
        [told] = at.returns()
    assert "error occurred" in told  # as the SDK alone says it
    assert called == []


# --- its history ---


def a_call(name: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": name, "name": "note", "arguments": "{}"}


def an_output(name: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": name, "output": f"did {name}"}


def test_every_call_has_one_result_right_behind_it() -> None:
    said = {"role": "user", "content": "x"}
    mended = DIALECT.mended
    whole = [said, a_call("a"), a_call("b"), an_output("a"), an_output("b"), said]
    assert mended(whole) == whole
    assert mended([a_call("a"), said, an_output("a")]) == [a_call("a"), an_output("a"), said]
    assert mended([an_output("a"), said]) == [said]
    assert mended([{"type": "reasoning", "id": "r", "summary": []}, said]) == [said]
    [_, lost] = mended([a_call("a")])
    assert lost["output"].startswith("unknown: ")


# --- what is refused ---


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({"handoffs": [Agent(name="other")]}, "handoffs are not supported yet"),
        ({"tools": [WebSearchTool()]}, "WebSearchTool is not a function of this program"),
        (
            {"tools": [HostedMCPTool(tool_config={"type": "mcp", "server_label": "x"})]},
            "HostedMCPTool is not a function",
        ),
        ({"mcp_servers": [MCPServerStdio({"command": "true"})]}, "MCP servers are not supported"),
        (
            {"tools": [Agent(name="o").as_tool(tool_name="o", tool_description="o")]},
            "agents as tools are not supported",
        ),
    ],
)
def test_what_is_not_supported_is_refused_by_name_before_anything_starts(
    more: Any, says: str
) -> None:
    agent = Agent[Any](name="talker", **more)
    with pytest.raises(InvalidInput, match=says) as refused:
        pullcord.open(":memory:", agents={"talker": agent})
    assert "'talker'" in str(refused.value)
    assert str(refused.value).endswith("Nothing was started.")


async def test_a_handoff_that_is_added_later_is_refused_when_a_run_starts() -> None:
    async with desk(say("ok")) as at, runtime_with(a=at.agent) as runtime:
        at.agent.handoffs.append(Agent(name="other"))
        with pytest.raises(RunFailed, match="handoffs are not supported yet"):
            await (await runtime.start("a", "go")).result()
        assert at.provider.seen == []


class AddsATool(Agent[Any]):
    """A user's own kind of agent, which makes a tool up as it goes."""

    async def get_all_tools(self, run_context: RunContextWrapper[Any]) -> list[Any]:
        return [*await super().get_all_tools(run_context), sdk_tools.whoami]


async def test_a_tool_that_is_made_up_later_is_not_offered_to_the_model() -> None:
    """It would be called past Pullcord: also while the run is paused, and again after a crash."""
    async with desk(call("whoami", {"name": "x"}), say("ok")) as at:
        agent = AddsATool(name="a", model=at.agent.model)
        async with runtime_with(a=agent) as runtime:
            with pytest.raises(RunFailed, match="tool 'whoami' beside those of its tools="):
                await (await runtime.start("a", "go")).result()
        assert at.provider.seen == []


# --- what loads it, and its page ---


def test_pullcord_loads_the_sdk_only_for_one_of_its_agents() -> None:
    program = (
        "import sys, pullcord, pullcord.adapters\n"
        "async def agent(ctx): ...\n"
        "pullcord.open(':memory:', agents={'a': agent})\n"
        "assert 'agents' not in sys.modules and 'openai' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_package_of_the_programs_own_may_have_the_sdks_name(tmp_path: Path) -> None:
    (tmp_path / "agents.py").write_text("class Mine: ...\n")
    program = (
        "import agents, pullcord\n"
        "try: pullcord.open(':memory:', agents={'a': agents.Mine()})\n"
        "except pullcord.errors.InvalidInput as refused: print(refused)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path, capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    assert "is not an agent" in done.stdout


def test_the_program_on_its_page_runs(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "openai-agents.md").read_text()
    [program] = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    assert len(program.splitlines()) <= 25
    (tmp_path / "writer.py").write_text(program)
    with FakeProvider() as provider:
        provider.script = [
            call("figures", {"month": "May"}),
            say("In May we won 120 customers, mostly in the south.", stall_after=5),
            say("In May the EU lost 2 customers."),
        ]
        done = subprocess.run(
            [sys.executable, "writer.py"],
            cwd=tmp_path, capture_output=True, text=True, timeout=60,
            env=os.environ | {"OPENAI_BASE_URL": provider.url("responses"), "OPENAI_API_KEY": "x"},
        )  # fmt: skip
        assert done.stdout == "In May the EU lost 2 customers.\n", done.stderr
        assert provider.violations == []
        assert "only the EU" in json.dumps(provider.seen[-1].body)
