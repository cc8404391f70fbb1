"""What a run has done lately, short enough to be kept with it; and how much is too much of it.

Calls and what came of them, plans, and money; as fingerprints, because a `Run` holds no payloads.
What it looks like when a run has lost its way is in `runaway`.
"""

from collections.abc import Iterable
from hashlib import sha256
from typing import Final

import msgspec

from pullcord.core.likeness import likeness
from pullcord.core.values import Json, dump
from pullcord.errors import InvalidInput

KEPT: Final = 64
PERIODS: Final = (2, 3, 4)  # how many calls may be in a circle that is seen as one
WINDOW_S: Final = 60
_MARK_CHARS: Final = 12


class Runaway(msgspec.Struct, frozen=True, kw_only=True):
    """When a run is paused because it seems to have lost its way. 0 switches a guard off.

    `same_call`: it made the same call so often in a row, with the same result each time, and is
    about to make it again. `cycles`: it went so often round a circle of two to four calls, or
    plans, in the same way; twice as often, if the results differ in counters, times and ids, and
    none of the counters tells of progress. `no_news`: so many calls repeated what was known, since
    anything new came of one. `usd_per_minute`: what three calls or more may cost within one minute
    of its working time; calls whose price nobody knows cannot be counted.

    `may_repeat` names tools that are there to be called again and again (is it done yet? scroll
    down): their calls count for nothing.
    """

    same_call: int = 5
    cycles: int = 4
    no_news: int = 12
    usd_per_minute: float = 5.0
    may_repeat: tuple[str, ...] = ()

    @classmethod
    def off(cls) -> "Runaway":
        """Nothing is guarded against."""
        return cls(same_call=0, cycles=0, no_news=0, usd_per_minute=0.0)


_HIGHEST: Final = {"same_call": KEPT, "cycles": KEPT // max(PERIODS), "no_news": KEPT - 16}


def check_runaway(given: Runaway) -> Runaway:
    """Return `given` if it can be kept to.

    Raises:
        InvalidInput: names the threshold and what it may be.
    """
    try:
        found = msgspec.convert(msgspec.structs.asdict(given), Runaway)
    except (msgspec.ValidationError, TypeError) as error:
        raise InvalidInput(f"{given!r} is not a Runaway: {error}. Nothing was started.") from None
    for name, highest in _HIGHEST.items():
        if not 0 <= getattr(found, name) <= highest:
            raise _cannot_be(found, name, f"it may be 0 (off) to {highest}")
    if found.cycles == 1:
        raise _cannot_be(found, "cycles", "a circle that was not gone round twice is none")
    if not 0 <= found.usd_per_minute < 1e9:
        raise _cannot_be(found, "usd_per_minute", "it may be 0 (off) or an amount in US dollars")
    return found


def _cannot_be(given: Runaway, name: str, why: str) -> InvalidInput:
    found = getattr(given, name)
    return InvalidInput(f"Runaway cannot have {name}={found!r}: {why}. Nothing was started.")


def mark(*parts: bytes | str) -> str:
    """A short fingerprint: equal for equal parts, and hardly ever else."""
    digest = sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        digest.update(len(data).to_bytes(8, "big"))
        digest.update(data)
    return digest.hexdigest()[:_MARK_CHARS]


def call_mark(tool: str, args: Json) -> str:
    """The fingerprint of a call: the tool, and its arguments as canonical JSON."""
    return mark(tool, bytes(args))


def plan_mark(titles: Iterable[str]) -> str:
    """The fingerprint of a plan: what it says is to be done."""
    return mark(bytes(dump(list(titles))))


class Made(msgspec.Struct, frozen=True, array_like=True):
    """A call that was made. While nobody knows what came of it, it is like no other; without a
    step it is none at all: something came from outside."""

    step: str = ""
    tool: str = ""
    call: str = ""
    came: str = ""
    like: str = ""  # what came of it, but for counters, times and ids; empty: it is like no other
    numbers: tuple[float, ...] = ()  # the counters

    @property
    def known(self) -> tuple[str, str] | None:
        return (self.call, self.came) if self.came else None

    @property
    def alike(self) -> tuple[str, str] | None:
        return (self.call, self.like or self.came) if self.came else None


class Paid(msgspec.Struct, frozen=True, array_like=True):
    """What was spent in one second of working time, and in how many calls."""

    second: int
    usd_micros: int
    calls: int = 1


class Trail(msgspec.Struct, frozen=True, omit_defaults=True):
    """What was done lately, oldest first, bounded. Begun anew whenever a person has looked."""

    calls: tuple[Made, ...] = ()
    plans: tuple[str, ...] = ()  # given up one for the other, and nothing new in between
    spent: tuple[Paid, ...] = ()  # in the last minute of working time
    is_chosen: bool = False  # a model chooses what is called

    def anew(self) -> "Trail":
        """Somebody has looked, or said something new: what was before counts no more."""
        return Trail(is_chosen=self.is_chosen)

    def called(self, step: str, tool: str, args: Json, *, again: bool = False) -> "Trail":
        """A call has begun. One that is tried again is still one call."""
        others = self.calls
        if again:
            others = tuple(made for made in others if made.step != step)
        made = Made(step, tool, call_mark(tool, args))
        return msgspec.structs.replace(self, calls=(*others, made)[-KEPT:])

    def came(self, step: str, how: str, said: bytes | str) -> "Trail":
        """What came of a call. If that is new, plans that were given up before it are forgotten."""
        for at in range(len(self.calls) - 1, -1, -1):
            if self.calls[at].step == step:
                break
        else:
            return self  # it began long ago
        like = likeness(said)
        made = msgspec.structs.replace(
            self.calls[at],
            came=mark(how, said),
            like=mark(how, like.text) if like else "",
            numbers=like.numbers if like else (),
        )
        is_new = self.plans and all(other.known != made.known for other in self.calls)
        return msgspec.structs.replace(
            self,
            calls=(*self.calls[:at], made, *self.calls[at + 1 :]),
            plans=() if is_new else self.plans,
        )

    def news(self) -> "Trail":
        """Something came from outside: an answer, the end of a wait or of a child."""
        calls = self.calls
        if calls and calls[-1].step:
            calls = (*calls, Made())[-KEPT:]
        return msgspec.structs.replace(self, calls=calls, plans=())

    def planned(self, titles: Iterable[str]) -> "Trail":
        return msgspec.structs.replace(self, plans=(*self.plans, plan_mark(titles))[-KEPT:])

    def worked(self) -> "Trail":
        """Something of a plan was carried out."""
        return msgspec.structs.replace(self, plans=()) if self.plans else self

    def chosen(self) -> "Trail":
        return self if self.is_chosen else msgspec.structs.replace(self, is_chosen=True)

    def paid(self, at_ms: int, usd_micros: int) -> "Trail":
        """Money was spent. What was spent in the same second is one, so that a minute is short."""
        second = at_ms // 1000
        recent = [paid for paid in self.spent if paid.second > second - WINDOW_S]
        paid = Paid(second, usd_micros)
        if recent and recent[-1].second == second:
            last = recent.pop()
            paid = Paid(second, last.usd_micros + usd_micros, last.calls + 1)
        return msgspec.structs.replace(self, spent=(*recent, paid))
