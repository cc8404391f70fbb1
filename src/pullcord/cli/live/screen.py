"""A terminal with a bar at its foot: text scrolls above, the bar keeps its place.

The rows above the bar are a scroll region, and the cursor always rests where the text goes on, so
that text is simply written. Every sequence that is ever sent stands in this module.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final

from pullcord.cli.render.text_width import column_after

_SAVE, _RESTORE, _DOWN = "\x1b7", "\x1b8", "\x1bD"
_ALL_ROWS, _CLEAR_BELOW, _CLEAR_ROW = "\x1b[r", "\x1b[J", "\x1b[2K"
_HIDE_CURSOR, _SHOW_CURSOR = "\x1b[?25l", "\x1b[?25h"
_MARK_PASTES, _LEAVE_PASTES = "\x1b[?2004h", "\x1b[?2004l"
_CUT_ROWS, _WRAP_ROWS = "\x1b[?7l", "\x1b[?7h"
_LEAST_ABOVE: Final = 1
_PAINT: Final = re.compile(r"\x1b\[[0-9;]*m")


class FooterScreen:
    """`write` takes what is to be sent; `size` tells the columns and rows there are now."""

    def __init__(self, write: Callable[[str], None], size: Callable[[], tuple[int, int]]) -> None:
        self._write = write
        self._size = size
        self.columns, self.rows = size()
        self._bar: list[str] = []  # as it stands on the terminal
        self._is_up = False
        self._column = 0  # where the text goes on
        self._is_turned = False  # to a new row, by us

    def up(self) -> None:
        """Make room for a bar."""
        self.columns, self.rows = self._size()
        self._is_up = True
        self._write(_HIDE_CURSOR + _MARK_PASTES + self._room_for(0))

    def down(self) -> None:
        """Take the bar away and leave the terminal as it was. Safe to call twice."""
        if self._is_up:
            self._is_up, self._bar = False, []
            self._write(
                _SAVE + _ALL_ROWS + _RESTORE + _CLEAR_BELOW
                + _LEAVE_PASTES + _WRAP_ROWS + _SHOW_CURSOR
            )  # fmt: skip

    def resized(self) -> None:
        """The terminal has another size: it has forgotten its region, and moved what it showed."""
        if self._is_up:
            bar, self._bar = self._bar, []
            self.columns, self.rows = self._size()
            self._column = min(self._column, self.columns - 1)
            self._write(_SAVE + _ALL_ROWS + _RESTORE + _CLEAR_BELOW)
            self.show(bar)

    def say(self, text: str) -> None:
        """Go on with the text. It has been made visible.

        A row that is exactly full is ended by us: the terminal would wait for one more character
        to do it, and forget that it waits as soon as the bar is drawn.
        """
        if not text:
            return
        text = text[self._is_turned and text.startswith("\n") :]
        self._column = column_after(_PAINT.sub("", text), self._column, self.columns)
        self._is_turned = self._is_up and self._column == self.columns
        if self._is_turned:
            self._column = 0
        self._write(text + ("\n" if self._is_turned else ""))

    def show(self, bar: Sequence[str]) -> None:
        """Have the bar look like this. Only rows that have changed are sent."""
        if not self._is_up:
            return
        wanted = list(bar[: max(self.rows - _LEAST_ABOVE, 0)])
        sent = self._room_for(len(wanted)) if len(wanted) != len(self._bar) else ""
        known = self._bar if len(wanted) == len(self._bar) else [None] * len(wanted)
        top = self.rows - len(wanted) + 1
        rows = "".join(
            f"\x1b[{top + at};1H{_CLEAR_ROW}{row}"
            for at, row in enumerate(wanted)
            if row != known[at]
        )
        if rows:
            sent += _SAVE + _CUT_ROWS + rows + _WRAP_ROWS + _RESTORE
        self._bar = wanted
        if sent:
            self._write(sent)

    def _room_for(self, height: int) -> str:
        """Move the text up, if it stands in the way, and let only what is above the bar scroll."""
        grown = max(height - len(self._bar), 0)
        moved = _DOWN * grown + (f"\x1b[{grown}A" if grown else "")
        region = f"\x1b[1;{max(self.rows - height, 1)}r" if height else _ALL_ROWS
        freed = range(self.rows - len(self._bar) + 1, self.rows - height + 1)
        cleared = "".join(f"\x1b[{row};1H{_CLEAR_ROW}" for row in freed)
        return f"{moved}{_SAVE}{region}{cleared}{_RESTORE}"
