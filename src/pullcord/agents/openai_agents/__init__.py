"""The OpenAI Agents SDK under the cord: its agents can be paused, redirected, resumed, cancelled.

Hand one to a runtime like any other agent: `pullcord.open("runs.db", agents={"writer": agent})`.
"""

from typing import Any, cast

from agents import Agent

from pullcord.adapters import Body
from pullcord.agents.openai_agents.adapter import OpenAIAgent
from pullcord.agents.openai_agents.refusing import refuse_unsupported

__all__ = ["OpenAIAgent", "adapt"]


def adapt(given: object) -> Body | None:
    """Return the body of an `agents.Agent`, or None for any other object.

    Raises:
        InvalidInput: it is one, and has something that Pullcord does not support.
    """
    if not isinstance(given, Agent):
        return None
    agent = cast("Agent[Any]", given)
    refuse_unsupported(agent)
    return OpenAIAgent(agent)
