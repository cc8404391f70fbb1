"""Refuses agents with parts that Pullcord could not stop or take up again."""

from collections.abc import Iterator, Sequence
from typing import Any, Final

from agents import Agent, FunctionTool, OpenAIResponsesWSModel, Tool

from pullcord.errors import InvalidInput
from pullcord.tools import Tool as DeclaredTool

_OF_AGENTS: Final = {
    "handoffs": "handoffs are not supported yet: start a run of the other agent from a function "
    "(ctx.spawn)",
    "mcp_servers": "MCP servers are not supported yet: call them in function tools",
    "input_guardrails": "guardrails of the SDK are not supported yet: use pullcord.guard",
    "output_guardrails": "guardrails of the SDK are not supported yet: use pullcord.guard",
    "hooks": "hooks of the SDK would be called again after a restart: read the run's events",
    "prompt": "a prompt that is stored at the provider is not supported yet: use instructions",
}
_OF_TOOLS: Final = {
    "tool_input_guardrails": "guardrails of a tool are not supported yet: use a policy (approve=)",
    "tool_output_guardrails": "guardrails of a tool are not supported yet: use pullcord.guard",
    "defer_loading": "tools that are loaded later are not supported yet: remove defer_loading",
    "allowed_callers": "tools that a program at the provider calls cannot be stopped: remove "
    "allowed_callers",
    "_is_agent_tool": "agents as tools are not supported yet: start a run of the other agent from "
    "a function (ctx.spawn)",
    "_is_codex_tool": "Codex as a tool is not supported yet: remove it",
}


def refuse_unsupported(agent: Agent[Any]) -> None:
    """Refuse an agent with unsupported parts before anything begins.

    Raises:
        InvalidInput: it has some. The message names all of them and the alternatives.
    """
    if reasons := list(_reasons(agent)):
        raise InvalidInput(
            f"Agent {agent.name!r} cannot run under Pullcord: {'; '.join(reasons)}. "
            "Nothing was started."
        )


def refuse_what_came_later(
    supervised: Sequence[Tool], tools: Sequence[Tool], handoffs: Sequence[object]
) -> None:
    """Refuse to offer the model what was added to the agent since the run was entered.

    Raises:
        InvalidInput: a tool is not one of those, or there is a handoff.
    """
    mine = {id(tool) for tool in supervised}
    later = [f"tool {tool.name!r}" for tool in tools if id(tool) not in mine]
    if handoffs:
        later.append("a handoff")
    if later:
        raise InvalidInput(
            f"Cannot ask the model: the agent has {', '.join(later)} beside those of its tools=, "
            "where Pullcord could not stop it. The model was not asked. Put tools into tools= "
            "before the run starts; handoffs are not supported yet."
        )


def _reasons(agent: Agent[Any]) -> Iterator[str]:
    kind: type[Any] = type(agent)
    if kind is not Agent and kind.__module__.partition(".")[0] == "agents":
        yield f"{kind.__name__} is not supported yet: use Agent"
    yield from (why for name, why in _OF_AGENTS.items() if getattr(agent, name))
    if isinstance(agent.model, OpenAIResponsesWSModel):
        yield (
            "OpenAIResponsesWSModel shares one WebSocket, which cannot be shut for one request: "
            "use OpenAIResponsesModel"
        )
    for tool in agent.tools:
        yield from (f"tool {tool.name!r}: {why}" for why in _reasons_of(tool))


def _reasons_of(tool: Tool) -> Iterator[str]:
    if not isinstance(tool, FunctionTool):
        yield (
            f"{type(tool).__name__} is not a function of this program, so that none of its calls "
            "can be stopped: use a function tool that does it"
        )
        return
    yield from (why for name, why in _OF_TOOLS.items() if getattr(tool, name, None))
    if isinstance(getattr(tool, "__wrapped__", None), DeclaredTool):
        yield "@pullcord.tool below @function_tool is not supported yet: give its policy by name"
