"""What stands at the foot of a terminal: the run as it was last seen, and what is open over it."""

from collections.abc import Callable

from pullcord.cli.live_again import Again
from pullcord.cli.live_bar import BODY_ROWS, keys, room_below, rows
from pullcord.cli.live_card import Shown
from pullcord.cli.live_hand import Seen
from pullcord.cli.live_notice import Notice
from pullcord.cli.live_writing import Writing
from pullcord.core.keys import Keymap
from pullcord.core.words import left


class Foot:
    """`open`: a second press, a line or a card that takes the keys. `clock` is in seconds."""

    def __init__(self, seen: Seen, *, me: str, bound: Keymap, clock: Callable[[], float]) -> None:
        self.seen = seen
        self.open: Again | Writing | Shown | None = None
        self.notice = Notice(clock)
        self._me = me
        self._bound = bound
        self._clock = clock

    def see(self, seen: Seen) -> None:
        """It is so by now: let go of what has gone, or has waited too long."""
        self.seen = seen
        match self.open:
            case Again(until_s=until_s) if until_s <= self._clock():
                self.open = None
            case Shown() as shown if not any(shown.is_of(card) for card in seen.cards):
                self.open = None
                self.notice.say("That call is not waiting any more.")
            case Writing(question=question, run=run) if question and not self._waits(run, question):
                self.open = None
                self.notice.say("That is not waiting any more.")
            case _:
                pass

    def _waits(self, run: str, question: str) -> bool:
        both = [*self.seen.cards, *self.seen.questions]
        return any((one.run, one.question) == (run, question) for one in both)

    def rows(self, columns: int, of_rows: int) -> list[str]:
        aside, panel = f"{self._bound['help']} help", self.seen.panel
        match self.open:
            case Again() as asked:
                body = asked.shown(columns, self._clock())
            case Writing() as writing:
                aside = "Enter sends · Esc closes"
                body = writing.shown(columns, panel)
            case Shown() as shown:
                now = next((one for one in self.seen.cards if shown.is_of(one)), shown.card)
                aside = f"expires in {left(now.expires_in_ms)}"
                height = min(max(of_rows * 2 // 3, BODY_ROWS), room_below(of_rows))
                body = shown.page(columns, height, self._clock())
            case _:
                body = keys(panel, columns, self._bound, self.notice.text)
        return rows(panel, body, columns=columns, of_rows=of_rows, me=self._me, aside=aside)

    def due_in_s(self) -> float:
        """When something changes by itself, at the latest."""
        now = self._clock()
        due = [1.0 - now % 1.0]
        if isinstance(self.open, Again):
            due.append(self.open.until_s - now)
        if isinstance(self.open, Shown) and (wait_s := self.open.waits_s(now)):
            due.append(wait_s)
        if stands_s := self.notice.left_s:
            due.append(stands_s)
        return max(min(due), 0.02)
