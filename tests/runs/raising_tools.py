"""Tools that raise, at lines that the tests know."""

from typing import Final

KEY: Final = "pk-4711-0815-very-secret"


def charge(cents: int) -> None:
    if cents:
        raise ValueError("no such card")


def leak() -> None:
    raise ValueError("no such card", "pk-4711-0815-very-secret"[0])


def unreadable() -> None:
    """Code without a file, called so deep that nobody wants to read all of it."""
    code = "def deep(n):\n    if n: deep(n - 1)\n    raise RuntimeError('of nowhere')\ndeep(300)"
    exec(compile(code, "odd\udcf6", "exec"), {})
