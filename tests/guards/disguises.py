"""A secret of forty characters, and the costumes in which it could walk past a guard."""

import base64
import codecs
import json
from collections.abc import Callable
from typing import Final
from urllib.parse import quote

SECRET: Final = "Tangerine-7431/quiet-harbor.belongs-to-J"  # nobody's
assert len(SECRET) == 40

_CYRILLIC = str.maketrans("aeioprcTJ", "аеіоргсТЈ")
_GREEK = str.maketrans("aoTiue", "αοΤιυε")
_FONT = {ord(c): 0x1D5D4 + ord(c) - 65 for c in map(chr, range(65, 91))}
_FONT_TOO = {ord(c): 0x1D5EE + ord(c) - 97 for c in map(chr, range(97, 123))}
_WIDTHLESS = "\u200b\u200d\u2060\ufeff\u00ad\u180e\u034f\u115f"


def _encoded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def _bare(text: str) -> bytes:
    return "".join(filter(str.isalnum, text)).encode()


DISGUISES: Final[dict[str, Callable[[str], str]]] = {
    "as it is": lambda s: s,
    "upper case": str.upper,
    "lower case": str.lower,
    "mixed case": lambda s: "".join(c.upper() if n % 2 else c.lower() for n, c in enumerate(s)),
    "base64": lambda s: _encoded(s.encode()),
    "base64 of upper case": lambda s: _encoded(s.upper().encode()),
    "base64 for URLs": lambda s: base64.urlsafe_b64encode(s.encode()).decode(),
    "base64 in lines": lambda s: base64.encodebytes(s.encode() * 2).decode(),
    "of no width": lambda s: "".join(c + _WIDTHLESS[n % 8] for n, c in enumerate(s)),
    "Cyrillic": lambda s: s.translate(_CYRILLIC),
    "Greek": lambda s: s.translate(_GREEK),
    "full width": lambda s: "".join(chr(ord(c) + 0xFEE0) if "!" <= c <= "~" else c for c in s),
    "another font": lambda s: s.translate(_FONT | _FONT_TOO),
    "accents": lambda s: "".join(f"{c}\u0301\u0323" for c in s),
    "spelled out": lambda s: " ".join(s),
    "in lines": lambda s: "\n".join(s),
    "in cells": lambda s: " | ".join(s),
    "backwards": lambda s: s[::-1],
    "hex": lambda s: s.encode().hex(),
    "HEX with colons": lambda s: s.encode().hex(":").upper(),
    "percent": lambda s: "".join(f"%{byte:02X}" for byte in s.encode()),
    "in an address": lambda s: quote(s, safe=""),
    "escapes": lambda s: "".join(f"\\x{byte:02x}" for byte in s.encode()),
    "long escapes": lambda s: "".join(f"\\u{ord(c):04x}" for c in s),
    "character codes": lambda s: ", ".join(str(ord(c)) for c in s),
    "codes of three digits": lambda s: " ".join(f"{ord(c):03}" for c in s),
    "hex numbers": lambda s: ", ".join(f"0x{byte:02x}" for byte in s.encode()),
    "HEX numbers": lambda s: ", ".join(f"0X{byte:02X}" for byte in s.encode()),
    "wide hex numbers": lambda s: " ".join(f"0x{ord(c):04x}" for c in s),
    "escapes in braces": lambda s: "".join(f"\\u{{{ord(c):x}}}" for c in s),
    "padded escapes in braces": lambda s: "".join(f"\\u{{{ord(c):06x}}}" for c in s),
    "longest escapes": lambda s: "".join(f"\\U{ord(c):08x}" for c in s),
    "octal escapes": lambda s: "".join(f"\\{byte:03o}" for byte in s.encode()),
    "octal numbers": lambda s: ", ".join(f"0o{byte:o}" for byte in s.encode()),
    "code points": lambda s: " ".join(f"U+{ord(c):04X}" for c in s),
    "entities": lambda s: "".join(f"&#{ord(c)};" for c in s),
    "padded entities": lambda s: "".join(f"&#{ord(c):04};" for c in s),
    "hex entities": lambda s: "".join(f"&#x{ord(c):x};" for c in s),
    "padded hex entities": lambda s: "".join(f"&#x{ord(c):04X};" for c in s),
    "base64 without marks": lambda s: _encoded(_bare(s)),
    "hex without marks": lambda s: _bare(s).hex(" "),
    "tags": lambda s: "".join(chr(0xE0000 + byte) for byte in s.encode("ascii")),
    "tags with blanks": lambda s: "  ".join(chr(0xE0000 + byte) for byte in s.encode("ascii")),
    "variation selectors": lambda s: "".join(chr(0xE00F0 + byte) for byte in s.encode("ascii")),
    "rot13": lambda s: codecs.encode(s, "rot13"),
    "JSON": lambda s: json.dumps(s)[1:-1],
}
NAMED: Final = ("upper case", "base64", "of no width", "Cyrillic", "full width", "another font")
"""Those that are promised by name."""
UNSEEN: Final = ("tags", "tags with blanks", "variation selectors")
"""Those in which only a program can read it."""
