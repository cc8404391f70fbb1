"""What a key has been aimed at. Keeps a press from meaning something else than it was meant to.

The meaning of a key changes while the run goes on: "Pause" becomes "Cut now". A key whose meaning
has just changed takes no press for a moment. What cannot be taken back needs a second press, and
a call must have been on the screen for a second before it can be allowed.
"""

from collections.abc import Callable, Hashable
from typing import Final, NamedTuple

from pullcord.core.show.panel import Button, Panel
from pullcord.terminal.keymap import OF_VERB

CHANGED_S: Final = 0.4
ARMED_S: Final = 3.0
READ_S: Final = 1.0
REASONS: Final = ("wrong path", "too expensive", "changed my mind", "looks unsafe")


class Armed(NamedTuple):
    """A cancel that was asked for once, of one run, with what it would do."""

    run: str
    button: Button
    until_s: float
    reason: str = ""


class Aim:
    """The presses of one person at one screen."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._meaning: dict[str, tuple[Hashable, float]] = {}
        self._read: dict[str, float] = {}  # each call, and since when it is on the screen
        self._run = ""
        self._armed: Armed | None = None

    def note(self, panel: Panel) -> None:
        """Note what each key means now."""
        if panel.run != self._run:
            self._run, self._meaning = panel.run, {}
            self.let_go()
        for button in panel.buttons:
            if (place := OF_VERB.get(button.verb)) in ("pause", "cancel"):
                self._note(place, (button.verb, tuple(button.body)))
        self._note("redirect", panel.next and (panel.next.before, panel.next.after))
        if self._armed:
            self._armed = _still(self._armed, panel)

    def _note(self, place: str, meaning: Hashable) -> None:
        before = self._meaning.get(place)
        if before is None or before[0] != meaning:
            ready = self._now() + CHANGED_S if before else 0.0
            self._meaning[place] = (meaning, ready)

    def is_ready(self, action: str) -> bool:
        """Whether the meaning of its key has stood for long enough to be what was aimed at."""
        return self._now() >= self._meaning.get(action, ((), 0.0))[1]

    # --- cancel: two presses ---

    @property
    def armed(self) -> Armed | None:
        """The cancel that one more press carries out."""
        if self._armed and self._now() >= self._armed.until_s:
            self._armed = None
        return self._armed

    def arm(self, run: str, button: Button) -> None:
        self._armed = Armed(run, button, self._now() + ARMED_S)

    def choose(self, reason: str) -> None:
        """Say why. There is as much time again for the press that counts."""
        if self._armed:
            until_s = self._now() + ARMED_S
            self._armed = self._armed._replace(reason=reason, until_s=until_s)

    def let_go(self) -> None:
        self._armed = None

    # --- approve: read first ---

    def show(self, call: str) -> None:
        """This call is on the screen, and no other."""
        if call not in self._read:
            self._read = {call: self._now()}

    def has_read(self, call: str) -> bool:
        return call in self._read and self._now() - self._read[call] >= READ_S


def _still(armed: Armed, panel: Panel) -> Armed | None:
    """The same with what it would do by now. None: the press would mean something else."""
    for button in panel.buttons:
        if (button.verb, button.body) == (armed.button.verb, armed.button.body):
            return None if button.off else armed._replace(button=button)
    return None
