"""The forms in which a value turns up once programs have passed it on: escaped, encoded, in lines.

Each is a text by the name of its form; the value itself has the name "". A form that is no other
text than one before it is left out.
"""

import base64
import html
import json
import shlex
from collections.abc import Iterator
from typing import Final
from urllib.parse import quote, quote_plus

_LINE_CHARS: Final = 16  # shorter lines of a value are found only with the lines around them


def forms_of(value: str) -> dict[str, str]:
    """Return every form of `value` that is looked for, by name."""
    found: dict[str, str] = {"": value}
    for name, text in _forms(value):
        if text and text not in found.values():
            found[name] = text
    return found


def _forms(value: str) -> Iterator[tuple[str, str]]:
    data = value.encode()
    for name, ascii_only in (("json", False), ("json-ascii", True)):
        once = json.dumps(value, ensure_ascii=ascii_only)[1:-1]
        yield name, once
        yield f"{name}-twice", json.dumps(once, ensure_ascii=ascii_only)[1:-1]
    yield "repr", repr(value)[1:-1]
    yield "repr-quoted", repr(f"\"'{value}")[4:-1]  # among both kinds of quotes
    yield "repr-bytes", repr(data)[2:-1]
    for name, text in (
        ("percent", quote(value, safe="")),
        ("percent-path", quote(value)),
        ("percent-plus", quote_plus(value)),
    ):
        yield name, text
        yield f"{name}-lower", _lower_escapes(text)
    yield "html", html.escape(value)
    yield "shell", shlex.quote(value)[1:-1] if shlex.quote(value) != value else value
    yield "hex", data.hex()
    yield "hex-upper", data.hex().upper()
    for shift in range(3):
        text = _base64_inside(data, shift)
        yield f"base64-{shift}", text
        yield f"base64url-{shift}", text.replace("+", "-").replace("/", "_")
    lines = [line.strip() for line in value.splitlines()]
    if len(lines) > 1:
        for number, line in enumerate(lines, start=1):
            if len(line) >= _LINE_CHARS and not line.startswith("-----"):
                yield f"line-{number}", line


def _lower_escapes(text: str) -> str:
    head, *rest = text.split("%")
    return "%".join([head, *(part[:2].lower() + part[2:] for part in rest)])


def _base64_inside(data: bytes, shift: int) -> str:
    """The characters that base64 has for `data` whatever stands around it, if `shift` bytes (of a
    group of three) stand before it."""
    text = base64.b64encode(b"\0" * shift + data).decode()
    start = -(-shift * 8 // 6)
    return text[start : (shift + len(data)) * 8 // 6]
