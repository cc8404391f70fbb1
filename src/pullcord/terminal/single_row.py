"""Text in one row of a screen: nothing in it acts, hides, begins another row or leaves its own."""

import unicodedata
from collections.abc import Iterator
from typing import Final

from pullcord.core.text.visible import visible, written

MARKS_MAX: Final = 4  # accents on one letter; more of them cover the rows around it
_IN_ONE: Final = {ord("\n"): " ", ord("\t"): "    "}


def single_row(text: str) -> str:
    """The text as it may stand in a row, whoever wrote it, and has been made so before or not."""
    if text.isascii() and text.isprintable():
        return text
    shown = visible(text).translate(_IN_ONE)
    return shown if shown.isascii() else "".join(_low(shown))


def _low(text: str) -> Iterator[str]:
    marks = 0
    for char in text:
        marks = marks + 1 if unicodedata.category(char) in ("Mn", "Me") else 0
        yield char if marks <= MARKS_MAX else written(char)
