"""Ctrl-C, counted: the first pauses, a second soon after cancels, one more leaves at once.

No file can bind it to anything else: at every keyboard it is the way out.
"""

from typing import Final, Literal, TypeAlias

from pullcord.core.states import RunState

TWICE_S: Final = 2.0
Meaning: TypeAlias = Literal["pause", "cancel", "warn", "leave"]


class CtrlC:
    def __init__(self) -> None:
        self._last_s = float("-inf")
        self._has_cancelled = False

    def press(self, state: RunState, now_s: float) -> Meaning:
        """What this press means, of a run in this state. The first one never destroys."""
        is_second = now_s - self._last_s <= TWICE_S
        self._last_s = now_s
        if state is RunState.CANCELLING:
            return "leave" if is_second or self._has_cancelled else "warn"
        return "cancel" if is_second else "pause"

    def cancelled(self) -> None:
        """The second press was carried out: one more leaves, however long it takes."""
        self._has_cancelled = True

    def let_go(self) -> None:
        """It was held down: the next press is a first one."""
        self._last_s = float("-inf")
