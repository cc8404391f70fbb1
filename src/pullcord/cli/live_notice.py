"""A sentence that stands in the bar for a moment."""

from collections.abc import Callable
from typing import Final

_STANDS_S: Final = 4.0


class Notice:
    """`clock` is in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._text, self._until_s = "", 0.0

    def say(self, text: str) -> None:
        self._text, self._until_s = text, self._clock() + _STANDS_S

    @property
    def text(self) -> str:
        return self._text if self.left_s > 0 else ""

    @property
    def left_s(self) -> float:
        """How long it still stands."""
        return max(self._until_s - self._clock(), 0.0) if self._text else 0.0
