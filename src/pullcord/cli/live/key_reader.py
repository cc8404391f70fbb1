"""What was pressed, from the bytes that a keyboard sends. Pure: it knows no terminal and no run."""

import codecs
from typing import Final, NamedTuple

ESC: Final = "\x1b"
_PASTE, _PASTED = f"{ESC}[200~", f"{ESC}[201~"
_NAMED: Final = {
    "\r": "enter",
    "\n": "enter",
    "\x7f": "backspace",
    "\x08": "backspace",
    "\x01": "home",
    "\x02": "left",
    "\x03": "ctrl-c",
    "\x04": "ctrl-d",
    "\x05": "end",
    "\x06": "right",
    "\x15": "clear",
    "\x17": "word",
    "\x1a": "ctrl-z",
}
_F_KEYS: Final = (11, 12, 13, 14, 15, 17, 18, 19, 20, 21, 23, 24)
_SEQUENCES: Final = {
    "[A": "up",
    "[B": "down",
    "[C": "right",
    "[D": "left",
    "[H": "home",
    "[F": "end",
    "[1~": "home",
    "[4~": "end",
    "[3~": "delete",
    "[5~": "page-up",
    "[6~": "page-down",
    "OA": "up",
    "OB": "down",
    "OC": "right",
    "OD": "left",
    "OH": "home",
    "OF": "end",
    **{f"O{final}": f"f{at}" for at, final in enumerate("PQRS", start=1)},
    **{f"[{code}~": f"f{at}" for at, code in enumerate(_F_KEYS, start=1)},
}
_LONGEST: Final = 32
_PASTE_MAX_CHARS: Final = 100_000


class Key(NamedTuple):
    """One press. `char` and `paste` come with their text."""

    name: str
    text: str = ""

    @property
    def pressed(self) -> str:
        """The key as somebody may have bound it: p, a space, f5."""
        return self.text if self.name == "char" else self.name


class KeyReader:
    """Bytes in, presses out. A lone Esc is known only by the silence behind it: see `quiet`."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("ignore")
        self._left = ""

    @property
    def is_unsure(self) -> bool:
        """Whether what came last may be the beginning of something."""
        return bool(self._left) and not self._left.startswith(_PASTE)

    def feed(self, data: bytes) -> list[Key]:
        self._left += self._decoder.decode(data)
        found: list[Key] = []
        while self._left and (key := self._next()):
            found.append(key)
        return [key for key in found if key.name]

    def quiet(self) -> list[Key]:
        """Nothing came for a while: what was begun was whole."""
        if not self.is_unsure:
            return []
        self._left = ""
        return [Key("esc")]

    def _next(self) -> Key | None:
        """The first press of what is left, taken from it. None: more has to come."""
        if not self._left.startswith(ESC):
            return self._plain(self._taken(1))
        if self._left.startswith(_PASTE):
            return self._paste()
        if self._left[1:2] == "[":
            return self._sequence()
        if self._left[1:2] == "O":
            return Key(_SEQUENCES.get(self._taken(3)[1:], "")) if len(self._left) > 2 else None
        if len(self._left) > 1:
            self._taken(1)
            return Key("esc")
        return None

    def _plain(self, char: str) -> Key:
        if name := _NAMED.get(char):
            return Key(name)
        return Key("char", char) if char >= " " and not "\x7f" <= char < "\xa0" else Key("")

    def _sequence(self) -> Key | None:
        for at, char in enumerate(self._left[2:_LONGEST], start=2):
            if "@" <= char <= "~":
                return Key(_SEQUENCES.get(self._taken(at + 1)[1:], ""))
        if len(self._left) >= _LONGEST:  # it ends nowhere
            self._taken(_LONGEST)
            return Key("")
        return None

    def _paste(self) -> Key | None:
        text, end, _ = self._left.removeprefix(_PASTE).partition(_PASTED)
        if not end and len(text) < _PASTE_MAX_CHARS:
            return None
        self._taken(len(_PASTE) + len(text) + len(end))
        return Key("paste", text)

    def _taken(self, count: int) -> str:
        taken, self._left = self._left[:count], self._left[count:]
        return taken
