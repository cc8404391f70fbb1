"""A screen as lines of text with roles. Nobody here knows colours, widgets or markup.

Text of models, tools and people goes through `single_row` before it is drawn: nothing in it can
move the cursor, turn a call around or hide.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple, TypeAlias

from rich.cells import cell_len, get_character_cell_size

from pullcord.terminal.single_row import single_row


class Piece(NamedTuple):
    text: str
    role: str = ""


Line: TypeAlias = tuple[Piece, ...]
BLANK: Final[Line] = ()


def line(*parts: str | Piece, role: str = "") -> Line:
    return tuple(Piece(part, role) if isinstance(part, str) else part for part in parts)


def flat(text: str, limit: int = 240) -> str:
    """The same on one line, and not too long."""
    start = " ".join(text[: 4 * limit].split())
    return single_row(start if len(start) <= limit else start[: limit - 1] + "…")


def width_of(of: Line) -> int:
    return sum(cell_len(piece.text) for piece in of)


def fit(of: Line, width: int) -> Line:
    """The line in at most so many cells; what is left out is marked."""
    room, kept = width, list[Piece]()
    for piece in of:
        size = cell_len(piece.text)
        if size > room:
            kept.append(Piece(cut(piece.text, room), piece.role))
            return tuple(kept)
        kept.append(piece)
        room -= size
    return tuple(kept)


def cut(text: str, width: int) -> str:
    """The text in at most so many cells, with a mark where it was cut."""
    if cell_len(text) <= width:
        return text
    return text[: _end(text, 0, width - 1)] + "…" if width > 0 else ""


def padded(text: str, width: int) -> str:
    """The text in exactly so many cells."""
    kept = cut(text, width)
    return kept + " " * (width - cell_len(kept))


def spread(left: Line, right: Line, width: int) -> Line:
    """One at each edge. The right one is whole; the left one is cut."""
    room = max(width - width_of(right) - 2, 0)
    kept = fit(left, room)
    gap = " " * max(width - width_of(kept) - width_of(right), 0)
    return (*kept, Piece(gap), *right)


def wrapped(text: str, width: int) -> list[str]:
    """The text in lines of at most so many cells, broken between words where it can be."""
    found: list[str] = []
    for paragraph in text.replace("\r\n", "\n").split("\n"):
        found.extend(_wrapped(single_row(paragraph), max(width, 8)))
    return found


def _wrapped(text: str, width: int) -> Iterator[str]:
    start = 0
    while (end := _end(text, start, width)) < len(text):
        space = text.rfind(" ", start + 1 + width // 3, end + 1)  # not for a word or two
        stop = space if space > start else end
        yield text[start:stop]
        start = stop + 1 if stop == space else stop
    yield text[start:]


def _end(text: str, start: int, width: int) -> int:
    """The place up to which the text takes no more than so many cells."""
    if text.isascii():
        return min(start + width, len(text))
    room = width
    for place in range(start, len(text)):
        room -= get_character_cell_size(text[place])
        if room < 0:
            return place
    return len(text)


def paragraph(
    text: str, width: int, *, role: str = "", first: str = "", rest: str = ""
) -> list[Line]:
    """The text as lines that each begin with something: a sign, then room beside it."""
    room = width - max(cell_len(first), cell_len(rest))
    return [
        (Piece(rest if number else first, "muted"), Piece(said, role))
        for number, said in enumerate(wrapped(text, room))
    ]
