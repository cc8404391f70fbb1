"""A misspelt policy protects nothing: it is refused as soon as it can be known, never silent."""

import logging
import sys
from pathlib import Path
from typing import Any

import pytest
from fastmcp.client.transports import StdioTransport
from pydantic_ai import Agent, RunContext
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.toolsets import FunctionToolset

import pullcord
from pullcord import Context, NotDone, RunFailed, RunState, StepError
from pullcord.agents.pydantic_ai import subagent
from pullcord.errors import InvalidInput
from pullcord.testing.scripted import Call, ScriptedModel
from tests.runs.observed_runs import question, runtime_with

SENT: list[str] = []
ALWAYS = {"approve": "always"}


async def send_mail(to: str) -> str:
    SENT.append(to)
    return f"sent to {to}"


@pullcord.tool(effect="idempotent")
async def declared(to: str) -> str:
    return await send_mail(to)


@pytest.fixture(autouse=True)
def nothing_sent() -> None:
    SENT.clear()


def clerk(*calls: Any, **agent: Any) -> Agent[Any, Any]:
    model = ScriptedModel([*([call] for call in calls), "Done."])
    return Agent(model, name="clerk", **agent)


# --- agents that list their tools ---


def tools_of(name: str) -> Any:
    tools = FunctionToolset[Any]([send_mail])
    match name:
        case "tools":
            return {"tools": [send_mail]}
        case "toolset":
            return {"toolsets": [tools]}
        case "prefixed":
            return {"toolsets": [tools.prefixed("post")]}
        case "renamed":
            return {"toolsets": [tools.renamed({"post": "send_mail"})]}
        case _:
            return {"toolsets": [tools.filtered(lambda ctx, tool: True)]}


@pytest.mark.parametrize(
    ("shape", "right"),
    [
        ("tools", "send_mail"),
        ("toolset", "send_mail"),
        ("prefixed", "post_send_mail"),
        ("renamed", "post"),
        ("filtered", "send_mail"),
    ],
)
async def test_a_name_that_no_agent_lists_is_refused_when_the_runtime_is_entered(
    shape: str, right: str, tmp_path: Path
) -> None:
    agents = {"clerk": clerk(**tools_of(shape))}
    wrong = right[:-1]
    with pytest.raises(InvalidInput, match=rf"No agent has a tool '{wrong}'.*'{right}' meant"):
        async with pullcord.open(tmp_path / "s.db", agents=agents, tools={wrong: ALWAYS}):
            pass
    async with pullcord.open(tmp_path / "s.db", agents=agents, tools={right: ALWAYS}):
        pass


async def test_a_tool_that_an_agent_is_given_after_the_runtime_was_made_counts() -> None:
    agent = clerk()
    runtime = pullcord.open(":memory:", agents={"clerk": agent}, tools={"send_mail": ALWAYS})
    agent.tool_plain(send_mail)
    async with runtime:
        pass


async def test_a_runtime_without_agents_refuses_no_policy() -> None:
    async with pullcord.open(":memory:", tools={"send_mial": ALWAYS}):
        pass


async def test_an_agent_that_is_called_as_a_tool_has_no_policy_of_its_own() -> None:
    inner = Agent(ScriptedModel(["Done."]), name="inner")
    outer = clerk(tools=[subagent(inner, name="ask_inner")])
    agents = {"clerk": outer, "inner": inner}
    with pytest.raises(InvalidInput, match="No agent has a tool 'ask_inner'"):
        async with pullcord.open(":memory:", agents=agents, tools={"ask_inner": ALWAYS}):
            pass


# --- tools that are known only when a run begins, or later ---

SERVER = """
from mcp.server import MCPServer
server = MCPServer("post")

@server.tool()
def send_mail(to: str) -> str:
    return "sent to " + to

server.run()
"""


def mcp_server(tmp_path: Path) -> MCPToolset[Any]:
    (tmp_path / "server.py").write_text(SERVER)
    transport = StdioTransport(sys.executable, [str(tmp_path / "server.py")], keep_alive=False)
    return MCPToolset(transport, id="post", init_timeout=60)


async def test_a_name_that_no_server_lists_fails_the_run_before_a_model_is_asked(
    tmp_path: Path,
) -> None:
    agent = clerk(Call("send_mail", {"to": "ana"}), toolsets=[mcp_server(tmp_path)])
    async with runtime_with(tools={"send_mial": ALWAYS}, clerk=agent) as runtime:
        run = await runtime.start("clerk", "go")
        with pytest.raises(RunFailed, match=r"No agent has a tool 'send_mial'.*'send_mail' meant"):
            await run.result()
        assert not (await run.snapshot()).steps


async def test_a_name_that_a_server_lists_is_kept(tmp_path: Path) -> None:
    agent = clerk(Call("send_mail", {"to": "ana"}), toolsets=[mcp_server(tmp_path)])
    async with runtime_with(tools={"send_mail": ALWAYS}, clerk=agent) as runtime:
        run = await runtime.start("clerk", "go")
        assert await run.approve(await question(run))
        assert await run.result() == "Done."


async def test_a_call_of_almost_that_name_does_not_begin() -> None:
    agent = clerk(Call("send_mail", {"to": "ana"}))

    @agent.toolset
    def late(ctx: RunContext[Any]) -> FunctionToolset[Any]:
        return FunctionToolset([send_mail])

    async with runtime_with(tools={"send_mial": ALWAYS}, clerk=agent) as runtime:
        run = await runtime.start("clerk", "go")
        with pytest.raises(RunFailed, match=r"'send_mail' was not called.*'send_mial'"):
            await run.result()
    assert SENT == []


# --- agents that are functions ---


async def test_a_function_agent_is_refused_the_call_that_is_meant() -> None:
    async def agent(ctx: Context) -> Any:
        return await ctx.tool(send_mail, "ana")

    async with runtime_with(tools={"send_mial": ALWAYS}, agent=agent) as runtime:
        run = await runtime.start("agent")
        with pytest.raises(RunFailed, match=r"'send_mail' was not called.*'send_mial'"):
            await run.result()
    assert SENT == []


async def test_a_name_that_no_code_mentions_is_warned_about_and_needs_attention(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def agent(ctx: Context) -> Any:
        return await ctx.tool(send_mail, "ana")

    with caplog.at_level(logging.WARNING):
        async with runtime_with(tools={"transfer_funds": ALWAYS}, agent=agent) as runtime:
            assert "mentions a tool 'transfer_funds'" in caplog.text
            run = await runtime.start("agent")
            assert await run.result() == "sent to ana"
            [text] = (await run.snapshot()).attention.values()
    assert "'transfer_funds'" in text
    assert "protects nothing" in text


async def test_a_name_that_code_mentions_is_no_trouble_in_a_run_that_does_not_call_it(
    caplog: pytest.LogCaptureFixture,
) -> None:
    async def agent(ctx: Context, given: str) -> Any:
        return await ctx.tool(send_mail, "ana") if given == "mail" else "nothing to send"

    async with runtime_with(tools={"send_mail": ALWAYS}, agent=agent) as runtime:
        run = await runtime.start("agent", "no")
        assert await run.result() == "nothing to send"
        assert not (await run.snapshot()).attention
        other = await runtime.start("agent", "mail")
        await other.wait_for(RunState.WAITING)
    assert "policy" not in caplog.text
    assert SENT == []


async def test_an_approval_by_name_is_not_lost_to_what_the_tool_declares() -> None:
    told: list[str] = []

    async def agent(ctx: Context) -> Any:
        try:
            return await ctx.tool(declared, "ana")
        except (InvalidInput, NotDone, StepError) as error:
            told.append(str(error))

    async with runtime_with(tools={"declared": ALWAYS}, agent=agent) as runtime:
        await (await runtime.start("agent")).result()
    assert "wants it approved" in told[0]
    assert SENT == []
