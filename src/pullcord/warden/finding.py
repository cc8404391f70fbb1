"""Finds a function by its address, in the process of a tool: imports its module, as its program
did."""

import importlib
import importlib.util
import os
import sys
from contextlib import suppress
from typing import Any, Final

from pullcord.warden.frames import own_place, own_traceback
from pullcord.warden.inside import importing, refusal
from pullcord.warden.wire import Message

MAIN: Final = "__pullcord_main__"
_ERROR_CHARS: Final = 4000


class NotImported(Exception):
    """The function of a tool could not be had: its module raised, or has no such name."""

    def __init__(self, address: Message, error: BaseException) -> None:
        self.at, self.traceback = own_place(error), own_traceback(error)
        module = os.path.basename(address["file"]) or address["module"]
        where = f" ({self.at})" if self.at else ""
        why = refusal() or f"{described(error)}{where}"
        what = address["name"]
        super().__init__(
            f"NotStarted: {what!r} was not called: its process could not import {module}: {why} "
            f"Nothing of {what!r} was begun."
        )


def found(address: Message) -> Any:
    """Return the function at an address.

    Raises:
        NotImported: it cannot be had, for whatever reason.
    """
    try:
        importing(address["file"] or address["module"])
        function = find(address)
        importing("")
    except BaseException as error:
        raise NotImported(address, error) from error
    return function


def find(address: Message) -> Any:
    """Return what stands at an address: a module, perhaps its file, and a name in it."""
    found: Any = import_at(address)
    for name in address["name"].split("."):
        found = getattr(found, name)
    return found


def import_at(address: Message) -> Any:
    """Return the module, imported by name if that leads to the same file, or else from the file."""
    name, file = address["module"], address["file"]
    if name != "__main__":
        if name in sys.modules:
            return sys.modules[name]
        spec = None
        with suppress(ImportError):  # of a package above it; what it raises itself is its own word
            spec = importlib.util.find_spec(name)
        if spec and (not file or _is_same(spec.origin, file)):
            return importlib.import_module(name)
    known = MAIN if name == "__main__" else name
    if known not in sys.modules:
        spec = importlib.util.spec_from_file_location(known, file)
        if spec is None or spec.loader is None:
            raise ImportError(f"{file or name} cannot be imported")
        module = importlib.util.module_from_spec(spec)
        sys.modules[known] = module
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[known]
            raise
    return sys.modules[known]


def _is_same(origin: str | None, file: str) -> bool:
    with suppress(OSError):
        return origin is not None and os.path.samefile(origin, file)
    return False


def described(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}"[:_ERROR_CHARS]
    except BaseException:
        return f"{type(error).__name__}: it cannot say what it is"
