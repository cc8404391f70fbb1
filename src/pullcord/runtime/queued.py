"""What an agent is given for a call of a tool: the result, or a `Queued` if it does not wait."""

import asyncio
from typing import Any, Generic

import msgspec

from pullcord.runtime.agents import Result
from pullcord.runtime.calling import CommandResult
from pullcord.runtime.driver import Driver
from pullcord.runtime.steps import Wish, carry_out
from pullcord.runtime.tools import Tool


class Queued(Generic[Result]):
    """A call that its agent did not wait for: it is done when somebody has allowed it."""

    def __init__(self, task: "asyncio.Task[Result]") -> None:
        self._task = task

    def __repr__(self) -> str:
        return f"<queued call, {'done' if self._task.done() else 'open'}>"

    async def result(self) -> Result:
        """Wait for what came of it. Raises what awaiting the call itself would have raised."""
        return await asyncio.shield(self._task)


async def queued(driver: Driver, tool: Tool[..., Any], wish: Wish) -> Queued:
    """Begin a call that waits for its approval, and return at once."""
    return Queued(driver.aside(called(driver, tool, wish)))


async def called(driver: Driver, tool: Tool[..., Any], wish: Wish) -> Any:
    """Return what a call gives. What a command left is a value of its own, in every life."""
    result = await carry_out(driver, wish)
    if tool.policy.command and result is not None:
        return msgspec.convert(result, CommandResult)
    return result
