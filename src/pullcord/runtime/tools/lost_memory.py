"""Warns once, at the first call of a tool in a process, that its changes of our memory are lost."""

import dis
import logging
from typing import Any, Final

_log: Final = logging.getLogger("pullcord.runtime")
_CHANGES: Final = (
    *("append", "appendleft", "add", "update", "extend", "insert", "setdefault"),
    *("pop", "popleft", "popitem", "remove", "discard", "clear"),
)
_said: Final = set[tuple[str, str]]()


def warn_of_lost_memory(name: str, function: Any) -> None:
    """Warn that a tool in a process works on a copy: items that it adds to a list are lost."""
    key = (getattr(function, "__module__", ""), getattr(function, "__qualname__", name))
    if key in _said:
        return
    _said.add(key)
    if changed := changed_globals(function):
        _log.warning(
            "Tool %r seems to change %s. It runs in a process of its own, where that is a copy: "
            "nothing of it is seen here. Return what is needed, or make the tool async.",
            name,
            ", ".join(changed),
        )


def changed_globals(function: Any) -> list[str]:
    """Return the globals that a function assigns, and the containers that it seems to change.

    This is a guess, from the function's code.
    """
    code = getattr(function, "__code__", None)
    known: dict[str, Any] = getattr(function, "__globals__", {})
    if code is None:
        return []
    found: dict[str, None] = {}
    last = ""  # the last container that was loaded
    for at in dis.get_instructions(code):
        if at.opname in ("STORE_GLOBAL", "DELETE_GLOBAL"):
            found[at.argval] = None
        elif at.opname == "LOAD_GLOBAL":
            last = at.argval if _is_container(known.get(at.argval)) else ""
        elif last and (at.opname in ("STORE_SUBSCR", "DELETE_SUBSCR") or at.argval in _CHANGES):
            found[last] = None
    return list(found)


def _is_container(value: object) -> bool:
    return isinstance(value, list | dict | set | bytearray) or type(value).__name__ == "deque"
