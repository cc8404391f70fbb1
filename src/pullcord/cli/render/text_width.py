"""How wide text is in a terminal; cut, wrapped and set side by side by that.

Everything that stands in a bar comes through here, before it is coloured: so here it is made
visible, whoever wrote it, and has been made so before or not.
"""

import textwrap
import unicodedata
from typing import Final

from pullcord.terminal.single_row import single_row

LEAST_COLUMNS: Final = 20  # a terminal counts as so wide, also if it is narrower
_JOINED: Final = ("Mn", "Me", "Mc")


def width(text: str) -> int:
    """How many columns it takes. Text that was made visible has nothing else in it."""
    return sum(_columns(char) for char in text)


def _columns(char: str) -> int:
    if char < "\u0300":
        return 1
    if unicodedata.category(char) in _JOINED:
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1


def column_after(text: str, column: int, columns: int) -> int:
    """Where the cursor stands behind the text, if it stood at `column`; `columns`: at the edge."""
    for char in text:
        if char == "\n":
            column = 0
        elif char == "\t":
            column = min(column // 8 * 8 + 8, columns - 1)
        else:
            wide = _columns(char)
            column = column + wide if column + wide <= columns else wide
    return column


def clip(text: str, columns: int) -> str:
    """As much of it as fits. What is left out is marked."""
    text = single_row(text)
    if width(text) <= columns:
        return text
    kept, used = "", 1
    for char in text:
        used += _columns(char)
        if used > columns:
            break
        kept += char
    return f"{kept}…" if columns > 0 else ""


def pad(text: str, columns: int) -> str:
    """Cut or filled up to exactly so many columns."""
    shown = clip(text, columns)
    return shown + " " * (columns - width(shown))


def apart(left: str, right: str, columns: int) -> str:
    """One at each end. The right one is kept; what does not fit of the left one is cut."""
    right = clip(right, columns)
    room = columns - width(right) - (2 if right else 0)
    return pad(left, max(room, 0)) + ("  " if right and room > 0 else "") + right


def wrapped(text: str, columns: int, rows: int | None = None) -> list[str]:
    """In lines of words; with `rows`, no more than so many, the last of them cut."""
    if columns < 1:
        return [""] * (rows or 0)
    text = single_row(text)
    whole = textwrap.wrap(text, columns, break_on_hyphens=False)
    fits = all(width(line) <= columns for line in whole)
    lines = whole if fits else folded(text, columns)  # some characters take two columns
    if rows is None:
        return lines
    kept = lines[:rows]
    if len(lines) > rows:
        kept[-1] = clip(f"{kept[-1]} {lines[rows]}", columns)
        kept[-1] = kept[-1] if kept[-1].endswith("…") else clip(f"{kept[-1]} …", columns)
    return kept + [""] * (rows - len(kept))


def folded(text: str, columns: int) -> list[str]:
    """Every character of it, in lines that are full."""
    lines, used = [""], 0
    for char in single_row(text):
        wide = _columns(char)
        if used + wide > max(columns, 2):
            lines.append("")
            used = 0
        lines[-1] += char
        used += wide
    return lines
