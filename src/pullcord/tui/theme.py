"""What roles look like, in the dark and in the light. The same colours as on the page."""

from functools import lru_cache
from typing import Final

from rich.segment import Segment
from rich.style import Style
from textual.strip import Strip
from textual.theme import Theme

from pullcord.terminal.single_row import single_row
from pullcord.tui.lines import Line, fit, width_of

DARK: Final = {
    "": "#e6eaf1",
    "muted": "#9ea9b9",
    "edge": "#3d4858",
    "running": "#94b4e3",
    "held": "#e2b153",
    "waiting": "#bda6f2",
    "done": "#80caa4",
    "failed": "#f2918a",
    "added": "#80caa4",
    "removed": "#dd9d95",
    "background": "#161b23",
    "raised": "#263040",
    "selected": "#232c3a",
}
LIGHT: Final = {
    "": "#1b2230",
    "muted": "#566072",
    "edge": "#c3cbd6",
    "running": "#3a5c8c",
    "held": "#855600",
    "waiting": "#6a44b5",
    "done": "#27694a",
    "failed": "#b0261e",
    "added": "#27694a",
    "removed": "#8d4038",
    "background": "#fdfdfe",
    "raised": "#e3e8ef",
    "selected": "#e9eef5",
}


class Palette:
    """The style of each role: words like `held strong`, of which one may be a colour."""

    def __init__(self, colours: dict[str, str]) -> None:
        self._colours = colours
        self._styles: dict[tuple[str, bool], Style] = {}

    def style(self, role: str, *, selected: bool = False) -> Style:
        if (role, selected) not in self._styles:
            self._styles[role, selected] = self._make(role.split(), selected)
        return self._styles[role, selected]

    def _make(self, words: list[str], selected: bool) -> Style:
        known = [word for word in words if word in self._colours]
        is_key = "key" in words
        colour = self._colours["muted" if "off" in words else known[0] if known else ""]
        ground = "raised" if is_key else "selected" if selected else "background"
        return Style(
            color=colour,
            bgcolor=self._colours[ground],
            bold=("strong" in words or is_key) and "off" not in words,
        )


PALETTES: Final = {"pullcord-dark": Palette(DARK), "pullcord-light": Palette(LIGHT)}


def _theme(name: str, colours: dict[str, str], *, dark: bool) -> Theme:
    return Theme(
        name=name,
        dark=dark,
        primary=colours["running"],
        accent=colours["running"],
        warning=colours["held"],
        error=colours["failed"],
        success=colours["done"],
        foreground=colours[""],
        background=colours["background"],
        surface=colours["background"],
        panel=colours["raised"],
        variables={
            "scrollbar": colours["edge"],
            "scrollbar-hover": colours["muted"],
            "scrollbar-active": colours["muted"],
            "scrollbar-background": colours["background"],
            "scrollbar-background-hover": colours["background"],
            "scrollbar-background-active": colours["background"],
            "input-cursor-background": colours[""],
            "input-cursor-foreground": colours["background"],
            "edge": colours["edge"],
        },
    )


THEMES: Final = (
    _theme("pullcord-dark", DARK, dark=True),
    _theme("pullcord-light", LIGHT, dark=False),
)


@lru_cache(maxsize=4096)  # the same line is the same strip, which knows how it was drawn last
def strip(of: Line, width: int, palette: Palette, *, selected: bool = False) -> Strip:
    """The line as it is drawn. Everything on the screen comes by here, and is made safe here,
    whoever has forgotten to."""
    segments = [
        Segment(single_row(text), palette.style(role, selected=selected))
        for text, role in fit(of, width)
    ]
    gap = width - width_of(of)
    ground = palette.style("", selected=selected)
    drawn = Strip([*segments, Segment(" " * max(gap, 0), ground)])
    return drawn.adjust_cell_length(width, ground)
