"""Text and JSON with nothing in them that a terminal would obey."""

from typing import Any

import msgspec


def to_json(value: Any) -> str:
    """One line of JSON. What is not ASCII and not printable is escaped: nothing in it moves a
    cursor, hides itself or turns the direction of reading."""
    text = msgspec.json.encode(value).decode()
    if not text.isascii() or "\x7f" in text:
        text = "".join(c if c.isprintable() else _escaped(c) for c in text)
    return text + "\n"


def printable(text: str) -> str:
    """The text with everything escaped that is neither printable nor a line break."""
    return "".join(c if c.isprintable() or c == "\n" else _escaped(c) for c in text)


def _escaped(char: str) -> str:
    units = char.encode("utf-16-be")
    return "".join(f"\\u{units[i]:02x}{units[i + 1]:02x}" for i in range(0, len(units), 2))
