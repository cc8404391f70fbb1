"""When a run has to stop by itself: small conditions, joined by `&`, `|` and `~`.

A condition is a value: it is stored with its run, and asked again at each boundary, by whoever
drives the run. What it counts is what the run and everybody who works for it has used. A
condition that is about what happened (`Said`, `CalledTool`, `External`, `When`) has happened for
good: that it did is part of the run, not of the condition.
"""

from collections.abc import Callable, Iterator
from functools import cache
from math import inf
from typing import Annotated, Any, Final, TypeAlias, TypeGuard, Union, cast

import msgspec

from pullcord.errors import InvalidInput

Positive: TypeAlias = Annotated[float, msgspec.Meta(gt=0)]
Count: TypeAlias = Annotated[int, msgspec.Meta(ge=0)]
_MICROS: Final = 1_000_000
MOST: Final = 1e12
"""No limit, amount or moment is larger: what is counted with it still fits a record."""


class Used(msgspec.Struct, frozen=True, omit_defaults=True):
    """What a run, and everybody who works for it, has used up."""

    steps: int = 0
    tool_calls: int = 0
    tokens: int = 0
    usd_micros: int = 0
    working_ms: int = 0
    unpriced: int = 0  # calls whose price nobody knows; never counted as free

    def __add__(self, other: "Used") -> "Used":
        return Used(
            self.steps + other.steps,
            self.tool_calls + other.tool_calls,
            self.tokens + other.tokens,
            self.usd_micros + other.usd_micros,
            self.working_ms + other.working_ms,
            self.unpriced + other.unpriced,
        )


def is_whole(given: object, least: int = 1) -> TypeGuard[int]:
    """Whether it is a whole number, at least so large. True and False are none."""
    return isinstance(given, int) and not isinstance(given, bool) and given >= least


def is_amount(given: object) -> TypeGuard[float]:
    """Whether it is a number that is not negative, infinite or none at all."""
    return isinstance(given, int | float) and not isinstance(given, bool) and 0 <= given < inf


class Facts(msgspec.Struct, frozen=True):
    """What a condition is asked about: one run, at one boundary."""

    used: Used
    now_ms: int = 0  # by the steady clock
    met: frozenset[str] = frozenset()  # conditions about what happened, that did
    open_tools: int = 0


class _Condition(msgspec.Struct, frozen=True, tag_field="is"):
    def __or__(self, other: "Condition | Callable[..., Any]") -> "AnyOf":
        return AnyOf((*_flat(self, AnyOf), *_flat(as_condition(other), AnyOf)))

    def __ror__(self, other: Callable[..., Any]) -> "AnyOf":
        return AnyOf((as_condition(other), *_flat(self, AnyOf)))

    def __and__(self, other: "Condition | Callable[..., Any]") -> "AllOf":
        return AllOf((*_flat(self, AllOf), *_flat(as_condition(other), AllOf)))

    def __rand__(self, other: Callable[..., Any]) -> "AllOf":
        return AllOf((as_condition(other), *_flat(self, AllOf)))

    def __invert__(self) -> "Not":
        return Not(self)  # pyright: ignore[reportArgumentType]

    def __bool__(self) -> bool:
        raise InvalidInput("Conditions are joined by &, | and ~, not by and, or and not.")

    def holds(self, facts: Facts) -> bool:
        raise NotImplementedError

    def true_leaves(self, facts: Facts) -> Iterator[str]:
        """The names of the leaves that are true, in the order in which they were written."""
        if self.holds(facts):
            yield str(self)


class _Cap(_Condition, frozen=True):
    """Something that is used up. It can be raised while the run goes on."""

    def __post_init__(self) -> None:
        """Refuse, where it is written, what is no number. How large it may be is asked when it is
        used: what an older build has stored stays readable."""
        found: object = self.cap
        is_count = isinstance(self, _CountCap)
        if not (is_whole(found, 0) if is_count else is_amount(found) and found > 0):
            kind = "a whole number" if is_count else "a number above 0"
            name = type(self).__name__
            example = "Spent(usd=2)" if isinstance(self, Spent) else f"{name}(40)"
            raise InvalidInput(
                f"{name} cannot be {found!r}: it is {kind}. Nothing was changed. Write: {example}"
            )

    def used(self, used: Used) -> float:
        raise NotImplementedError

    @property
    def cap(self) -> float:
        raise NotImplementedError

    def holds(self, facts: Facts) -> bool:
        return self.used(facts.used) >= self.cap


class _CountCap(_Cap, frozen=True):
    n: Count

    def __str__(self) -> str:
        return f"{type(self).__name__}({self.n})"

    @property
    def cap(self) -> float:
        return self.n


class MaxSteps(_CountCap, frozen=True, tag="max_steps"):
    """So many steps, requests to a model and calls of tools, each attempt counted."""

    def used(self, used: Used) -> float:
        return used.steps


class MaxToolCalls(_CountCap, frozen=True, tag="max_tool_calls"):
    """So many calls of tools."""

    def used(self, used: Used) -> float:
        return used.tool_calls


class Tokens(_CountCap, frozen=True, tag="tokens"):
    """So many tokens, read and written."""

    def used(self, used: Used) -> float:
        return used.tokens


class Price(msgspec.Struct, frozen=True):
    """What a model costs that no list knows: US dollars for a million tokens."""

    per_million_in: Annotated[float, msgspec.Meta(ge=0)]
    per_million_out: Annotated[float, msgspec.Meta(ge=0)]

    def micros(self, tokens_in: int, tokens_out: int) -> int:
        return -round(-(tokens_in * self.per_million_in + tokens_out * self.per_million_out))


class Spent(_Cap, frozen=True, kw_only=True, tag="spent"):
    """So much money. A call whose price nobody knows counts as the end of it: what is not known
    cannot be kept. `lenient`: it does not, and only what is known is counted."""

    usd: Positive
    price: Price | None = None
    lenient: bool = False

    def __str__(self) -> str:
        return f"Spent(usd={self.usd:g})"

    def used(self, used: Used) -> float:
        return used.usd_micros / _MICROS

    @property
    def cap(self) -> float:
        return self.usd

    def holds(self, facts: Facts) -> bool:
        is_unknown = facts.used.unpriced > 0 and not self.lenient
        micros = round(min(self.usd, MOST) * _MICROS)
        return is_unknown or facts.used.usd_micros >= micros


class WorkingTime(_Cap, frozen=True, tag="working_time"):
    """So many seconds of work. Pauses, waits and the time without a process are not work."""

    seconds: Positive

    def __str__(self) -> str:
        return f"WorkingTime({self.seconds:g})"

    def used(self, used: Used) -> float:
        return used.working_ms / 1000

    @property
    def cap(self) -> float:
        return self.seconds


class Deadline(_Condition, frozen=True, kw_only=True, tag="deadline"):
    """A moment: `in_s` seconds from the start, or `at_ms` on the wall clock (milliseconds since
    1970). Setting the machine's clock later does not move it."""

    in_s: Positive | None = None
    at_ms: int | None = None
    due_ms: int = 0  # on the steady clock; set when the run starts

    def __str__(self) -> str:
        return f"Deadline(in_s={self.in_s:g})" if self.in_s else f"Deadline(at_ms={self.at_ms})"

    def holds(self, facts: Facts) -> bool:
        return 0 < self.due_ms <= facts.now_ms


class _Happening(_Condition, frozen=True):
    def __str__(self) -> str:
        [name] = msgspec.structs.astuple(self)
        return f"{type(self).__name__}({name!r})"

    def holds(self, facts: Facts) -> bool:
        return str(self) in facts.met


class Said(_Happening, frozen=True, tag="said"):
    """The agent has said this, in a text of its own that has ended."""

    text: Annotated[str, msgspec.Meta(min_length=1)]


class CalledTool(_Happening, frozen=True, tag="called_tool"):
    """A call of this tool has been carried out."""

    name: str


class External(_Happening, frozen=True, tag="external"):
    """Somebody outside has said so: `run.signal(name)`, `pullcord signal RUN NAME`."""

    name: str


class When(_Happening, frozen=True, tag="when"):
    """A function of your own, asked before each step with the run as it is. It is known by where
    it stands (`module:name`), so that it is found again in a later life."""

    where: str

    def __str__(self) -> str:
        return f"When({self.where.partition(':')[2] or self.where})"


class NoOpenTools(_Condition, frozen=True, tag="no_open_tools"):
    """No call of a tool is under way."""

    def __str__(self) -> str:
        return "NoOpenTools()"

    def holds(self, facts: Facts) -> bool:
        return facts.open_tools == 0


class Never(_Condition, frozen=True, tag="never"):
    """A limit that is none: for a run that is to have no other."""

    def __str__(self) -> str:
        return "Never()"

    def holds(self, facts: Facts) -> bool:
        return False


class AllOf(_Condition, frozen=True, tag="all_of"):
    """Both: `a & b`."""

    of: tuple["Condition", ...]

    def __str__(self) -> str:
        return " & ".join(f"({c})" if isinstance(c, AnyOf) else str(c) for c in self.of)

    def holds(self, facts: Facts) -> bool:
        return all(condition.holds(facts) for condition in self.of)

    def true_leaves(self, facts: Facts) -> Iterator[str]:
        """Its true leaves if it holds: if it does not, none of them has decided anything."""
        for condition in self.of if self.holds(facts) else ():
            yield from condition.true_leaves(facts)


class AnyOf(_Condition, frozen=True, tag="any_of"):
    """One or the other: `a | b`."""

    of: tuple["Condition", ...]

    def __str__(self) -> str:
        return " | ".join(map(str, self.of))

    def holds(self, facts: Facts) -> bool:
        return any(condition.holds(facts) for condition in self.of)

    def true_leaves(self, facts: Facts) -> Iterator[str]:
        for condition in self.of:
            yield from condition.true_leaves(facts)


class Not(_Condition, frozen=True, tag="not"):
    """The opposite: `~a`."""

    of: "Condition"

    def __str__(self) -> str:
        return f"~({self.of})" if isinstance(self.of, AllOf | AnyOf) else f"~{self.of}"

    def holds(self, facts: Facts) -> bool:
        return not self.of.holds(facts)


Condition: TypeAlias = Union[  # noqa: UP007 (the names of the joined ones are not there yet)
    MaxSteps, MaxToolCalls, Tokens, Spent, WorkingTime, Deadline, Said, CalledTool, External,
    When, NoOpenTools, Never, AllOf, AnyOf, Not,
]  # fmt: skip


def fired(condition: Condition, facts: Facts) -> tuple[str, ...]:
    """The leaves that are true, in the order in which they were written, if the whole is true."""
    if not condition.holds(facts):
        return ()
    return tuple(dict.fromkeys(condition.true_leaves(facts)))


def leaves(condition: Condition) -> Iterator[Condition]:
    """The conditions that are not joined of others."""
    match condition:
        case AllOf(of) | AnyOf(of):
            for one in of:
                yield from leaves(one)
        case Not(of):
            yield from leaves(of)
        case _:
            yield condition


@cache
def kinds_of(condition: Condition) -> frozenset[type]:
    """Of which kinds its leaves are."""
    return frozenset(map(type, leaves(condition)))


def changed(condition: Condition, change: Callable[[Condition], Condition]) -> Condition:
    """The same condition, with each of its leaves changed."""
    match condition:
        case AllOf(of):
            return AllOf(tuple(changed(one, change) for one in of))
        case AnyOf(of):
            return AnyOf(tuple(changed(one, change) for one in of))
        case Not(of):
            return Not(changed(of, change))
        case _:
            return change(condition)


def as_condition(given: "Condition | Callable[..., Any]") -> Condition:
    """A condition, or the one that a function of somebody's own is."""
    if isinstance(given, _Condition):
        return cast("Condition", given)
    module, name = getattr(given, "__module__", ""), getattr(given, "__qualname__", "")
    if not callable(given) or not module or not name.isidentifier():
        raise InvalidInput(
            f"{given!r} cannot be a limit: a limit is a condition, or a function at the top of a "
            "module, where a later process finds it again. Nothing was changed."
        )
    return When(f"{module}:{name}")


def _flat(condition: Any, kind: type[AllOf] | type[AnyOf]) -> tuple[Condition, ...]:
    return condition.of if isinstance(condition, kind) else (condition,)
