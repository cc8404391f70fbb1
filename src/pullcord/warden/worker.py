"""A Python function called in a process of its own: arguments and result travel as JSON."""

import asyncio
import inspect
import sys
import traceback
from contextlib import suppress
from typing import Any, Final

import msgspec

from pullcord.core.calls import Call, ToolContext, invoke
from pullcord.core.values import NULL, Json, dump
from pullcord.errors import InvalidInput
from pullcord.warden.finding import find
from pullcord.warden.frames import own_place, own_traceback

_ERROR_CHARS: Final = 4000


class Answer(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What comes back from a worker. `happened`: it ran to its end, but its result is no JSON."""

    result: Json = NULL
    error: str = ""
    happened: bool = False
    began: bool = True
    kind: str = ""  # the class of what came back, if it is not one of JSON's own
    at: str = ""  # where in the tool's own code it was raised
    traceback: str = ""


class Given(msgspec.Struct, kw_only=True):
    """What a worker is handed: the arguments by name, or one call (for an undo or a probe)."""

    args: dict[str, Any] | None = None
    call: Call | None = None
    context: dict[str, Any] | None = None
    deps: dict[str, str] | None = None  # where the function stands that makes the agent's `deps`
    context_by: dict[str, str] | None = None  # and that which makes the context of another library


def carry_out(function: Any, given: Any) -> bytes:
    """Call it and return the answer, encoded. Whatever it raises is an answer."""
    return msgspec.json.encode(_called(function, msgspec.convert(given, Given)))


def _called(function: Any, given: Given) -> Answer:
    try:
        context = _context(given)
        if given.call is not None:
            function = getattr(function, "__pullcord_tool__", function)
            value = function(context, given.call) if context else function(given.call)
        else:
            value = invoke(function, context, given.args or {})
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
    except BaseException as error:
        with suppress(BaseException):  # it may have closed its error output
            traceback.print_exc(file=sys.stderr)
        return Answer(error=_described(error), at=own_place(error), traceback=own_traceback(error))
    try:
        return Answer(result=dump(value), kind=_kind(value))
    except InvalidInput as refused:
        return Answer(error=_described(refused), happened=True)


def _context(given: Given) -> Any:
    """With the agent's `deps` made anew, if another process can find what makes them."""
    if given.context is None:
        return None
    deps = find(given.deps)() if given.deps else None
    if given.context_by:
        return find(given.context_by)(given.context, deps)
    return ToolContext(**given.context, deps=deps)


def _kind(value: object) -> str:
    made_by = type(value)
    is_plain = made_by.__module__ == "builtins"
    return "" if is_plain else f"{made_by.__module__}:{made_by.__qualname__}"


def _described(error: BaseException) -> str:
    try:
        said = str(error).strip().encode(errors="backslashreplace").decode().replace("\0", "\\0")
    except BaseException:
        said = "it cannot say what it is"
    name = type(error).__name__
    return f"{name}: {said[:_ERROR_CHARS]}" if said else name
