"""Which key does what in a terminal: one table, for the bar of a run and for all runs on a screen.

A person may bind every action here to another key. What cannot be bound is what closes, sends,
moves about or stops, so that it means the same at every keyboard.
"""

from collections.abc import Mapping
from typing import Final

from pullcord.core.text.visible import visible
from pullcord.errors import InvalidInput

DEFAULTS: Final[Mapping[str, str]] = {
    # to the run
    "pause": "p",  # and resume
    "redirect": "r",
    "cancel": "c",
    "raise": "+",
    "review": "a",
    "approve": "y",
    "deny": "n",
    "edit": "e",
    # to the screen
    "read_on": "space",
    "help": "?",
    "leave": "q",
    "up": "k",
    "down": "j",
    "filter": "/",
    "living": "l",
    "theme": "t",
    "previous_card": ",",
    "next_card": ".",
}
OF_VERB: Final[Mapping[str, str]] = {
    "pause": "pause",
    "resume": "pause",
    "redirect": "redirect",
    "cancel": "cancel",
    "review": "review",
    "raise": "raise",
}
"""The action that presses each button of a panel."""

_FUNCTION: Final = tuple(f"f{number}" for number in range(1, 13))
_FIXED: Final = {
    "ctrl-c": "it pauses, twice it cancels",
    "ctrl+c": "it pauses, twice it cancels",
    "esc": "it closes what is open",
    "escape": "it closes what is open",
    "enter": "it sends what was written",
}


class Keymap:
    """The key of each action. `bound`: those that are not as they come."""

    def __init__(self, bound: Mapping[str, str] | None = None) -> None:
        self._keys = {**DEFAULTS, **(bound or {})}
        self._actions = {key: action for action, key in self._keys.items()}

    def __getitem__(self, action: str) -> str:
        """The key as it is written on a screen: p, +, Space, F5."""
        return key_shown(self._keys[action])

    def action(self, pressed: str) -> str:
        """What a key does; nothing: it has no meaning."""
        return self._actions.get("space" if pressed == " " else pressed, "")

    def words(self) -> dict[str, str]:
        """Every action with its key as it is written, to put into a sentence."""
        return {action: self[action] for action in self._keys}


def key_shown(key: str) -> str:
    return key if len(key) == 1 else key.capitalize()


def check_key(action: str, key: object) -> str:
    """Return the key, if it can be one for this action.

    Raises:
        InvalidInput: there is no such action, or that key cannot be bound.
    """
    if action not in DEFAULTS:
        raise InvalidInput(f"there is no keys.{action[:40]}; there are {', '.join(DEFAULTS)}")
    if not isinstance(key, str) or not key:
        raise InvalidInput(f"keys.{action} is a key in quotes, such as {DEFAULTS[action]!r}")
    if why := _FIXED.get(key.lower()):
        raise InvalidInput(f"{key[:20]!r} cannot be bound: {why}, always")
    if key.isdigit():
        raise InvalidInput(f"{key[:20]!r} cannot be bound: numbers turn to the views, always")
    is_char = len(key) == 1 and key.isprintable() and not key.isspace() and visible(key) == key
    if not is_char and key not in ("space", *_FUNCTION):
        raise InvalidInput(
            f"keys.{action} is one character, space, or f1 to f12, not {visible(key)[:20]!r}"
        )
    return key


def clash(
    mine: Mapping[str, str], said: Mapping[str, str], *, is_mine: bool
) -> tuple[str, str] | None:
    """The first action of those that were `said`, over `mine`, whose key has another meaning, and
    why that cannot be.

    `is_mine` False: somebody else has said so. Then no key that has a meaning gets another: who
    presses p without looking must not find that it approves in this folder.
    """
    before, after = {**DEFAULTS, **mine}, {**DEFAULTS, **mine, **said}
    for action, key in said.items():
        tables = (after,) if is_mine else (after, before)
        others = [other for table in tables for other in table if table[other] == key]
        if other := next((other for other in others if other != action), ""):
            return action, _why(action, key, other, is_mine=is_mine)
    return None


def _why(action: str, key: str, other: str, *, is_mine: bool) -> str:
    if is_mine:
        return f"{key_shown(key)} cannot be both {action} and {other}. Give one of them another key"
    return (
        f"{key_shown(key)} is {other}, and a file that comes with a folder gives no key "
        "that you know "
        f"another meaning. Bind {action} to one that means nothing yet, or do it in your own file"
    )
