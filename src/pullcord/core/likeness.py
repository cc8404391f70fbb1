"""Results that are alike but for counters, times and ids.

An agent that goes round in a circle rarely gets the very same bytes twice: a revision number grows,
a timestamp moves, a request has a new id. `likeness` takes those out of a result, and keeps the
few plain numbers in it. `is_progress` says whether such numbers, round after round, tell of
progress: then the agent is waiting for something that moves, and is not lost.
"""

import re
from collections.abc import Sequence
from functools import cache
from itertools import pairwise
from typing import Final, NamedTuple

_LENGTH_MAX: Final = 10_000  # characters; anything longer is data
_NUMBERS_MAX: Final = 4  # a result with more numbers is data: a page of a list, a measurement
_LABELS_MAX: Final = 8  # the same of times and ids
_TOLERANCE: Final = 1e-9

_TOKENS: Final = r"""
    (?P<share> \d+(?:\.\d+)?\s*(?:%|percent\b)            # 40 %
             | \d+(?:\.\d+)?\s*(?:/|of|out\ of)\s*\d+ )    # 3 of 10
  | (?P<label> [0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}       # a UUID
             | \d{4}-\d\d-\d\d(?:[t\ ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:z|[+-]\d\d:?\d\d)?
             | \d\d:\d\d(?::\d\d(?:[.,]\d+)?)?                                    # 12:03:07
             | (?<![0-9a-z])(?=[a-f]*\d)(?=\d*[a-f])[0-9a-f]{7,}(?![0-9a-z])      # a hex id
             | \d{9,} )                                    # seconds since 1970, a row's number
  | (?P<number> -?\d+(?:\.\d+)?)
    """


@cache
def _tokens() -> re.Pattern[str]:
    """Made when it is first needed: a command that looks at no result does not pay for it."""
    return re.compile(_TOKENS, re.VERBOSE | re.IGNORECASE)


class Likeness(NamedTuple):
    """A result without its counters, times and ids; and the counters."""

    text: str
    numbers: tuple[float, ...]


def likeness(result: bytes | str) -> Likeness | None:
    """Return what a result is like. None: it is like no other, because its numbers are data.

    Shares (`40 %`, `3 of 10`) stay in the text: any change of one is news.
    """
    if len(result) > _LENGTH_MAX:
        return None
    numbers: list[float] = []
    labels = 0

    def blank(found: re.Match[str]) -> str:
        nonlocal labels
        if found["share"]:
            return found["share"]
        if found["label"]:
            labels += 1
            return "\0id"
        numbers.append(float(found["number"]))
        return "\0n"

    text = _tokens().sub(blank, result if isinstance(result, str) else result.decode())
    if len(numbers) > _NUMBERS_MAX or labels > _LABELS_MAX:
        return None
    return Likeness(text, tuple(numbers))


def is_progress(rounds: Sequence[tuple[float, ...]]) -> bool:
    """Whether one of the numbers of a result, over so many rounds, tells of progress.

    A number that only falls counts down to an end. One that only grows, and not by the same amount
    each time, is moved by something else than the agent's own calls. A number that grows evenly is
    a revision or a request that those calls count themselves; one that goes up and down is noise.
    """
    return any(_moves(values) for values in zip(*rounds, strict=True))


def _moves(values: Sequence[float]) -> bool:
    strides = [after - before for before, after in pairwise(values)]
    if not any(strides):
        return False
    if all(stride <= 0 for stride in strides):
        return True
    is_even = max(strides) - min(strides) <= _TOLERANCE * max(map(abs, values))
    return all(stride >= 0 for stride in strides) and not is_even
