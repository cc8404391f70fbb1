"""The list of runs on the screen. A thousand of them cost what the visible ones cost."""

from collections.abc import Callable
from typing import ClassVar

from textual import events
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from pullcord.tui.lines import BLANK, line
from pullcord.tui.look import strip
from pullcord.tui.roster import Roster
from pullcord.tui.rowline import row
from pullcord.tui.sheet import palette_of


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
        drawn = row(known.panel, since_ms, width, is_selected=is_selected)
        return strip(drawn, width, palette, selected=is_selected)
