"""The list of runs on the screen. A thousand of them cost what the visible ones cost."""

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from pullcord.core.show.panel import Panel
from pullcord.core.show.words import clock, dollars
from pullcord.tui.line_widgets import palette_of
from pullcord.tui.lines import BLANK, Line, Piece, fit, flat, line, padded
from pullcord.tui.roster import Roster
from pullcord.tui.state_colours import ROLE, elapsed
from pullcord.tui.theme import strip


class RunList(ScrollView, can_focus=False):
    """The runs of a roster, one line each."""

    ALLOW_SELECT: ClassVar[bool] = False

    class Picked(Message):
        """Somebody has clicked on a run."""

        def __init__(self, run: str) -> None:
            super().__init__()
            self.run = run

    def __init__(self, roster: Roster, now: Callable[[], float], *, id: str) -> None:
        super().__init__(id=id)
        self._roster = roster
        self._now = now
        self.empty = ""  # what is said where no run is

    def reorder(self) -> None:
        """The order is another, or how many there are."""
        self.virtual_size = Size(self.size.width, len(self._roster))
        self.refresh()

    def redraw(self, runs: set[str]) -> None:
        """These have changed, and stand where they stood."""
        for run in runs:
            place = self._roster.place(run)
            if place is not None and self._is_in_view(place):
                y = place - round(self.scroll_y)
                self.refresh(Region(0, y, self.size.width, 1))

    def in_view(self) -> list[str]:
        """The runs that can be seen."""
        first = round(self.scroll_y)
        last = min(first + self.size.height, len(self._roster))
        return [self._roster.at(place) for place in range(first, last)]

    def tick(self) -> None:
        """A second has passed."""
        rows = self._roster.rows
        self.redraw({run for run in self.in_view() if rows[run].panel.ticking == "working_ms"})

    def reveal(self, run: str) -> None:
        """Have this run in view."""
        place, height = self._roster.place(run), max(self.size.height, 1)
        if place is None or self._is_in_view(place):
            return
        top = place if place < self.scroll_y else place - height + 1
        self.scroll_to(y=top, animate=False, force=True, immediate=True)

    def _is_in_view(self, place: int) -> bool:
        return 0 <= place - round(self.scroll_y) < self.size.height

    def on_resize(self) -> None:
        self.virtual_size = Size(self.size.width, len(self._roster))
        self.reveal(self._roster.kept)

    def on_click(self, event: events.Click) -> None:
        place = event.y + round(self.scroll_y)
        if place < len(self._roster):
            self.post_message(self.Picked(self._roster.at(place)))

    def render_line(self, y: int) -> Strip:
        place, palette = y + round(self.scroll_y), palette_of(self)
        width = self.scrollable_content_region.width
        if place >= len(self._roster):
            said = line(f" {self.empty}", role="muted") if not place else BLANK
            return strip(said, width, palette)
        known = self._roster.rows[self._roster.at(place)]
        is_selected = known.panel.run == self._roster.kept
        since_ms = (self._now() - known.at_s) * 1000
        drawn = run_row(known.panel, since_ms, width, is_selected=is_selected)
        return strip(drawn, width, palette, selected=is_selected)


_WIDE = 60


def run_row(panel: Panel, since_ms: float, width: int, *, is_selected: bool) -> Line:
    """Sign, state, agent, working time, spend, its title, and what it does or why it does not."""
    colour = ROLE.get(panel.state, "muted")
    quiet = "muted" if panel.ended else ""
    agent = max(12, min(24, width // 5))
    time = clock(elapsed(panel, "working_ms", since_ms))
    spend = dollars(panel.cost["usd_micros"]) if panel.cost["usd_micros"] else ""
    pieces = [
        Piece("›" if is_selected else " ", "strong"),
        Piece(f"{panel.sign} ", colour),
        Piece(padded(panel.label, 11), colour),
        Piece(padded(flat(panel.agent, 60), agent), quiet),
        Piece(f" {time:>7}", quiet or "number"),
    ]
    if width >= _WIDE:
        pieces.append(Piece(f"{spend:>9}", quiet or "number"))
    pieces.append(Piece("  "))
    pieces.extend(_about(panel, quiet))
    return fit(tuple(pieces), width)


def _about(panel: Panel, quiet: str) -> list[Piece]:
    titled = Piece(flat(panel.title, 100), quiet or "strong")
    said = [Piece(panel.needs, "waiting strong"), titled, Piece(_says(panel), quiet)]
    apart = Piece(" · ", quiet)
    found = [piece for one in said if one.text for piece in (apart, one)]
    return found[1:]


def _says(panel: Panel) -> str:
    if panel.alone:
        return "its process stands still" if panel.driven else "no process drives it"
    if panel.doing:
        return flat(panel.doing, 120)
    if panel.state == "failed":
        return flat(panel.error, 120)
    who = f"by {flat(panel.by, 40)}" if panel.by and panel.source != "limit" else ""
    why = f"“{flat(panel.reason, 80)}”" if panel.reason else ""
    return " · ".join(part for part in (who, why) if part)
