"""A call that waits for somebody's word, as a card: the true call, then what is said of it."""

from collections.abc import Iterator
from typing import Final

from pullcord.cli.live.key_reader import Key
from pullcord.cli.render.run_text import call_lines, coloured, line
from pullcord.cli.render.text_width import LEAST_COLUMNS, apart, clip, folded
from pullcord.core.show.words import declared
from pullcord.journal.views.inbox import Card
from pullcord.terminal.keymap import Keymap

ARMED_AFTER_S: Final = 1.0
_LEAST_ROWS: Final = 2  # one of the call, and the keys
_MOVES: Final = {"up": -1, "down": 1}
_PAGES: Final = {"page-up": -1, "page-down": 1}


class CardOnScreen:
    """One card on the screen. A word counts only when every row of it was there to be read, and the
    last of them for a second: nobody allows what stands beyond an edge, or what has just taken
    another's place."""

    def __init__(self, card: Card, now_s: float, bound: Keymap) -> None:
        self.card = card
        self._bound = bound
        self._since_s = now_s
        self._top = 0
        self._lines: tuple[int, list[str]] = (0, [])
        self._unseen = {0}  # the rows that have not been drawn yet; nothing has
        self._most = 0
        self._room = 0  # for rows of it; 0: it cannot be shown

    def is_of(self, card: Card) -> bool:
        return (self.card.run, self.card.question, self.card.call) == (
            card.run,
            card.question,
            card.call,
        )

    def waits_s(self, now_s: float) -> float:
        """How long until a word counts."""
        return max(self._since_s + ARMED_AFTER_S - now_s, 0.0)

    def press(self, key: Key, now_s: float) -> str:
        """Move about in it, or return what was decided: approve, deny, edit. What nobody can have
        read yet is not decided."""
        action = self._bound.action(key.pressed)
        if action == "read_on":  # over nothing that was not there to be read
            self._top = min([self._top + self._room, *self._unseen])
        by = _MOVES.get(key.name, 0) + _PAGES.get(key.name, 0) * self._room
        self._top = min(max(self._top + by, 0), self._most)
        is_read = self._room > 0 and not self._unseen and not self.waits_s(now_s)
        return action if is_read and action in ("approve", "deny", "edit") else ""

    def page(self, columns: int, height: int, now_s: float) -> list[str]:
        """As much of it as there is room for, and below it the keys, faint until they count. All of
        that is drawn, and so it counts as seen."""
        self._room = height - 1 if height >= _LEAST_ROWS and columns > LEAST_COLUMNS else 0
        if not self._room:
            return [coloured(clip("Too small to show the call. Esc closes", columns), "1")]
        if self._lines[0] != columns:  # the rows are others now
            self._lines = columns, list(_lines(self.card, columns))
            self._top, self._unseen = 0, set(range(len(self._lines[1])))
        lines = self._lines[1]
        self._most = max(len(lines) - self._room, 0)
        self._top = min(self._top, self._most)
        window = lines[self._top : self._top + self._room]
        drawn = set(range(self._top, self._top + len(window)))
        if self._unseen & drawn:
            self._unseen -= drawn
            self._since_s = now_s
        more = len(lines) - self._top - len(window)
        yes, no, other = (self._bound[action] for action in ("approve", "deny", "edit"))
        keys = f"{yes} allow this call · {no} deny · {other} change it"
        if self._unseen:
            keys = f"{self._bound['read_on']} reads on; then {yes} and {no}"
        place = f"{more} more lines" if more else "Esc closes"
        faint = not self._unseen and self.waits_s(now_s) > 0
        return [*window, coloured(apart(keys, place, columns), "2" if faint else "1")]


def _lines(card: Card, columns: int) -> Iterator[str]:
    tool, *arguments = call_lines(card.tool, card.args)
    for at, text in enumerate(folded(f"May it do this: {tool}", columns - 2)):
        yield coloured(f"{'  ' if at else ''}{text}", "1")
    for argument in arguments:
        for at, text in enumerate(folded(argument, columns - 2)):
            yield f"{'  ' if at else ''}{text}"
    policy = line(declared(card.effect, undoable=card.can_be_undone), 60)
    for text in folded(f"{policy} · {card.run}", columns - 2):
        yield coloured(f"  {text}", "2")
    if card.text:
        for text in folded(f"it says: “{line(card.text, 500)}”", columns - 2):
            yield coloured(f"  {text}", "2")
