"""Decides how long to wait after a provider's error before the next attempt at a request."""

from collections.abc import Mapping
from typing import Final

from pullcord.runtime.doors.model_request import Wait
from pullcord.runtime.policy import Retry

_TRIES: Final = Retry(attempts=4, wait_s=0.5, wait_max_s=20.0)
_LONGEST_WAIT_S: Final = 60.0
_PASSING: Final = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})


def patience(
    failures: int,
    *,
    model: str,
    status: int | None = None,
    headers: Mapping[str, str] | None = None,
    asked_s: float = 0.0,
    passes: bool = False,
) -> Wait | None:
    """Return the wait after the n-th failure of a model request. None: give up.

    `status` and `headers` are those of the provider's answer. `asked_s` is a wait that it asked for
    in another way. `passes`: a temporary error without a status, such as a broken connection.
    Switch off the retries of the provider's own client. Then Pullcord does all the waiting, and
    every control can end a wait.
    """
    if status not in _PASSING and not passes:
        return None
    asked_s = _asked_in(headers or {}) or asked_s
    if asked_s > _LONGEST_WAIT_S:
        return Wait(pause=f"{model} asks to wait {asked_s:,.0f} s before the next try")
    if failures >= _TRIES.attempts:
        return None
    return Wait(seconds=max(asked_s, _TRIES.wait(failures)))


def _asked_in(headers: Mapping[str, str]) -> float:
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * unit
        except ValueError:
            continue
        if seconds == seconds and seconds >= 0:
            return seconds
    return 0.0  # a provider may name a date, which is ignored
