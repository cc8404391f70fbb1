"""Somebody who sits before a browser.

Each has a context of their own: their own cookies, nothing shared. Whatever a page of theirs asks
of anybody but the server under test, and whatever breaks in it, is an error.
"""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from playwright.async_api import (
    Browser,
    BrowserContext,
    ConsoleMessage,
    Dialog,
    Page,
    ViewportSize,
)

from pullcord import RunHandle
from tests.web.browser import WAIT_MS, bar, expect
from tests.web.restartable_server import RestartableServer

WIDE: Final[ViewportSize] = {"width": 1440, "height": 900}


class Person:
    """Somebody with a browser. What their pages asked of others and what broke is kept."""

    def __init__(self, context: BrowserContext, base: str) -> None:
        self.context = context
        self.base = base
        self.asked_outside: list[str] = []
        self.trouble: list[str] = []
        self.page: Page
        context.on("request", lambda request: self._look_at(request.url))
        context.on("dialog", self._note_dialog)
        context.on("weberror", lambda error: self.trouble.append(f"uncaught: {error.error}"))
        context.on("console", self._note_console)

    async def gets_in(self, here: RestartableServer) -> None:
        """Open the page with a launch link: with every right."""
        await self.page.goto(here.base + here.launch_link())
        await expect(self.page.get_by_role("navigation", name="Runs")).to_be_visible()

    async def looks_at(self, here: RestartableServer, run: RunHandle) -> None:
        """Get in, and go to this run."""
        await self.gets_in(here)
        await self.goes_to(here, run)

    async def goes_to(self, here: RestartableServer, run: RunHandle) -> None:
        """Go to this run, without loading the page anew."""
        await self.page.goto(f"{here.base}#/runs/{run.id}")
        await expect(self.page.get_by_role("main")).to_contain_text(run.id)
        await expect(bar(self.page).locator(".state")).not_to_be_empty()

    async def tab(self, url: str = "") -> Page:
        """Open another tab. `url` is taken from the base; none: it stays empty."""
        page = await self.context.new_page()
        if url:
            await page.goto(self.base + url)
        return page

    def _look_at(self, url: str) -> None:
        if not url.startswith((self.base, f"blob:{self.base}")):
            self.asked_outside.append(url)

    async def _note_dialog(self, dialog: Dialog) -> None:
        self.trouble.append(f"dialog: {dialog.message}")
        await dialog.dismiss()

    def _note_console(self, said: ConsoleMessage) -> None:
        if "Content Security Policy" in said.text or "TrustedHTML" in said.text:
            self.trouble.append(said.text)


@asynccontextmanager
async def person(
    browser: Browser, base: str, *, viewport: ViewportSize = WIDE, **looks: Any
) -> AsyncGenerator[Person]:
    """Somebody who has not been here before. `looks`: how their browser is set up."""
    context = await browser.new_context(viewport=viewport, **looks)
    context.set_default_timeout(WAIT_MS)
    someone = Person(context, base)
    try:
        someone.page = await context.new_page()
        yield someone
        assert someone.asked_outside == []
        assert someone.trouble == []
    finally:
        await context.close()
