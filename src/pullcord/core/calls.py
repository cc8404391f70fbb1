"""A tool call as tools, their undo, their probe and whoever approves them see it."""

import inspect
import sys
from collections.abc import Awaitable, Callable
from typing import Any, Literal, TypeAlias, get_type_hints

import msgspec

Known: TypeAlias = Literal["finished", "late", "interrupted", "in_doubt", "failed", ""]


class Happened(msgspec.Struct, frozen=True):
    """A probe's word that a call did happen, and with what result."""

    result: Any = None


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """One call: the tool, its arguments by name, and what is known of its outcome.

    `undo` is handed one with the result, or, when nobody knows whether it happened, with the
    arguments alone; `probe`, `still_valid` and `approve` see only what was asked for.
    """

    tool: str
    args: dict[str, Any]
    idempotency_key: str
    result: Any = None
    known: Known = ""

    def happened(self, result: Any = None) -> Happened:
        """What a probe returns if it did happen. `True` will do if there is no result."""
        return Happened(result)


def invoke(function: Any, context: Any, args: dict[str, Any]) -> Any:
    """Call a function with arguments by name, whichever way it wants each of them, and each as
    the type that it is declared to be, if JSON can be made into that. `context`: what its first
    parameter is handed, if it wants one."""
    function = getattr(function, "__pullcord_tool__", function)
    signature = inspect.signature(function)
    bound = inspect.BoundArguments(signature, {})  # pyright: ignore[reportArgumentType]
    if context is not None:
        bound.arguments[next(iter(signature.parameters))] = context
    bound.arguments.update(as_declared(function, args))
    return function(*bound.args, **bound.kwargs)


def as_declared(function: Any, values: dict[str, Any]) -> dict[str, Any]:
    """Values by the names of its parameters (`return`: its result), each as the type that it is
    declared to be, if JSON can be made into that."""
    hints = _hints(getattr(function, "__pullcord_tool__", function))
    return {
        name: _converted(value, hints[name]) if name in hints else value
        for name, value in values.items()
    }


def _hints(function: Any) -> dict[str, Any]:
    try:
        return get_type_hints(function)
    except Exception:  # a name that is not there when somebody asks
        return {}


def _converted(value: Any, declared: Any) -> Any:
    for convert in (_validated, msgspec.convert, _adapted):
        try:
            return convert(value, declared)
        except Exception:  # then in another way, or as it is: the function says what it thinks
            continue
    return value


def _validated(value: Any, declared: Any) -> Any:
    return declared.model_validate(value)


def _adapted(value: Any, declared: Any) -> Any:
    """Types that have a model somewhere inside: whoever declares them has imported its library."""
    return sys.modules["pydantic"].TypeAdapter(declared).validate_python(value)


class ToolContext:
    """What a tool finds in its parameter `ctx`, if it has one.

    `idempotency_key` is the same for every attempt of one call, in every life of its run.
    """

    def __init__(
        self,
        *,
        run_id: str,
        step: str,
        attempt: int,
        idempotency_key: str,
        deps: Any = None,
        checkpoint: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        self.run_id, self.step, self.attempt = run_id, step, attempt
        self.idempotency_key = idempotency_key
        self.deps = deps
        self._checkpoint = checkpoint

    def as_data(self) -> dict[str, Any]:
        """What of it can travel to another process."""
        return {
            "run_id": self.run_id,
            "step": self.step,
            "attempt": self.attempt,
            "idempotency_key": self.idempotency_key,
        }

    async def checkpoint(self) -> None:
        """Let a pause or a cancel in. A tool in a process does not need it: it is frozen."""
        if self._checkpoint:
            await self._checkpoint()
