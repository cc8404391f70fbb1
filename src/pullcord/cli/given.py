"""What somebody hands over on the command line: as it is, as JSON, or from standard input (`-`)."""

import sys
from typing import Any, Final

import msgspec

from pullcord.errors import InvalidInput

_MOST: Final = 17 * 1024 * 1024  # more than any value that can be stored


def text_of(said: str) -> str:
    """The text; `-`: what comes on standard input, without its last line break.

    Raises:
        InvalidInput: that is not text.
    """
    if said != "-":
        return said
    try:
        return sys.stdin.buffer.read(_MOST).decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise InvalidInput(
            f"What came on standard input is not UTF-8 (byte {error.start}). Nothing was changed."
        ) from None


def value_of(said: str) -> Any:
    """JSON, or else the text as it is.

    Raises:
        InvalidInput: it begins like JSON and is none.
    """
    text = text_of(said)
    try:
        return msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError) as error:
        if text.lstrip().startswith(("{", "[")):
            shown = "".join(c if c.isprintable() else "?" for c in text[:100])
            raise InvalidInput(f"{shown} is not JSON: {error}. Nothing was changed.") from None
        return text
