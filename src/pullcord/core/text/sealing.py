"""What is about to be written (an event, a command, a notice), with references for its secrets."""

from functools import cache
from typing import Any, Final, TypeVar, cast

import msgspec
from msgspec import inspect

from pullcord.core.text.secrets import Secrets
from pullcord.core.text.stream_sealer import Sealer

T = TypeVar("T", bound=msgspec.Struct)
ERROR_CHARS: Final = (
    4000  # what is kept of an error: see `runtime/steps/flight.py`, `warden/worker.py`
)
_encode: Final = msgspec.json.Encoder().encode
_FREE: Final = frozenset(
    (
        "by",
        "reason",
        "instruction",
        "error",
        "why",
        "text",
        "title",
        "before",
        "after",
        "told",
        "traceback",
    )
)
"""Fields in which anything may be said. Names and digests are not guessed at by their looks."""


def sealed(struct: T, secrets: Secrets, *, streamed: tuple[type, ...] = ()) -> T:
    """Return it sealed: itself, if there is nothing in it.

    What has been `streamed` was screened as it came: it is not changed a second time by its looks,
    only by what is registered, which changes nothing.
    """
    if not secrets:
        return struct
    error = getattr(struct, "error", "")
    if isinstance(error, str) and len(error) >= ERROR_CHARS and not error.endswith("…"):
        # It was cut off somewhere: what may be the first half of a secret goes with the second.
        whole = Sealer(secrets).feed(error)
        struct = msgspec.structs.replace(struct, error=f"{whole}…")
    try:
        encoded = _encode(struct)
    except (UnicodeError, TypeError, OverflowError, RecursionError):
        return struct  # it cannot be written either: whoever is asked to says why
    if not secrets.may_be_in(encoded):
        return struct
    looks = not isinstance(struct, streamed)
    changes = {
        name: after
        for name in _texts_of(type(struct))
        if (after := _sealed(getattr(struct, name), name, secrets, looks))
        is not getattr(struct, name)
    }
    return msgspec.structs.replace(struct, **changes) if changes else struct


def _sealed(value: Any, field: str, secrets: Secrets, looks: bool) -> Any:
    match value:
        case str():
            free = looks and field in _FREE
            said = secrets.screen(value) if free else secrets.seal(value)
            return value if said == value else said
        case msgspec.Raw():
            return secrets.seal_json(value, screen=True)
        case tuple():
            items = cast("tuple[Any, ...]", value)
            made = tuple(_sealed(item, field, secrets, looks) for item in items)
            return items if all(a is b for a, b in zip(items, made, strict=True)) else made
        case msgspec.Struct():
            return sealed(value, secrets)
        case _:
            return secrets.seal_value(value, screen=looks)


@cache
def _texts_of(kind: type[msgspec.Struct]) -> tuple[str, ...]:
    """The fields of a struct that hold something said, not one of a few words, nor a number."""
    found = inspect.type_info(kind)
    assert isinstance(found, inspect.StructType)
    return tuple(field.name for field in found.fields if _holds_text(field.type))


def _holds_text(kind: inspect.Type) -> bool:
    match kind:
        case inspect.StrType() | inspect.RawType() | inspect.StructType() | inspect.AnyType():
            return True
        case inspect.UnionType():
            return any(map(_holds_text, kind.types))
        case inspect.VarTupleType():
            return _holds_text(kind.item_type)
        case inspect.Metadata():  # with words about it
            return _holds_text(kind.type)
        case _:
            return False
