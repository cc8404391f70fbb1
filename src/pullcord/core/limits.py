"""What a run may use up, how it ends when that is used up, and how far it is."""

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Final, Literal, TypeAlias, get_args

import msgspec

from pullcord.core.conditions import (
    MOST,
    AnyOf,
    Condition,
    Deadline,
    MaxSteps,
    MaxToolCalls,
    Price,
    Spent,
    Tokens,
    Used,
    WorkingTime,
    changed,
    is_amount,
    leaves,
)
from pullcord.errors import InvalidInput

Then: TypeAlias = Literal["stop", "wrap_up", "pause_and_ask"]


class Reserve(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a call that has begun may still cost. Settled when it ends."""

    tokens: int = 0
    usd_micros: int = 0


class Limits(msgspec.Struct, frozen=True, omit_defaults=True):
    """When a run stops by itself, and how: it ends (`stop`), ends with one last answer without
    tools (`wrap_up`), or waits for somebody to say how it goes on (`pause_and_ask`)."""

    condition: Condition
    then: Then = "pause_and_ask"


class Reached(msgspec.Struct, frozen=True, omit_defaults=True):
    """A limit that was reached: the leaves that were true, and what follows."""

    leaves: tuple[str, ...]
    then: Then
    step: str = ""  # the one last call, once it has begun
    says: str = ""
    asked_at_ms: int = 0
    effect_at_ms: int = 0


def price_in(limits: Limits | None) -> Price | None:
    """What somebody has said that a model costs, to have it limited by that."""
    mine = leaves(limits.condition) if limits else ()
    return next((leaf.price for leaf in mine if isinstance(leaf, Spent) and leaf.price), None)


DEFAULT_OF_MODELS: Final = Limits(MaxSteps(100) | Spent(usd=2, lenient=True))
"""For an agent that a language model drives: what it does next is nobody's code."""
DEFAULT: Final = Limits(MaxSteps(1000))


CAPS: Final[Mapping[str, type[Condition]]] = {
    # what people call each of the caps that can be raised
    "steps": MaxSteps,
    "tool_calls": MaxToolCalls,
    "tokens": Tokens,
    "usd": Spent,
    "working_s": WorkingTime,
}
_AS_IN: Final = f"it looks like steps=80; there are {', '.join(CAPS)}"
_UNITS: Final = {MaxSteps: "steps", MaxToolCalls: "tool calls", Tokens: "tokens"}


def raised(condition: Condition, caps: Mapping[str, float]) -> Condition:
    """The same condition with these caps instead of its own."""

    def change(leaf: Condition) -> Condition:
        for name, value in caps.items():
            if type(leaf) is CAPS.get(name):
                match leaf:
                    case Spent():
                        return msgspec.structs.replace(leaf, usd=value)
                    case WorkingTime():
                        return WorkingTime(value)
                    case MaxSteps() | MaxToolCalls() | Tokens():
                        return msgspec.structs.replace(leaf, n=int(value))
                    case _:
                        pass
        return leaf

    return changed(condition, change)


def inherited(budgets: Sequence[tuple[Limits, Used]]) -> tuple[Limits, Used]:
    """What a run may use that goes on from one bound by all of these, the nearest first: as much as
    each of them has left. It counts on from what the last one has used, and each cap with it."""
    (nearest, _), (_, used) = budgets[0], budgets[-1]
    if len(budgets) == 1:
        return nearest, used
    moved = [_moved(limits.condition, theirs, used) for limits, theirs in budgets]
    condition = moved[0]
    for further in moved[1:]:
        condition = condition | further
    return Limits(condition, nearest.then), used


def _moved(condition: Condition, used: Used, to: Used) -> Condition:
    """The same condition for who has used `to` instead of `used`: with as much left."""

    def move(leaf: Condition) -> Condition:
        if not isinstance(leaf, MaxSteps | MaxToolCalls | Tokens | Spent | WorkingTime):
            return leaf
        name = next(name for name, kind in CAPS.items() if type(leaf) is kind)
        return raised(leaf, {name: leaf.cap + leaf.used(to) - leaf.used(used)})

    return changed(condition, move)


def check_condition(condition: Condition) -> Condition:
    """Return it if it means something and can be stored.

    Raises:
        InvalidInput: says what is wrong with it.
    """
    try:
        msgspec.json.decode(msgspec.json.encode(condition), type=Condition)
    except (msgspec.ValidationError, TypeError, OverflowError, RecursionError) as error:
        raise InvalidInput(f"This cannot be a limit: {error}. Nothing was started.") from None
    for leaf in leaves(condition):
        if any(abs(n) > _most(leaf) for n in _numbers(leaf)):
            raise InvalidInput(
                f"{leaf} cannot be a limit: no number in one is larger than {_most(leaf):g}. "
                "Nothing was started."
            )
        if isinstance(leaf, Deadline) and (leaf.in_s is None) == (leaf.at_ms is None):
            raise InvalidInput("A Deadline has either in_s or at_ms. Nothing was started.")
    return condition


def check_then(then: Then) -> Then:
    """Return it if it is one of the three.

    Raises:
        InvalidInput: it is not.
    """
    if then not in get_args(Then):
        raise InvalidInput(
            f"on_exhausted cannot be {then!r}: it is stop, wrap_up or pause_and_ask. "
            "Nothing was started."
        )
    return then


def caps_in(leaves: Sequence[str]) -> list[str]:
    """Of leaves that were true, those that can be raised, by what people call them."""
    kinds = {leaf.partition("(")[0] for leaf in leaves}
    return [name for name, kind in CAPS.items() if kind.__name__ in kinds]


def parsed(words: Sequence[str]) -> dict[str, float]:
    """Caps as people write them: `steps=80`, `usd=2.5`.

    Raises:
        InvalidInput: one is none.
    """
    caps: dict[str, float] = {}
    for word in words:
        name, _, value = word.partition("=")
        try:
            caps[name.replace("-", "_")] = float(value)
        except ValueError:
            raise InvalidInput(f"{word!r} is not a limit: {_AS_IN}. Nothing was changed.") from None
    if unknown := [name for name in caps if name not in CAPS]:
        raise InvalidInput(f"{unknown[0]!r} is not a limit: {_AS_IN}. Nothing was changed.")
    return check_counts(caps)


def _most(leaf: Condition) -> float:
    """How large a number in it may be: a moment is milliseconds since 1970."""
    return MOST * 1000 if isinstance(leaf, Deadline) else MOST


def _numbers(leaf: Condition) -> list[float]:
    price = leaf.price if isinstance(leaf, Spent) else None
    values: list[object] = [*msgspec.structs.astuple(leaf)]
    values += msgspec.structs.astuple(price) if price else ()
    return [n for n in values if isinstance(n, int | float)]


def check_counts(caps: Mapping[str, float]) -> dict[str, float]:
    """Return these caps if each is a number that can be kept to, and a whole one where it counts.

    Raises:
        InvalidInput: one is not.
    """
    for name, value in caps.items():
        is_known = CAPS.get(name) in _UNITS and isinstance(value, float) and not isfinite(value)
        if not is_known and (not is_amount(value) or value > MOST):
            raise InvalidInput(
                f"{name}={value!r} is not a limit: it is a number from 0 to {MOST:g}. "
                "Nothing was changed."
            )
        if CAPS.get(name) in _UNITS and not float(value).is_integer():
            raise InvalidInput(
                f"{name}={value:g} is not a limit: {name.replace('_', ' ')} are counted in whole "
                "numbers. Nothing was changed."
            )
    return dict(caps)


def caps_as_condition(caps: Mapping[str, float]) -> Condition | None:
    """These caps, any of which ends a run."""
    start: dict[str, Condition] = {
        "steps": MaxSteps(0),
        "tool_calls": MaxToolCalls(0),
        "tokens": Tokens(0),
        "usd": Spent(usd=1),
        "working_s": WorkingTime(1),
    }
    found = tuple(raised(start[name], {name: value}) for name, value in caps.items())
    return AnyOf(found) if len(found) > 1 else (found[0] if found else None)


def progress(condition: Condition, used: Used) -> list[str]:
    """How far each cap is used up, in words: `7 of 40 steps`, `$0.31 of $2.00`."""
    told: list[str] = []
    for leaf in leaves(condition):
        match leaf:
            case MaxSteps() | MaxToolCalls() | Tokens():
                told.append(f"{leaf.used(used):,.0f} of {leaf.n:,} {_UNITS[type(leaf)]}")
            case Spent():
                more = " and calls of unknown price" if used.unpriced else ""
                told.append(f"${leaf.used(used):.2f} of ${leaf.usd:.2f}{more}")
            case WorkingTime():
                told.append(f"{leaf.used(used):,.0f} of {leaf.seconds:,.0f} s of work")
            case _:
                pass
    return told
