"""The selected run: its steps, words, approvals, time and receipt, one of them at a time."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from functools import partial
from typing import ClassVar, Final

from textual.app import ComposeResult
from textual.containers import Vertical

from pullcord.core.receipts import Receipt
from pullcord.core.show.panel import Panel
from pullcord.core.show.receipt_words import ReceiptLine, receipt_words
from pullcord.errors import PullcordError
from pullcord.journal.views.inbox import Card, Inbox, Open
from pullcord.terminal.keymap import Keymap
from pullcord.tui.aim import Aim
from pullcord.tui.cardlines import card_lines
from pullcord.tui.key_help import help_lines
from pullcord.tui.line_widgets import FixedLines, ScrollingLines
from pullcord.tui.lines import BLANK, Line, Piece, flat, line, paragraph, width_of
from pullcord.tui.run_report import RunReport
from pullcord.tui.source import Source
from pullcord.tui.steplines import step_lines, text_lines
from pullcord.tui.timeline import timeline_lines

TABS: Final = ("steps", "text", "approvals", "timeline", "receipt")
_SETTLE_S: Final = 0.05  # who walks down the list does not want every run on the way
_DRAW_S: Final = 0.05


class Pane(Vertical):
    """Follows one run at a time, from its first record on."""

    ALLOW_SELECT: ClassVar[bool] = False

    def __init__(
        self,
        source: Source,
        hand: Aim,
        now: Callable[[], float],
        bound: Keymap,
        say: Callable[[str], None],
    ) -> None:
        super().__init__(id="pane")
        self._source = source
        self._hand = hand
        self._now = now
        self._bound = bound
        self._say = say
        self.report = RunReport()
        self._panel: Panel | None = None
        self._panel_s = 0.0
        self._waiting: Inbox | None = None
        self._waiting_s = 0.0
        self._receipt: Receipt | None = None
        self._is_due = False
        self._is_new = True
        self._card = 0
        self._call_lines: list[Line] = []
        self._call: object = None  # the call that has been read from its top
        self.tab = "steps"
        self.is_help = False
        self._then: Callable[[], None] | None = None
        self._names = FixedLines(self._tabs, id="tabs")
        self._paper = ScrollingLines(self._lines, id="paper")

    def compose(self) -> ComposeResult:
        yield self._names
        yield self._paper

    # --- which run ---

    def show(self, panel: Panel | None) -> None:
        """Show this run; if it is another one than before, follow it from now on."""
        before, self._panel = self._panel, panel
        self._panel_s = self._now()
        if panel is None or before is None or panel.run != before.run:
            self.report, self._waiting, self._receipt = RunReport(), None, None
            self._card, self._is_new = 0, True
            if panel:
                self.run_worker(partial(self._follow, panel.run), group="follow", exclusive=True)
        elif panel.seq != before.seq:
            self._fetch()
        self.update()

    async def _follow(self, run: str) -> None:
        await asyncio.sleep(_SETTLE_S)
        self._fetch()
        try:
            async with aclosing(self._source.follow(run)) as batches:
                async for items, is_anew in batches:
                    if is_anew:
                        self.report, self._waiting, self._receipt = RunReport(), None, None
                        self._fetch()
                    self.report.take(items)
                    self._draw_soon()
        except PullcordError as error:
            self._say(str(error))

    def _fetch(self) -> None:
        """Read what is not in the stream, if it is on the screen."""
        if self._panel and self.tab in ("approvals", "receipt"):
            read = partial(self._read, self._panel.run, self.tab)
            self.run_worker(read, group="read", exclusive=True)

    async def _read(self, run: str, tab: str) -> None:
        try:
            if tab == "receipt":
                self._receipt = await self._source.receipt(run)
            else:
                self._waiting, self._waiting_s = await self._source.waiting(run), self._now()
                self._card = min(self._card, max(len(self._asked()) - 1, 0))
        except PullcordError as error:
            self._receipt = self._waiting = None  # it may be forgotten
            self._say(str(error))
        self.update()
        then, self._then = self._then, None
        if then and tab == self.tab and self._panel and self._panel.run == run:
            then()

    # --- what of it ---

    def turn_to(self, tab: str, then: Callable[[], None] | None = None) -> None:
        """`then`: what to do when it has been read, if it is still looked at."""
        self.tab, self.is_help, self._is_new = tab, False, True
        self._then = then
        self._fetch()
        self.update()

    def turn_by(self, step: int) -> None:
        self.turn_to(TABS[(TABS.index(self.tab) + step) % len(TABS)])

    def help(self) -> None:
        """Show the keys, or what was there before them."""
        self.is_help, self._is_new = not self.is_help, True
        self.update()

    def scroll(self, pages: int) -> None:
        self._paper.turn(pages)

    def _asked(self) -> list[Card | Open]:
        inbox = self._waiting
        return [*inbox.cards, *inbox.questions] if inbox else []

    @property
    def card(self) -> Card | Open | None:
        """The call or question that a key would decide: the one on the screen, if there is one."""
        asked = self._asked()
        is_shown = self.tab == "approvals" and not self.is_help
        return asked[self._card] if is_shown and asked else None

    def next_card(self, step: int) -> None:
        if asked := self._asked():
            self._card = (self._card + step) % len(asked)
            self._is_new = True
            self.update()

    @property
    def is_seen_whole(self) -> bool:
        """Whether the whole call has been on the screen, each line of it as wide as it is."""
        width = self._paper.scrollable_content_region.width
        is_whole = all(width_of(one) <= width for one in self._call_lines)
        is_begun = self._call == self._call_now()
        return is_whole and is_begun and self._paper.has_drawn(len(self._call_lines))

    # --- draw ---

    def _draw_soon(self) -> None:
        if not self._is_due:
            self._is_due = True
            self.set_timer(_DRAW_S, self.update)

    def update(self) -> None:
        self._is_due = False
        if not self.is_attached:
            return
        self._names.update()
        place = self._where() if self._is_new else ""
        self._is_new = self._is_new and not self.report.began_ms
        self._paper.update(to=place)
        self._begin_another()

    def _begin_another(self) -> None:
        """Another call in the same place is read from its top. So is the same one, if its lines are
        others now."""
        now = self._call_now()
        if self._call != now:
            self._call = now
            if isinstance(self.card, Card):
                self._paper.update(to="top")
            self._paper.begin()

    def _call_now(self) -> object:
        card = self.card
        of = (card.run, card.question, card.call) if isinstance(card, Card) else None
        return of, self._call_lines

    def _where(self) -> str:
        is_live = self._panel is not None and not self._panel.ended
        return "end" if self.tab in ("steps", "text") and is_live and not self.is_help else "top"

    def _tabs(self, width: int) -> list[Line]:
        wide = self._named(" ", "  ")
        pieces = wide if width_of(wide) <= width else self._named("·", "")
        keys = (Piece(f" {self._bound['help']} ", "key"), Piece("keys", "strong"))
        has_room = width_of((*pieces, *keys)) <= width
        return [(*pieces, *keys) if self.is_help and has_room else pieces]

    def _named(self, before: str, after: str) -> Line:
        """The views by their names. `before` the number that waits, `after` each name."""
        pieces: list[Piece] = []
        for number, tab in enumerate(TABS, start=1):
            is_here = tab == self.tab and not self.is_help
            wants = self._panel.wants if self._panel and tab == "approvals" else 0
            name = f"{tab}{before}{wants}" if wants else tab
            role = "strong" if is_here else "waiting" if wants else "muted"
            pieces += [Piece(f" {number} ", "key" if is_here else "muted")]
            pieces += [Piece(f"{name}{after}", role)]
        return tuple(pieces)

    def _lines(self, width: int) -> list[Line]:
        if self.is_help:
            return help_lines(self._bound, width)
        if self._panel is None:
            return _teach()
        if self._panel.quarantined and self.tab == "text":
            return [line("It is quarantined: what it said is kept as evidence, and not shown.")]
        match self.tab:
            case "steps":
                now_ms = self._wall_ms() if self._panel.ticking == "working_ms" else 0
                return step_lines(self.report, width, now_ms=now_ms, state=self._panel.state)
            case "text":
                return text_lines(self.report, width)
            case "timeline":
                return timeline_lines(self.report, width, now_ms=self._wall_ms())
            case "receipt":
                if self._receipt is None:
                    return nothing()
                return receipt_lines(self._receipt, width)
            case _:
                return self._desk(width)

    def _desk(self, width: int) -> list[Line]:
        if self._waiting is None:
            return [line("Reading what waits for an answer.", role="muted")]
        card, since_ms = self.card, (self._now() - self._waiting_s) * 1000
        call = card.call if isinstance(card, Card) else ""
        if call and self.is_attached:
            self._hand.show(call)
        is_ready = self._hand.has_read(call)
        made = card_lines(
            self._waiting, width, self._bound, at=self._card, since_ms=since_ms, is_ready=is_ready
        )
        self._call_lines = made.lines[: made.call_end]
        return made.lines

    def _wall_ms(self) -> int:
        """The time of day where the runs are, as far as anybody knows."""
        if self._panel is None:
            return 0
        return self._panel.at_ms + round((self._now() - self._panel_s) * 1000)


def _teach() -> list[Line]:
    return [
        line("No runs yet.", role="strong"),
        line("Start one in another terminal, and it appears here:", role="muted"),
        line("  pullcord run FILE.py:NAME"),
    ]


_FEW: Final = 40
_ROOM: Final = 23  # before the names


def receipt_lines(of: Receipt, width: int) -> list[Line]:
    """The receipt: its headings with their signs, a blank line, and the facts."""
    said = receipt_words(of)
    headings = [one for told in said if told.heading for one in _told(told, width)]
    return [
        *headings,
        BLANK,
        *(one for told in said if not told.heading for one in _told(told, width)),
    ]


def _told(told: ReceiptLine, width: int) -> list[Line]:
    more = f" and {len(told.names) - _FEW} more" if len(told.names) > _FEW else ""
    names = ", ".join(flat(name, 80) for name in told.names[:_FEW]) + more
    says = ": ".join(filter(None, (names, flat(told.says, 1000))))
    found = paragraph(says, width, first=" " * _ROOM, rest=" " * _ROOM)
    sign = Piece(f" {told.sign or ' '} ", told.tone or "muted")
    return [(sign, Piece(f"{told.word.capitalize():<20}"), found[0][1]), *found[1:]]


def nothing() -> list[Line]:
    return [line("Reading what it has left behind.", role="muted")]
