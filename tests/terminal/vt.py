"""A terminal, to look at what was sent to one: what it shows, and every sequence that is not ours.

Written without a look at what draws. It obeys only the sequences listed here; all others, and all
characters that act or hide, are collected as foreign.
"""

import codecs
import re
import unicodedata
from typing import Final

# The only sequences that a bar may send, whole. None has room for anybody's text.
OURS: Final = re.compile(
    r"\x1b(?:[78D]|\[\d{1,3}A|\[r|\[1;\d{1,3}r|\[J|\[2K|\[\d{1,3};1H|\[\?(?:7|25|2004)[hl]"
    r"|\[(?:0|1|2|31|32|33|34|35)m)"
)
_WHOLE: Final = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|[^\[])", re.DOTALL)
_DRAWN: Final = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
_BLANK: Final = {0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x2800, 0x3164, 0xFFA0}


def acts_or_hides(char: str, before: str = "") -> bool:
    """By the Unicode database: what no text may bring to a terminal."""
    code = ord(char)
    if char in "\r\n\t" or code in _DRAWN:
        return False
    if code == 0xFE0F:
        return unicodedata.category(before or "a") != "So"
    selects = 0xFE00 <= code <= 0xFE0E or 0xE0000 <= code <= 0xE0FFF or 0x180B <= code <= 0x180F
    kind = unicodedata.category(char)
    return kind in ("Cc", "Cf", "Cs", "Zl", "Zp") or selects or code in _BLANK


class Vt:
    """Rows and columns, a cursor, a scroll region."""

    def __init__(self, columns: int = 80, rows: int = 24) -> None:
        self.columns, self.rows = columns, rows
        self.cells = [[" "] * columns for _ in range(rows)]
        self.at = self._saved = (0, 0)
        self._top, self._bottom = 0, rows - 1
        self._wraps, self._is_full = True, False
        self.modes: set[str] = set()
        self.foreign: list[str] = []
        self.sequences: list[str] = []
        self._decoder = codecs.getincrementaldecoder("utf-8")("strict")
        self._left, self._before = "", ""

    def feed(self, data: bytes) -> None:
        text = self._left + self._decoder.decode(data)
        at = 0
        while at < len(text):
            if text[at] != "\x1b":
                self._char(text[at])
                at += 1
            elif found := _WHOLE.match(text, at):
                self._sequence(found[0])
                at = found.end()
            else:
                break  # more has to come
        self._left = text[at:]

    # --- what it shows ---

    @property
    def lines(self) -> list[str]:
        return ["".join(row).rstrip() for row in self.cells]

    @property
    def text(self) -> str:
        return "\n".join(self.lines)

    def resize(self, columns: int, rows: int) -> None:
        """Like most: the cursor stays in sight, rows are cut, the region is forgotten."""
        lost = max(self.at[0] - rows + 1, 0)
        kept = [row[:columns] + [" "] * (columns - len(row)) for row in self.cells[lost:]][:rows]
        self.cells = kept + [[" "] * columns for _ in range(rows - len(kept))]
        self.columns, self.rows, self._top, self._bottom = columns, rows, 0, rows - 1
        self.at = (self.at[0] - lost, min(self.at[1], columns - 1))

    # --- what it does ---

    def _char(self, char: str) -> None:
        if acts_or_hides(char, self._before):
            self.foreign.append(char)
        self._before = char
        row, column = self.at
        if char == "\r":
            self.at, self._is_full = (row, 0), False
        elif char == "\n":
            self._down()
        elif char == "\t":
            self.at = (row, min(column // 8 * 8 + 8, self.columns - 1))
        else:
            self._draw(char)

    def _draw(self, char: str) -> None:
        wide = 2 if unicodedata.east_asian_width(char) in "WF" else 1
        if unicodedata.combining(char) or char == "\ufe0f":
            return
        if self._is_full or (self._wraps and self.at[1] + wide > self.columns):
            self._is_full = False
            self._down()
            self.at = (self.at[0], 0)
        row, column = self.at
        self.cells[row][min(column, self.columns - 1)] = char
        if wide == 2 and column + 1 < self.columns:
            self.cells[row][column + 1] = ""
        self._is_full = self._wraps and column + wide >= self.columns
        self.at = (row, min(column + wide, self.columns - 1))

    def _down(self) -> None:
        row, column = self.at
        self._is_full = False
        if row == self._bottom:
            del self.cells[self._top]
            self.cells.insert(self._bottom, [" "] * self.columns)
        else:
            self.at = (min(row + 1, self.rows - 1), column)

    def _sequence(self, sequence: str) -> None:
        self._before = ""
        if not OURS.fullmatch(sequence):
            self.foreign.append(sequence)
            return
        self.sequences.append(sequence)
        numbers = [int(number) for number in re.findall(r"\d+", sequence)]
        match sequence[-1]:
            case "7" if len(sequence) == 2:
                self._saved = self.at
            case "8" if len(sequence) == 2:
                self.at, self._is_full = self._saved, False  # as unkind as some are
            case "D":
                self._down()
            case "A":
                self.at = (max(self.at[0] - numbers[0], 0), self.at[1])
            case "r":
                self._top, self._bottom = 0, (numbers[1] if numbers else self.rows) - 1
                self.at = (0, 0)
            case "H":
                self.at = (min(numbers[0], self.rows) - 1, 0)
            case "K":
                self.cells[self.at[0]] = [" "] * self.columns
            case "J":
                self._clear_below()
            case "h" | "l":
                self._mode(sequence[3:-1], is_on=sequence[-1] == "h")
            case _:
                pass

    def _clear_below(self) -> None:
        row, column = self.at
        self.cells[row][column:] = [" "] * (self.columns - column)
        for below in range(row + 1, self.rows):
            self.cells[below] = [" "] * self.columns

    def _mode(self, name: str, *, is_on: bool) -> None:
        self._wraps = is_on if name == "7" else self._wraps
        (self.modes.add if is_on else self.modes.discard)(name)
