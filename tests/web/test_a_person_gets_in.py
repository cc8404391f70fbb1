"""Getting in: the launch link opens the page once; a link for one run shows that run only."""

from pathlib import Path

from playwright.async_api import Browser

from pullcord import Context
from tests.web.browser import expect
from tests.web.house import house
from tests.web.people import person


async def quick(ctx: Context) -> str:
    """Says one thing and is done."""
    return await ctx.say("Hello.")


async def test_the_launch_link_opens_the_page_once_and_is_void_afterwards(
    browser: Browser, tmp_path: Path
) -> None:
    async with house(tmp_path, quick=quick) as here, person(browser, here.base) as ana:
        link = here.launch_link()
        await ana.page.goto(here.base + link)
        await expect(ana.page.get_by_role("navigation", name="Runs")).to_be_visible()
        assert "launch" not in ana.page.url
        await ana.page.reload()
        await expect(ana.page.get_by_role("navigation", name="Runs")).to_be_visible()
        async with person(browser, here.base) as eve:
            await eve.page.goto(here.base + link)
            await expect(eve.page.get_by_text("it was used before")).to_be_visible()
            await expect(eve.page.get_by_role("navigation", name="Runs")).to_have_count(0)


async def test_a_link_that_is_pasted_into_the_open_page_lets_in(
    browser: Browser, tmp_path: Path
) -> None:
    async with house(tmp_path, quick=quick) as here, person(browser, here.base) as ana:
        await ana.page.goto(here.base)
        await expect(ana.page.get_by_text("pullcord serve")).to_be_visible()
        await ana.page.goto(here.base + here.launch_link())
        await expect(ana.page.get_by_role("navigation", name="Runs")).to_be_visible()
