"""An agent as the runtime knows it: a function to enter, and what it needs that dies with it."""

import inspect
import sys
import typing
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeAlias, runtime_checkable

from pullcord.core.action_trail import Runaway, check_runaway
from pullcord.core.conditions import Condition
from pullcord.core.limits import Then
from pullcord.core.text.screening import Guard
from pullcord.errors import InvalidInput

if TYPE_CHECKING:  # a default is for type checkers; Python has it from 3.13 on
    from typing_extensions import TypeVar

    Result = TypeVar("Result", default=Any)
if not TYPE_CHECKING:
    Result = typing.TypeVar("Result")
"""What an agent returns: `Any`, where that is not known."""

Function: TypeAlias = Callable[..., Coroutine[Any, Any, Any]]
"""`async def agent(ctx, input)`, or `async def agent(ctx)`; `ctx` is a `Context`."""

ADAPTERS: Final = "pullcord.adapters"
"""The group of entry points by which an installed package says whose objects it makes agents of:
`pydantic_ai = "pullcord.agents.pydantic_ai:adapt"`."""


class Foreign(Protocol):
    """An agent of another library that there is an adapter for, like a `pydantic_ai.Agent`."""

    @property
    def name(self) -> str | None: ...


@runtime_checkable
class Body(Protocol):
    """What a runtime enters when it enters an agent: a function, or what an adapter makes of an
    object of its framework."""

    @property
    def name(self) -> str: ...
    @property
    def wants_input(self) -> bool: ...
    async def enter(self, ctx: Any, given: Any) -> Any:
        """Carry the agent out, from its start or from where an earlier life was stopped. `ctx` is a
        `Context`, `given` the input of the run."""
        ...


@runtime_checkable
class Priced(Protocol):
    """An agent of a language model: it costs money, so its runs have the limits for that."""

    def is_priced(self, model: str) -> bool:
        """Return whether it is known what it costs, with this model or with its own."""
        ...


@dataclass(frozen=True)
class AgentConfig:
    """A plain `async def agent(ctx, input)`, or `async def agent(ctx)`; or an agent of a framework.

    `version` is kept with every run and claim, so that a journal says which code did what.
    `deps` makes what dies with the process (clients, connections); the agent finds it as
    `ctx.deps`, made anew each time it is entered. `limits`: what a run of it may use (see
    `pullcord.limits`), and `on_exhausted` what happens then. `runaway`: when its runs are paused
    for having lost their way, if not as usual. `guards` watch over what it says, before anybody
    sees it (`pullcord.guard`).
    """

    function: Any
    version: str = ""
    deps: Callable[[], Any] | None = None
    limits: "Condition | Callable[..., Any] | None" = None
    on_exhausted: Then | None = None
    runaway: Runaway | None = None
    guards: Sequence[Guard] = ()

    def __post_init__(self) -> None:
        _ = self.body
        if self.runaway is not None:
            check_runaway(self.runaway)

    @cached_property
    def body(self) -> Body:
        if inspect.iscoroutinefunction(self.function):
            return _PlainAgent(_taking_a_context(self.function))
        if isinstance(self.function, Body):
            return self.function
        if body := adapted(self.function):
            return body
        raise InvalidInput(
            f"{getattr(self.function, '__name__', self.function)!r} is not an agent: an agent "
            "is an async function that takes a context. Nothing was changed. "
            "Write it as: async def agent(ctx, input): ..."
        )

    @property
    def name(self) -> str:
        return self.body.name

    @property
    def wants_input(self) -> bool:
        return self.body.wants_input

    def check_question(self, run_id: str) -> None:
        """Refuse a question about a run, if nothing here could answer: a function would only do
        its work once more.

        Raises:
            InvalidInput: it is a function.
        """
        if isinstance(self.body, _PlainAgent):
            raise InvalidInput(
                f"Cannot ask about run {run_id}: its agent {self.name} is a function, and has no "
                f"model that could answer. Nothing was done. Look at it: pullcord show {run_id}"
            )

    async def enter(self, ctx: object, given: Any) -> Any:
        """Carry it out."""
        return await self.body.enter(ctx, given)


def _taking_a_context(function: Function) -> Function:
    """Return it, if it can be called with a context and an input.

    Raises:
        InvalidInput: it cannot.
    """
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except ValueError:
        return function  # it does not say what it takes
    by_place = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = [p for p in parameters if p.default is p.empty and p.kind != p.VAR_KEYWORD]
    takes_any = any(p.kind == p.VAR_POSITIONAL for p in parameters)
    more = [p.name for p in needed if p not in by_place[:2] and p.kind != p.VAR_POSITIONAL]
    if more or not (by_place or takes_any):
        name = getattr(function, "__name__", "agent")
        why = f"it also needs {', '.join(more)}" if more else "it takes nothing"
        raise InvalidInput(
            f"{name!r} is not an agent: an agent takes a context, and one input or none, and "
            f"{why}. Nothing was changed. Write it as: async def {name}(ctx, input): ..."
        )
    return function


class _PlainAgent:
    def __init__(self, function: Function) -> None:
        self.function = function

    @property
    def name(self) -> str:
        return self.function.__name__

    @property
    def wants_input(self) -> bool:
        return len(inspect.signature(self.function).parameters) > 1

    async def enter(self, ctx: Any, given: Any) -> Any:
        """A default of its own counts when there is no input."""
        function: Any = self.function
        parameters = list(inspect.signature(function).parameters.values())
        has_default = len(parameters) > 1 and parameters[1].default is not inspect.Parameter.empty
        if not self.wants_input or (given is None and has_default):
            return await function(ctx)
        return await function(ctx, given)


def adapted(given: object) -> Body | None:
    """Return what makes an agent of another library one of ours, if there is such a thing.

    Raises:
        InvalidInput: there is, and it cannot be imported; or the adapter refuses this agent.
    """
    for kind in type(given).__mro__:
        package = kind.__module__.partition(".")[0]
        if package not in sys.stdlib_module_names and (adapter := _adapters().get(package)):
            try:
                adapt = adapter.load()
            except ImportError as error:
                raise InvalidInput(
                    f"{type(given).__name__!r} of the package {package!r} is not an agent: "
                    f"{adapter.value} cannot be imported ({error}). Nothing was changed. Install "
                    "what that needs; or, if the package is your own, hand over an async function."
                ) from None
            return adapt(given)
    return None


@cache
def _adapters() -> dict[str, EntryPoint]:
    """Those that are installed, by the package whose agents they know."""
    return {found.name: found for found in entry_points(group=ADAPTERS)}


def name_of(given: "str | Function | Foreign", agents: Mapping[str, object]) -> str:
    """What an agent is called here: as it was registered, or else as it calls itself."""
    if isinstance(given, str):
        return given
    for name, agent in agents.items():
        if isinstance(agent, AgentConfig) and agent.function is given:
            return name
    named = getattr(given, "__name__", None) or getattr(given, "name", None)
    return named if isinstance(named, str) else str(given)


def as_agent(given: "AgentConfig | Function | Foreign") -> AgentConfig:
    return given if isinstance(given, AgentConfig) else AgentConfig(given)


def as_agents(given: "Mapping[str, AgentConfig | Function | Foreign]") -> dict[str, AgentConfig]:
    """Return the agents of a runtime, by their names.

    Raises:
        InvalidInput: they have no names, or one of them is none.
    """
    if not isinstance(given, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise InvalidInput(
            f"agents cannot be a {type(given).__name__}: each agent has a name here, by which its "
            'runs are found again. Nothing was opened. Write: agents={"report": report}'
        )
    return {name: as_agent(agent) for name, agent in given.items()}


def guarded_by(agent: object) -> Runaway | None:
    """The thresholds that an agent of this runtime has of its own."""
    return agent.runaway if isinstance(agent, AgentConfig) else None
