"""*Continue from here* opens a line to write in: what was stopped is never sent again. And
steps of which nobody knows are asked about on one card, each with its own answer."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser

from pullcord import Context, StepError
from pullcord.core.values import load
from tests.web.browser import bar, button, expect, press, shows
from tests.web.people import WIDE, person
from tests.web.restartable_server import restartable_server

PHONE: Any = {"width": 390, "height": 844}


async def payer(ctx: Context, given: str) -> str:
    """Pays whomever it is told to, once somebody says so."""
    await ctx.ask(f"{given}?")
    return given


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
async def test_nothing_is_sent_before_somebody_has_written_something(
    browser: Browser, tmp_path: Path, viewport: Any, request: pytest.FixtureRequest
) -> None:
    async with (
        restartable_server(tmp_path, payer=payer) as here,
        person(browser, here.base, viewport=viewport) as ana,
    ):
        run = await here.start("payer", "pay Bob")
        await ana.looks_at(here, run)
        await shows(ana.page, "Waiting")
        await press(ana.page, "Cancel")
        await shows(ana.page, "Cancelled")
        sent: list[str] = []
        ana.page.on("request", lambda one: sent.extend([one.url] * (one.method == "POST")))
        await press(ana.page, "Continue from here")
        field = bar(ana.page).get_by_label("What the next run is told")
        await expect(field).to_be_focused()
        assert await field.input_value() == ""
        await ana.page.screenshot(path=tmp_path / "composer.png")
        await ana.page.keyboard.press("Enter")  # nothing is written yet
        await ana.page.keyboard.press("Escape")
        await expect(field).to_have_count(0)
        assert sent == []
        assert len(await here.runtime.list()) == 1
        await press(ana.page, "Continue from here")
        await field.fill("refund Ana")
        await ana.page.keyboard.press("Enter")
        await shows(ana.page, "Waiting")
        born = await here.runtime.journal.families.birth((await here.newest()).id, what="look at")
        assert (load(born.input), born.thread) == ("refund Ana", run.id)


def pays_two(is_fixed: asyncio.Event) -> Any:
    async def pay(_whom: str) -> str:
        if not is_fixed.is_set():
            await asyncio.Event().wait()
        return "paid"

    async def agent(ctx: Context) -> Any:
        steps = [ctx.step(f"pay {whom}", pay, whom, timeout_s=0.2) for whom in ("Ana", "Bo")]
        done = await asyncio.gather(*steps, return_exceptions=True)
        if any(isinstance(one, StepError) for one in done):
            raise ValueError("nobody knows")
        return done

    return agent


@pytest.mark.parametrize("viewport", [WIDE, PHONE], ids=["wide", "phone"])
async def test_trying_again_asks_once_about_all_that_may_have_happened(
    browser: Browser, tmp_path: Path, viewport: Any
) -> None:
    is_fixed = asyncio.Event()
    async with (
        restartable_server(tmp_path, payer=pays_two(is_fixed)) as here,
        person(browser, here.base, viewport=viewport) as ana,
    ):
        run = await here.start("payer")
        await ana.looks_at(here, run)
        await shows(ana.page, "Failed")
        is_fixed.set()
        await press(ana.page, "Try again")
        await shows(ana.page, "Waiting")
        card = ana.page.locator("article.card").first
        await expect(card).to_contain_text("pay Ana")
        await card.scroll_into_view_if_needed()
        await ana.page.screenshot(path=tmp_path / "card.png")
        send = card.get_by_role("button", name="Choose for each")
        await expect(send).to_be_disabled()
        await card.get_by_role("group", name="pay Ana").get_by_label("It happened").check()
        await card.get_by_role("group", name="pay Bo").get_by_label("Run it").check()
        await card.get_by_role("button", name="Answer").click()
        await shows(ana.page, "Completed")
        assert await (await here.newest()).result() == [None, "paid"]
        await expect(button(ana.page, "Continue from here")).to_be_visible()
