"""The screen as a person has it: keys go in, lines of text come out. Waits for what it shows."""

import os
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from difflib import unified_diff
from pathlib import Path
from typing import Any

from textual import events
from textual.pilot import Pilot

from pullcord.core.events import Event
from pullcord.tui.app import Top
from pullcord.tui.source import Source
from tests.tui.sample_store import SampleStore

GOLDEN = Path(__file__).with_name("golden")


class Now:
    """The clock of the screen: stands still until a test moves it."""

    def __init__(self) -> None:
        self.seconds = 100.0

    def __call__(self) -> float:
        return self.seconds

    def advance(self, seconds: float) -> None:
        self.seconds += seconds


class Eyes:
    """Somebody at the screen."""

    def __init__(
        self, app: Top, pilot: Pilot[Any], now: Now, sample: SampleStore | None = None
    ) -> None:
        self.app = app
        self.now = now
        self._pilot = pilot
        self._office = sample

    @property
    def lines(self) -> list[str]:
        strips = self.app.screen._compositor.render_strips()  # pyright: ignore[reportPrivateUsage]
        return ["".join(part.text for part in strip).rstrip() for strip in strips]

    @property
    def text(self) -> str:
        return "\n".join(self.lines) + "\n"

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    async def write(self, text: str) -> None:
        for char in text:
            await self._pilot.press({" ": "space"}.get(char, char))

    def hit(self, *keys: str) -> None:
        """Keys as fast as they can come: nobody waits in between."""
        for key in keys:
            self.app.post_message(events.Key(key, key if len(key) == 1 else None))

    def hold(self, key: str, times: int = 5) -> None:
        """The key comes again and again, as a keyboard repeats it."""
        self.hit(*[key] * times)

    def paste(self, text: str) -> None:
        self.app.post_message(events.Paste(text))

    async def until(self, holds: Callable[[], object]) -> None:
        """Wait for the screen to become so. The test's own timeout is the bound."""
        while not holds():
            assert self.app.is_running, "the screen is gone"
            await self._pilot.pause()

    async def sees(self, text: str) -> None:
        await self.until(lambda: text in self.text)

    async def look_at(self, run: str) -> None:
        """Select a run and wait until all of it is there."""
        await self.until(lambda: run in self.app.roster.rows)
        self.app.select(run)
        await self.whole()

    async def whole(self) -> None:
        def is_whole() -> bool:
            panel = self.app.bar.panel
            return panel is not None and self.app.pane.report.seq >= panel.seq

        await self.until(is_whole)
        self.app.update()
        await self._pilot.pause()

    async def recorded(self, run: str, kind: type[Event]) -> Any:
        """Wait for the record of this kind, and return the last one."""
        while True:
            found = [e for e in await self.events(run) if isinstance(e, kind)]
            if found:
                return found[-1]
            await self._pilot.pause()

    async def events(self, run: str) -> list[Event]:
        assert self._office, "it looks at a server"
        return [record.event for record in await self._office.journal.read(run)]

    async def resize(self, width: int, height: int) -> None:
        await self._pilot.resize_terminal(width, height)


@asynccontextmanager
async def looking(
    sample: SampleStore,
    *,
    size: tuple[int, int] = (80, 24),
    source: Source | None = None,
    light: bool = False,
) -> AsyncGenerator[Eyes]:
    """Somebody called ana looks at the runs of a sample store."""
    now = Now()
    app = Top(source or sample.source, "ana", now=now, light=light)
    async with app.run_test(size=size) as pilot:
        eyes = Eyes(app, pilot, now, sample)
        await eyes.until(lambda: app.is_loaded)
        await pilot.pause()
        yield eyes


def agrees(name: str, text: str) -> None:
    """Compare a screen with the one that was looked at and found good. PULLCORD_GOLDEN=write
    writes it anew: look at the difference before you commit it."""
    page = GOLDEN / f"{name}.txt"
    if os.environ.get("PULLCORD_GOLDEN") == "write":
        page.parent.mkdir(exist_ok=True)
        page.write_text(text)
    wanted = page.read_text()
    found = unified_diff(wanted.splitlines(), text.splitlines(), page.name, "screen", lineterm="")
    assert text == wanted, "\n" + "\n".join(found)
