"""What stands at the foot of a terminal: the run as it was last seen, and what is open over it."""

from collections.abc import Callable
from typing import Final, NamedTuple

from pullcord.cli.live.bar import BODY_ROWS, keys, room_below, rows
from pullcord.cli.live.card import CardOnScreen
from pullcord.cli.live.composer import Composer
from pullcord.cli.live.local_run import RunSeen
from pullcord.cli.render.run_text import coloured
from pullcord.cli.render.text_width import clip
from pullcord.core.show.words import left
from pullcord.terminal.keymap import Keymap


class Footer:
    """`open`: a second press, a line or a card that takes the keys. `clock` is in seconds."""

    def __init__(
        self, seen: RunSeen, *, me: str, bound: Keymap, clock: Callable[[], float]
    ) -> None:
        self.seen = seen
        self.open: SecondPress | Composer | CardOnScreen | None = None
        self.notice = PassingNotice(clock)
        self._me = me
        self._bound = bound
        self._clock = clock

    def see(self, seen: RunSeen) -> None:
        """It is so by now: let go of what has gone, or has waited too long."""
        self.seen = seen
        match self.open:
            case SecondPress(until_s=until_s) if until_s <= self._clock():
                self.open = None
            case CardOnScreen() as shown if not any(shown.is_of(card) for card in seen.cards):
                self.open = None
                self.notice.say("That call is not waiting any more.")
            case Composer(question=question, run=run) if question and not self._waits(
                run, question
            ):
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
            case SecondPress() as asked:
                body = asked.shown(columns, self._clock())
            case Composer() as writing:
                aside = "Enter sends · Esc closes"
                body = writing.shown(columns, panel)
            case CardOnScreen() as shown:
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
        if isinstance(self.open, SecondPress):
            due.append(self.open.until_s - now)
        if isinstance(self.open, CardOnScreen) and (wait_s := self.open.waits_s(now)):
            due.append(wait_s)
        if stands_s := self.notice.left_s:
            due.append(stands_s)
        return max(min(due), 0.02)


AGAIN_S: Final = 3.0


class SecondPress(NamedTuple):
    """`action`: whose key it is; `key`: as it is written; `then`: what the second press does."""

    action: str
    key: str
    title: str
    says: str
    until_s: float
    then: Callable[[], None]

    def shown(self, columns: int, now_s: float) -> list[str]:
        left_s = max(self.until_s - now_s, 0)
        return [
            coloured(clip(f"{self.key} again within {left_s:.0f} s: {self.title}", columns), "1"),
            clip(f"  {self.says}", columns),
            coloured(clip("  any other key lets go", columns), "2"),
        ]


_STANDS_S: Final = 4.0


class PassingNotice:
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
