"""An agent as the runtime knows it: a function to enter, and what it needs that dies with it."""

import inspect
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeAlias

from pullcord.errors import InvalidInput

Function: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]
"""`async def agent(ctx, input)`, or `async def agent(ctx)`; `ctx` is a `Context`."""


@dataclass(frozen=True)
class Agent:
    """A plain `async def agent(ctx, input)`, or `async def agent(ctx)`.

    `version` is kept with every run and claim, so that a journal says which code did what.
    `deps` makes what dies with the process (clients, connections); the agent finds it as
    `ctx.deps`, made anew each time it is entered.
    """

    function: Function
    version: str = ""
    deps: Callable[[], Any] | None = None

    def __post_init__(self) -> None:
        if not inspect.iscoroutinefunction(self.function):
            raise InvalidInput(
                f"{getattr(self.function, '__name__', self.function)!r} is not an agent: an agent "
                "is an async function that takes a context. Nothing was changed. "
                "Write it as: async def agent(ctx, input): ..."
            )

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def wants_input(self) -> bool:
        return len(inspect.signature(self.function).parameters) > 1

    async def enter(self, ctx: object, given: Any) -> Any:
        """Carry it out. A default of its own counts when there is no input."""
        function: Any = self.function
        parameters = list(inspect.signature(function).parameters.values())
        has_default = len(parameters) > 1 and parameters[1].default is not inspect.Parameter.empty
        if not self.wants_input or (given is None and has_default):
            return await function(ctx)
        return await function(ctx, given)


def as_agent(given: "Agent | Function") -> Agent:
    return given if isinstance(given, Agent) else Agent(given)
