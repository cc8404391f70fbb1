"""A person stops everything from the page, and releases it."""

from playwright.async_api import Locator, Page

from tests.web.browser import expect
from tests.web.people import Person


def switch(page: Page) -> Locator:
    return page.get_by_role("region", name="The kill switch")


async def stop_everything(ana: Person, why: str) -> None:
    await ana.page.get_by_role("button", name="Stop everything").click()
    dialog = ana.page.get_by_role("dialog", name="Stop everything")
    await dialog.get_by_label("Why").fill(why)
    await dialog.get_by_role("button", name="Stop everything").click()
    await expect(dialog).to_have_count(0)


async def release(ana: Person, why: str) -> None:
    await switch(ana.page).get_by_role("button", name="Release").click()
    dialog = ana.page.get_by_role("dialog", name="Release")
    await expect(dialog).to_contain_text("It resumes nothing")
    await dialog.get_by_label("Why").fill(why)
    await dialog.get_by_role("button", name="Release, resume nothing").click()
    await expect(switch(ana.page)).to_have_count(0)
