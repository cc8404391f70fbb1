r"""What text may reach a terminal: whatever acts or hides is written out, such as \x1b or \u202e.

One character at a time, so that a sequence is harmless however it is cut into pieces: without its
first character the rest of it is only text.
"""

import re
from typing import Final

# Each range with what it does to a terminal, or to whoever reads it. A test compares them with the
# Unicode database (tests/core/test_visible.py).
_ACTS: Final = (
    r"\x00-\x08\x0b-\x1f"  # moves the cursor, rings, begins a sequence; not tab and new line
    r"\x7f-\x9f"  # DEL, and the one-character forms of the sequences
    r"\u2028\u2029"  # line and paragraph separators
    r"\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # turns the direction of what follows
)
_HIDES: Final = (
    r"\xad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\uffa0"  # drawn as nothing
    r"\u200b-\u200d\u2060-\u2065\u206a-\u206f\ufeff\ufff0-\ufffb"  # zero width, and shaping
    r"\ufe00-\ufe0e\U000e0000-\U000e0fff"  # variants, tags: room to smuggle a message in
    r"\U00013430-\U0001343f\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # of rare scripts
)
_IS_NONE: Final = r"\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff"  # half a pair, or no character at all
_LAST_TWO: Final = "".join(rf"\U000{p:x}fffe\U000{p:x}ffff" for p in range(1, 16))
# U+FE0F makes an emoji of the sign before it. Anywhere else it is one more place to hide in.
_SIGN: Final = (
    r"\xa9\xae\u203c\u2049\u2122\u2139\u2190-\u2bff\u3030\u303d\u3297\u3299\U0001f000-\U0001faff"
)
_UNSAFE: Final = re.compile(
    rf"[{_ACTS}{_HIDES}{_IS_NONE}{_LAST_TWO}\U0010fffe\U0010ffff]|(?<![{_SIGN}])\ufe0f"
)


def visible(text: str, *, after: str = "") -> str:
    r"""Return `text` as it may be written to a terminal. Tabs and new lines are kept.

    `after`: the character before it, if it goes on from an earlier piece. However a text is cut,
    its pieces make the same.
    """
    before = len(_UNSAFE.sub(_found, after)) if after else 0
    return _UNSAFE.sub(_found, after + text)[before:]


def visible_json(encoded: str) -> str:
    """Return JSON that says the same, with nothing in it that acts or hides."""
    return _UNSAFE.sub(lambda found: _as_json(ord(found[0])), encoded)


def written(char: str) -> str:
    """A character by its number."""
    code = ord(char)
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def _found(unsafe: re.Match[str]) -> str:
    return written(unsafe[0])


def _as_json(code: int) -> str:
    if code in (0x0A, 0x0D):  # between values, of JSON that is laid out in lines
        return chr(code)
    if code < 0x10000:
        return f"\\u{code:04x}"
    high, low = divmod(code - 0x10000, 0x400)
    return f"\\u{0xD800 + high:04x}\\u{0xDC00 + low:04x}"
