"""A question that takes only some answers says which, in the line where it is answered."""

from collections.abc import Sequence
from typing import Final

from pullcord.journal.views.inbox import Open
from pullcord.terminal.single_row import single_row

DOUBT: Final = ("happened", "run", "skip")


def choices_of(asked: Open) -> tuple[str, ...]:
    """The only answers it takes; none: whatever somebody writes."""
    if asked.kind == "doubt":
        return DOUBT
    said = asked.details.get("choices") if isinstance(asked.details, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
    is_list = isinstance(said, list | tuple)
    return tuple(one for one in said if isinstance(one, str)) if is_list else ()  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]


def either(choices: Sequence[str]) -> str:
    """One, two or three"""
    names = [single_row(" ".join(one.split())) for one in choices]
    return " or ".join([*filter(None, [", ".join(names[:-1])]), *names[-1:]])
