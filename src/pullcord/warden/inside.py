"""Whether this process is the process of a tool, and what a program may not do in one.

Standard library only. The zygote marks itself; every call that is forked from it is marked too. A
program that the tool starts by itself (`subprocess`) is not: somebody has asked for that one.
"""

from typing import Final


class _Process:
    is_tools = False
    imports = ""  # the file or module that is being imported for a tool
    refused = ""  # what was said to a program that started itself meanwhile


_here: Final = _Process()


def mark() -> None:
    """From here on this process, and what is forked from it, is the process of a tool."""
    _here.is_tools = True


def is_inside() -> bool:
    """Whether this process calls a tool."""
    return _here.is_tools


def importing(what: str) -> None:
    """Say which module is being imported for a tool. Empty: none any more."""
    _here.imports = what


def imported() -> str:
    """Return what is being imported for a tool. Empty: nothing, the tool itself is running."""
    return _here.imports


def refuse(said: str) -> None:
    """Keep what was said to the program: it may hide it behind an error of its own."""
    _here.refused = said


def refusal() -> str:
    """Return what was said to a program that started itself here."""
    return _here.refused
