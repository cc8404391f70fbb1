"""Changing every text in a value, wherever it is, and nothing else."""

import dataclasses
from collections.abc import Callable, Iterable
from typing import Any, cast

import msgspec


def changed_texts(value: Any, change: Callable[[str], Any], number: Callable[[Any], Any]) -> Any:
    """The value with every text in it changed, keys too, and every number: itself, if none is.

    It looks into lists, tuples, sets, mappings, structs, dataclasses and pydantic's models.
    """

    def walk(item: Any) -> Any:
        match item:
            case str():
                said = change(item)
                return item if said == item else said
            case bool() | None:
                return item
            case int() | float():
                return number(item)
            case dict():
                pairs = cast("dict[Any, Any]", item)
                made = {walk(key): walk(inner) for key, inner in pairs.items()}
                return pairs if _is_same(pairs, made) else made
            case list() | tuple() | set() | frozenset():
                return _collected(item, walk)
            case msgspec.Struct():
                changes = _changes(item.__struct_fields__, item, walk)
                return msgspec.structs.replace(item, **changes) if changes else item
            case _ if dataclasses.is_dataclass(item) and not isinstance(item, type):
                names = [field.name for field in dataclasses.fields(item) if field.init]
                changes = _changes(names, item, walk)
                return dataclasses.replace(item, **changes) if changes else item
            case _ if callable(copy := getattr(item, "model_copy", None)):
                names = cast("Iterable[str]", getattr(item.__class__, "model_fields", ()))
                changes = _changes(names, item, walk)
                return copy(update=changes) if changes else item
            case _:
                return item

    return walk(value)


def _collected(item: Any, walk: Callable[[Any], Any]) -> Any:
    items: list[Any] = list(item)
    made = [walk(inner) for inner in items]
    if all(one is other for one, other in zip(items, made, strict=True)):
        return item
    kind = cast("Callable[..., Any]", item.__class__)
    return kind(*made) if hasattr(kind, "_fields") else kind(made)


def _changes(names: Iterable[str], item: Any, walk: Callable[[Any], Any]) -> dict[str, Any]:
    both = {name: (getattr(item, name), walk(getattr(item, name))) for name in names}
    return {name: after for name, (before, after) in both.items() if after is not before}


def _is_same(before: dict[Any, Any], after: dict[Any, Any]) -> bool:
    return len(before) == len(after) and all(
        one is other and before[one] is after[other]
        for one, other in zip(before, after, strict=True)
    )
