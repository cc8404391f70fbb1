"""Lines on the screen: a few that stay, many that scroll. Only what is in view is drawn."""

from collections.abc import Callable
from typing import ClassVar, TypeAlias

from textual.geometry import Size
from textual.scroll_view import ScrollView
from textual.strip import Strip
from textual.widget import Widget

from pullcord.tui.lines import BLANK, Line
from pullcord.tui.theme import PALETTES, Palette, strip

Draw: TypeAlias = Callable[[int], list[Line]]
"""Makes the lines for a width."""


def palette_of(widget: Widget) -> Palette:
    return PALETTES.get(widget.app.theme, PALETTES["pullcord-dark"])


class FixedLines(Widget):
    """A few lines, made anew whenever somebody says so, drawn anew only if they differ."""

    ALLOW_SELECT: ClassVar[bool] = False

    def __init__(self, draw: Draw, *, id: str) -> None:
        super().__init__(id=id)
        self._draw = draw
        self._lines: list[Line] = []
        self._width = -1

    def update(self) -> None:
        """Something that it shows may have changed."""
        lines = self._draw(self.size.width) if self.size.width else []
        if lines != self._lines or self._width != self.size.width:
            self._lines, self._width = lines, self.size.width
            self.refresh()

    def render_line(self, y: int) -> Strip:
        if self._width != self.size.width:
            self._lines, self._width = self._draw(self.size.width), self.size.width
        known = self._lines[y] if y < len(self._lines) else BLANK
        return strip(known, self.size.width, palette_of(self))


class ScrollingLines(ScrollView, can_focus=False):
    """Many lines. Who reads the end is kept at the end while more comes."""

    ALLOW_SELECT: ClassVar[bool] = False

    def __init__(self, draw: Draw, *, id: str) -> None:
        super().__init__(id=id)
        self._draw = draw
        self._lines: list[Line] = []
        self._at_end = False
        self._drawn: set[int] = set()

    def begin(self) -> None:
        """What it shows from now on has not been seen by anybody."""
        self._drawn.clear()
        self.refresh()

    def update(self, *, to: str = "") -> None:
        """The lines may have changed. `to`: go to their `top` or their `end`."""
        width = self.scrollable_content_region.width
        if not width:
            return
        lines = self._draw(width)
        follows = self.is_vertical_scroll_end and self._at_end
        if lines != self._lines:
            self._lines = lines
            self.virtual_size = Size(width, len(lines))
            self.refresh()
        if to:
            self._at_end = to == "end"
        if to == "top":
            self.scroll_to(y=0, animate=False, force=True, immediate=True)
        elif to == "end" or follows:
            self.scroll_to(y=len(lines), animate=False, force=True, immediate=True)

    def on_resize(self) -> None:
        self.update()

    def turn(self, pages: int) -> None:
        """Go on, or back, by what is in view."""
        height = max(self.size.height - 1, 1)
        self.scroll_to(y=self.scroll_y + pages * height, animate=False, force=True, immediate=True)
        self._at_end = True

    def has_drawn(self, count: int) -> bool:
        """Whether each of the first so many lines has been in view since `begin`."""
        return self._drawn.issuperset(range(count))

    def render_line(self, y: int) -> Strip:
        place = y + round(self.scroll_y)
        known = self._lines[place] if place < len(self._lines) else BLANK
        self._drawn.add(place)
        return strip(known, self.scrollable_content_region.width, palette_of(self))
