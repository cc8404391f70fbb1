"""A key that is held down comes again and again, and is one press all the same.

Keyboards wait (a quarter to half a second) and then repeat it every 30 to 90 ms; nobody presses a
key twice as fast as that. So what comes again at once is no press; and a press that counts because
it is the second one counts only when nothing has come again at once.
"""

from typing import Final

HELD_S: Final = 0.095


class KeyRepeat:
    """The last press at one keyboard."""

    def __init__(self) -> None:
        self._key, self._last_s = "", float("-inf")

    def comes_again(self, key: str, now_s: float) -> bool:
        """Note the press. True: it is none, the key is held down."""
        is_held = key == self._key and now_s - self._last_s < HELD_S
        self._key, self._last_s = key, now_s
        return is_held
