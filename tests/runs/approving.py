"""What the tests of approvals share: a bank that keeps every payment, and agents that pay."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from pullcord import Context, NotDone, RunHandle
from pullcord.core.events import QuestionAsked
from pullcord.core.values import load
from pullcord.runtime.agents import Function
from pullcord.runtime.policy import Tool
from tests.declaring import declared_as
from tests.runs.observed_runs import seen

DAY_S: Final = 24 * 3600.0


class Bank:
    """Where the money goes. It remembers every payment that was really made, and can be slow."""

    def __init__(self) -> None:
        self.paid: list[Any] = []
        self.tried: list[Any] = []  # also those that were cut before they were made
        self.counter = asyncio.Event()
        self.counter.set()
        self.at_the_counter = asyncio.Event()

    def close_the_counter(self) -> None:
        """Payments stand at the counter until the test opens it."""
        self.counter.clear()

    async def pay_out(self, what: Any) -> None:
        self.tried.append(what)
        self.at_the_counter.set()
        await self.counter.wait()
        self.paid.append(what)

    def pay(self, **declared: Any) -> Tool[..., Any]:
        """The tool, which needs approval unless declared otherwise."""

        @declared_as(**{"approve": "always", **declared})
        async def pay(amount: int, to: str = "bob") -> str:
            await self.pay_out((amount, to))
            return f"paid {amount} to {to}"

        return pay


async def told(call: Awaitable[Any]) -> Any:
    """What the agent was told about a call: its result, or how it was not done."""
    try:
        return await call
    except NotDone as refused:
        return [refused.outcome, refused.why]


def payer(tool: Callable[..., Any], *args: Any, **kwargs: Any) -> Function:
    """An agent that makes this one call (100 to bob) and says what it was told."""

    async def agent(ctx: Context) -> Any:
        return await told(ctx.tool(tool, *(args or (100,)), **kwargs))

    return agent


async def card(run: RunHandle, *, nth: int = 1, **fields: object) -> QuestionAsked:
    """Wait for the n-th (such) approval that the run asks for."""
    return await seen(run, QuestionAsked, nth=nth, kind="approval", **fields)


def args_of(asked: QuestionAsked) -> dict[str, Any]:
    """The arguments that a card shows."""
    return load(asked.details)["args"]


async def open_cards(run: RunHandle) -> list[str]:
    """The approvals that can be answered now."""
    now = await run.snapshot()
    return [name for name in now.open_questions() if now.questions[name].kind == "approval"]
