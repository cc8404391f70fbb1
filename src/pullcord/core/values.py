"""What may be stored: ids, text and JSON values. Checked once, at the rim, with a precise no."""

import math
import re
from collections.abc import Mapping
from typing import Any, Final, TypeAlias, cast

import msgspec

from pullcord.errors import InvalidId, InvalidText, Unstorable

TEXT_MAX_BYTES: Final = 1024 * 1024
VALUE_MAX_BYTES: Final = 16 * 1024 * 1024
VALUE_MAX_DEPTH: Final = 64

Json: TypeAlias = msgspec.Raw
"""A value as the JSON text it is stored as. `load` turns it back into Python values."""

NULL: Final = msgspec.Raw(b"null")

_ID: Final = re.compile(r"[0-9A-Za-z][0-9A-Za-z_-]{0,63}", re.ASCII)
_encode = msgspec.json.Encoder(order="deterministic").encode


def check_id(value: object, *, kind: str = "run") -> str:
    """Return `value` if it has the shape of an id.

    Raises:
        InvalidId: it has not. The message does not echo more than a line of it.
    """
    if isinstance(value, str) and _ID.fullmatch(value):
        return value
    raise InvalidId(value, kind=kind)


def check_text(value: object, *, field: str, empty: bool = True) -> str:
    """Return `value` if it is text that survives storage and display unchanged.

    Raises:
        InvalidText: not text, empty where it may not be, over 1 MiB, or holding NUL or half of a
            surrogate pair (which no UTF-8 file, socket or terminal can carry).
    """
    if not isinstance(value, str):
        raise InvalidText(field, why=f"it is {type(value).__name__}, not text")
    if not empty and not value.strip():
        raise InvalidText(field, why="it is empty")
    if (at := value.find("\0")) >= 0:
        raise InvalidText(field, why=f"it has a NUL character at position {at}")
    try:
        size = len(value.encode())
    except UnicodeEncodeError as error:
        raise InvalidText(
            field, why=f"it has half of a surrogate pair at position {error.start}"
        ) from None
    if size > TEXT_MAX_BYTES:
        raise InvalidText(field, why=f"it has {size:,} bytes, and {TEXT_MAX_BYTES:,} are allowed")
    return value


def check_line(value: object, *, field: str) -> str:
    """Return `value` if it is one line that reads as it is written: a name that others are shown.

    Raises:
        InvalidText: as `check_text`; or a character that is not shown, or moves others about.
    """
    text = check_text(value, field=field)
    for at, char in enumerate(text):
        if not char.isprintable():
            raise InvalidText(field, why=f"it has U+{ord(char):04X} at position {at}")
    return text


def dump(value: object) -> Json:
    """Return `value` as canonical JSON: sorted keys, no spaces, so equal values are equal bytes.

    Takes what JSON has, plus what msgspec turns into it without loss of meaning: dataclasses,
    structs, dates, UUIDs, tuples, sets; and anything with pydantic's `model_dump`. JSON that
    another library has written is taken as it is.

    Raises:
        Unstorable: NaN or infinity, a circular or too deep structure, a key that is not text, an
            integer over 64 bits, a type with no JSON form, or more than 16 MiB. Names the place.
    """
    try:
        if isinstance(value, msgspec.Raw):
            encoded = bytes(value)
        else:
            plain: object = msgspec.to_builtins(value, enc_hook=_model, order="deterministic")
            _inspect(plain, "$", 0)
            encoded = _encode(plain)
    except RecursionError:
        raise Unstorable("$", why="it is circular, or nested too deeply") from None
    except Unstorable:
        raise
    except Exception as error:  # also what the value's own code raises when it is asked
        raise Unstorable("$", why=f"{type(error).__name__}: {error}") from None
    if len(encoded) > VALUE_MAX_BYTES:
        raise Unstorable(
            "$", why=f"it has {len(encoded):,} bytes, and {VALUE_MAX_BYTES:,} are allowed"
        )
    return msgspec.Raw(encoded)


def load(value: Json) -> Any:
    """Return the Python value behind stored JSON."""
    return msgspec.json.decode(value)


def _model(value: object) -> object:
    if callable(to_plain := getattr(value, "model_dump", None)):
        return to_plain(mode="json")
    if isinstance(value, Mapping):
        return dict(cast("Mapping[Any, Any]", value))
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _inspect(value: object, path: str, depth: int) -> None:
    """Refuse what the encoder would bend silently: NaN becomes null, the key 1 becomes "1"."""
    if depth > VALUE_MAX_DEPTH:
        raise Unstorable(path[:80], why=f"it is nested more than {VALUE_MAX_DEPTH} deep")
    if isinstance(value, float) and not math.isfinite(value):
        raise Unstorable(path, why=f"{value} is not a JSON number")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        raise Unstorable(path, why="it is an integer of more than 64 bits")
    if isinstance(value, str):
        _inspect_text(value, path)
    elif isinstance(value, dict):
        for key, item in cast("dict[object, object]", value).items():
            if not isinstance(key, str):
                raise Unstorable(path, why=f"the key {key!r} is not text")
            _inspect_text(key, path)
            _inspect(item, f"{path}.{key}", depth + 1)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(cast("list[object]", value)):
            _inspect(item, f"{path}[{index}]", depth + 1)


def _inspect_text(value: str, path: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        raise Unstorable(
            path, why=f"text with half of a surrogate pair at position {error.start}"
        ) from None
