"""Debian's Chromium: where it is, how it is started, and where the bar is in a page."""

import asyncio
import os
import shutil
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from playwright.async_api import (
    Browser,
    Locator,
    Page,
    async_playwright,
)
from playwright.async_api import expect as expect_now

WAIT_MS: Final = 15_000
_AGAIN_S: Final = 0.02
_ARGS: Final = [
    "--no-sandbox",  # the tests may run as root, and the pages are our own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
    "--disable-features=SpareRendererForSitePerProcess,Translate,MediaRouter,OptimizationHints",
]


class _Patient:
    """What is expected holds soon. Playwright's own patience looks again after up to a second,
    and a story waits for dozens of things."""

    def __init__(self, expected: Any) -> None:
        self._expected = expected

    def __getattr__(self, name: str) -> Any:
        check = getattr(self._expected, name)

        async def until_it_holds(*given: Any, **how: Any) -> None:
            end_s = time.monotonic() + WAIT_MS / 1000
            while True:
                try:
                    return await check(*given, timeout=1, **how)
                except AssertionError:
                    if time.monotonic() > end_s:
                        raise
                await asyncio.sleep(_AGAIN_S)

        return until_it_holds


def expect(what: Locator) -> Any:
    """Playwright's assertions, each of them patient."""
    return _Patient(expect_now(what))


def chromium_path() -> str:
    """Where Chromium is. There is no test without it, and none is skipped."""
    named = os.environ.get("PULLCORD_CHROMIUM") or "/usr/bin/chromium-headless-shell"
    found = shutil.which(named)
    if not found:
        raise FileNotFoundError(
            f"{named} is not there, and the page is tested in a real browser. Install it (apt-get "
            "install --no-install-recommends chromium-headless-shell fonts-dejavu-core) or say "
            "where another Chromium is: PULLCORD_CHROMIUM=/path/to/it"
        )
    return found


@asynccontextmanager
async def chromium() -> AsyncGenerator[Browser]:
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=chromium_path(), args=_ARGS)
        try:
            yield browser
        finally:
            await browser.close()


def bar(page: Page) -> Locator:
    return page.locator("pullcord-bar .bar")


def button(page: Page, name: str) -> Locator:
    """A button of the bar."""
    return bar(page).get_by_role("button", name=name, exact=True)


async def press(page: Page, name: str) -> None:
    """Press a button of the bar, as soon as it takes presses."""
    await button(page, name).click()


async def shows(page: Page, *labels: str) -> None:
    """Wait until the bar says each of these, in turn."""
    for label in labels:
        await expect(bar(page).locator(".state")).to_contain_text(label)
