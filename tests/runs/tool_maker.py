"""What the tests of undoing share: tools whose work is noted as it is done and taken back."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any

from pullcord import Call, Context, Receipt, RunHandle, StepError, ToolContext
from pullcord.runtime.agents import Function
from pullcord.runtime.policy import Tool
from pullcord.testing import ManualClock
from tests.declaring import declared_as
from tests.runs.observed_runs import question
from tests.runs.undo_tools import QUICK

Work = Callable[[], Awaitable[Any]]


class ToolMaker:
    """Makes tools on the fly and notes what they do and what is undone, in order.

    The undo of a tool in `fails` fails so many times; of one in `held` it waits for `go_on`.
    """

    def __init__(self, *, fails: Mapping[str, int] | None = None, held: Iterable[str] = ()) -> None:
        self.did: list[str] = []
        self.calls: list[Call] = []
        self.contexts: list[ToolContext] = []
        self.undoing = asyncio.Event()  # an undo that is held has begun
        self.go_on = asyncio.Event()
        self._fails, self._held = dict(fails or {}), set(held)

    async def undo(self, ctx: ToolContext, call: Call) -> None:
        self.did.append(f"undo {call.tool}")
        self.calls.append(call)
        self.contexts.append(ctx)
        if call.tool in self._held:
            self.undoing.set()
            await self.go_on.wait()
        if self.did.count(f"undo {call.tool}") <= self._fails.get(call.tool, 0):
            raise ConnectionError(f"no line to {call.tool}")

    def tool(self, name: str, work: Work | None = None, **declared: Any) -> Tool[..., Any]:
        async def do() -> Any:
            self.did.append(f"do {name}")
            return await work() if work else f"made by {name}"

        do.__name__ = name
        policy: dict[str, Any] = {"undo": self.undo, "undo_retry": QUICK, **declared}
        return declared_as(**policy)(do)

    def tools(self, names: str, **declared: Any) -> list[Tool[..., Any]]:
        """One for each word."""
        return [self.tool(name, **declared) for name in names.split()]

    @property
    def undone(self) -> list[str]:
        return [line.removeprefix("undo ") for line in self.did if line.startswith("undo ")]


class WatchedClock(ManualClock):
    """Stands still, and knows which waits were asked of it."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[float] = []

    def after(self, seconds: float, ring: Callable[[], object]) -> Callable[[], object]:
        self.asked.append(seconds)
        return super().after(seconds, ring)


def calling(*tools: Callable[..., Any]) -> "Function":
    """An agent that calls these tools, one after the other, and then asks whether to go on."""

    async def agent(ctx: Context) -> str:
        for tool in tools:
            try:
                await ctx.tool(tool)
            except StepError:
                pass
        return await ctx.ask("Go on?")

    return agent


async def cancelled(run: RunHandle, **how: Any) -> Receipt:
    """Cancel it where it asks, and return the receipt."""
    await question(run)
    ack = await run.cancel(by="ana", **how)
    assert ack.holds, ack
    return await run.receipt()


async def step_of(run: RunHandle, name: str) -> str:
    """The id of the step with this name."""
    [step] = [step for step, known in (await run.snapshot()).steps.items() if known.name == name]
    return step


async def until(holds: Callable[[], bool]) -> None:
    """Wait for something that no event tells of. Bounded by the stage around it."""
    while not holds():  # noqa: ASYNC110
        await asyncio.sleep(0.001)
