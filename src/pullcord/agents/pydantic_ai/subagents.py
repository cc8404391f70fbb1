"""An agent as a tool of another: a run of its own, which shares the fate of the one that called."""

from typing import Any

from pydantic_ai import Agent, Tool


def subagent(agent: "Agent[Any, Any] | str", *, name: str = "", description: str = "") -> Tool[Any]:
    """A tool that has this agent do something and gives its answer.

    The agent has to be one of the runtime's: `pullcord.open(..., agents={"helper": helper})`. Its
    run is paused, resumed and cancelled with the one that called it, and stopped before it.
    """
    called = name or (agent if isinstance(agent, str) else agent.name) or "helper"

    async def ask(prompt: str) -> Any:
        raise RuntimeError(f"{called} runs only under a Pullcord runtime")

    ask.__name__ = called.replace("-", "_")
    ask.__pullcord_delegate__ = agent  # pyright: ignore[reportFunctionMemberAccess]
    said = description or f"Have {called} do something and report back."
    return Tool(ask, name=ask.__name__, description=said)


def delegate_of(function: Any) -> Any:
    """The agent that a tool of this function calls, if it is one of these."""
    return getattr(function, "__pullcord_delegate__", None)
