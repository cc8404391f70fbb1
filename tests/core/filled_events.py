"""Events with a word in each field that can hold one, and the fields that may be shown."""

from typing import Any, Final, Literal, get_args, get_origin

import msgspec

from pullcord.core.events import (
    Event,
    PlanItem,
)
from pullcord.core.values import dump

WORD: Final = "zzword"
SHOWN: Final = {
    # ids and names that are in the code, in the settings or made up by whoever asks
    "agent", "attempt", "back_to", "child", "code_version", "condition", "cwd", "defer", "digest",
    "forked_from", "item", "key", "leaves", "limits", "model", "name", "owner", "parent", "part",
    "place", "plan", "run_in", "scope", "step", "target", "thread", "tool", "trace", "where",
    "call", "approval", "guard", "family", "frozen", "state", "caps", "ladder_ms", "cause",
    "still_running",
    # who stopped it, why and by which way: what a stop is known by
    "by", "reason", "via",
}  # fmt: skip


SHOWN_OF: Final = {"QuestionWithdrawn.why"}  # a sentence of the library's own


def of_type(kind: Any) -> Any:
    """A value of this type, with the word in it wherever there is room for one."""
    if kind is str:
        return WORD
    if kind is msgspec.Raw:
        return dump({WORD: WORD})
    if kind is PlanItem:
        return PlanItem(WORD, WORD)
    if get_origin(kind) is tuple:
        return (of_type(get_args(kind)[0]),)
    if get_origin(kind) is dict:
        return {WORD: 1.0}
    if get_origin(kind) is Literal:
        return get_args(kind)[0]
    if of_many := [one for one in get_args(kind) if one in (str, msgspec.Raw)]:
        return of_type(of_many[0])
    return None


def full(kind: type[Event]) -> dict[str, Any]:
    """Its fields that can hold words, each with one."""
    fields = {one.name: of_type(one.type) for one in msgspec.structs.fields(kind)}
    return {name: value for name, value in fields.items() if value is not None}
