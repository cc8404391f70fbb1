"""What a run has left behind: done, undone, in doubt, not attempted; who stopped it; its cost."""

from typing import Final

from pullcord.core.receipt_words import ReceiptLine, receipt_words
from pullcord.core.receipts import Receipt
from pullcord.tui.lines import BLANK, Line, Piece, flat, line, paragraph

_FEW: Final = 40
_ROOM: Final = 23  # before the names


def receipt_lines(of: Receipt, width: int) -> list[Line]:
    """The receipt: its headings with their signs, a blank line, and the facts."""
    said = receipt_words(of)
    headings = [one for told in said if told.heading for one in _told(told, width)]
    return [
        *headings,
        BLANK,
        *(one for told in said if not told.heading for one in _told(told, width)),
    ]


def _told(told: ReceiptLine, width: int) -> list[Line]:
    more = f" and {len(told.names) - _FEW} more" if len(told.names) > _FEW else ""
    names = ", ".join(flat(name, 80) for name in told.names[:_FEW]) + more
    says = ": ".join(filter(None, (names, flat(told.says, 1000))))
    found = paragraph(says, width, first=" " * _ROOM, rest=" " * _ROOM)
    sign = Piece(f" {told.sign or ' '} ", told.tone or "muted")
    return [(sign, Piece(f"{told.word.capitalize():<20}"), found[0][1]), *found[1:]]


def nothing() -> list[Line]:
    return [line("Reading what it has left behind.", role="muted")]
