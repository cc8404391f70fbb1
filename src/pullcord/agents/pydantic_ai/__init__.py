"""Pydantic AI under the cord: any of its agents can be paused, redirected, resumed and cancelled.

Hand one to a runtime like any other agent: `pullcord.open("runs.db", agents={"writer": agent})`.
"""

from typing import Any, cast

from pydantic_ai.agent import AbstractAgent

from pullcord.adapters import Body
from pullcord.agents.pydantic_ai.adapter import PydanticAgent
from pullcord.agents.pydantic_ai.messages import check_messages, mended
from pullcord.agents.pydantic_ai.subagents import subagent

__all__ = ["PydanticAgent", "adapt", "check_messages", "mended", "subagent"]


def adapt(given: object) -> Body | None:
    """What makes this an agent of ours, if it is one of theirs."""
    if isinstance(given, AbstractAgent):
        return PydanticAgent(cast("AbstractAgent[Any, Any]", given))
    return None
