"""Hooks: who is told what, and by what name the place of each is kept."""

import functools
from collections.abc import Callable, Collection
from typing import Any, NamedTuple, TypeAlias, cast

from pullcord.core.notices import Moved, Notice
from pullcord.errors import InvalidInput
from pullcord.runtime.hooks.function_hook import FunctionHook
from pullcord.runtime.hooks.http_post import HttpPost
from pullcord.runtime.hooks.recipient import Recipient
from pullcord.runtime.hooks.webhook import Webhook, former_name

OnStop: TypeAlias = Callable[[Moved], object] | Webhook
Notify: TypeAlias = Callable[[Notice], object] | Webhook


class Hook(NamedTuple):
    """Somebody who is told of one kind of thing."""

    name: str
    wants: type[Moved] | type[Notice]
    told: Recipient
    formerly: str = ""  # by what an older version kept its place


def hooks_of(
    notify: "Notify | Collection[Notify] | None",
    on_stop: "OnStop | Collection[OnStop] | None",
    *,
    within_s: float,
) -> list[Hook]:
    """Return everybody who is to be told.

    Raises:
        InvalidInput: one of them can neither be called nor sent anything.
    """
    made: list[Hook] = []
    names: dict[str, int] = {}
    for kind, wants, given in (("asked", Notice, notify), ("moved", Moved, on_stop)):
        for one in _each(given):
            name = f"{kind} {_name(one)}"
            names[name] = nth = names.get(name, 0) + 1
            more = "" if nth == 1 else f" ({nth})"
            name += more
            formerly = f"{kind} {former_name(one)}{more}" if isinstance(one, Webhook) else ""
            made.append(Hook(name, wants, _told(one, name, within_s), formerly))
    return made


def _each(given: Any) -> list[Any]:
    if given is None:
        return []
    is_many = isinstance(given, list | tuple | set | frozenset)
    each: list[Any] = list(cast("Any", given)) if is_many else [given]
    for one in each:
        if not isinstance(one, Webhook) and not callable(one):
            raise InvalidInput(
                f"A hook is a function or a Webhook, not {type(one).__name__}. Nothing was opened."
            )
    return each


def _told(hook: Any, name: str, within_s: float) -> Recipient:
    return (
        HttpPost(hook) if isinstance(hook, Webhook) else FunctionHook(hook, name, within_s=within_s)
    )


def _name(hook: Any) -> str:
    """The same for the same hook in another process: its place is kept by it."""
    if isinstance(hook, Webhook):
        return hook.name
    while isinstance(hook, functools.partial):
        hook = cast("Any", hook).func
    named = cast("Any", hook if hasattr(hook, "__qualname__") else type(hook))
    return f"{getattr(named, '__module__', None) or 'builtins'}:{named.__qualname__}"
