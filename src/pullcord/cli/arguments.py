"""The words of a command line as values: text, JSON, standard input (`-`), an age, a name."""

import os
import pwd
import re
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


_UNITS: Final = {"m": 60, "h": 3600, "d": 86_400, "w": 604_800}


def seconds_of(text: str) -> float:
    """Raises:
    InvalidInput: it is not an age.
    """
    found = re.fullmatch(r"([0-9]{1,6})([mhdw])", text)
    if found is None:
        raise InvalidInput(
            f"{text[:40]!r} is not an age: it looks like 90d, with m, h, d or w for minutes, "
            "hours, days or weeks. Nothing was deleted."
        )
    return int(found[1]) * _UNITS[found[2]]


def whoami(given: str | None) -> str:
    """The name to sign with: given, from the environment, or the account's."""
    if known := given or os.environ.get("PULLCORD_USER") or os.environ.get("USER"):
        return known
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # an account without a name, as in many containers
        return f"uid-{os.getuid()}"
