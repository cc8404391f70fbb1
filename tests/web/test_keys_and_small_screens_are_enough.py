"""Without a mouse, without much room, without motion: everything can be done, and seen."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Page

from pullcord import RunState
from pullcord.core.events import CancelRequested, PauseRequested
from tests.web.browser import bar, button, expect, press, shows
from tests.web.people import person
from tests.web.restartable_server import restartable_server
from tests.web.staff import Staff

WHO_HAS_THE_FOCUS = """() => {
  let at = document.activeElement;
  while (at?.shadowRoot?.activeElement) at = at.shadowRoot.activeElement;
  return at?.innerText?.trim() || at?.getAttribute('aria-label') || at?.tagName || '';
}"""


async def test_a_run_is_paused_redirected_resumed_and_cancelled_with_keys_alone(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("report")
        await ana.looks_at(here, run)
        await shows(ana.page, "Score churn risk")
        keys = ana.page.keyboard
        await keys.press("p")
        await shows(ana.page, "Paused by you")
        await keys.press("r")
        await expect(bar(ana.page).get_by_label("New instruction")).to_be_focused()
        await keys.type("p c a?")  # what is typed presses nothing
        await keys.press("Enter")
        await expect(bar(ana.page).locator(".added")).to_contain_text("p c a?")
        assert (await run.snapshot()).state is RunState.PAUSED
        await expect(button(ana.page, "Resume")).to_have_attribute("aria-disabled", "false")
        await keys.press("p")
        await shows(ana.page, "Running")
        await keys.press("c")
        await expect(button(ana.page, "Cancel")).to_be_focused()
        assert await here.happened(run, CancelRequested) == []
        await keys.press("Enter")
        await shows(ana.page, "Cancelled by you")


async def test_no_single_key_destroys_anything(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    """Every key of a keyboard, on a run that could be cancelled and a call that could be made."""
    made = restartable_server(tmp_path, mail=staff.mail)
    async with made as here, person(browser, here.base) as ana:
        run = await here.start("mail")
        await ana.looks_at(here, run)
        await shows(ana.page, "Waiting")
        for key in "abcdefghijklmnoqstuvwxyz0123456789.,-+*/#'":  # not p, r: they pause and type
            await ana.page.keyboard.press(key)
            await ana.page.keyboard.press("Escape")
        for key in ("Delete", "Backspace", "Space", "End", "Home", "PageDown"):
            await ana.page.keyboard.press(key)
        for kind in (CancelRequested, PauseRequested):
            assert await here.happened(run, kind) == []
        assert staff.did == []
        assert (await run.snapshot()).state is RunState.WAITING


async def test_a_key_goes_to_what_waits_for_somebody_and_another_shows_all_keys(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, asker=staff.asker) as here,
        person(browser, here.base) as ana,
    ):
        await here.start("asker")
        await ana.gets_in(here)
        await ana.page.keyboard.press("a")
        await expect(ana.page.get_by_role("heading", name="Inbox")).to_be_visible()
        await ana.page.keyboard.press("?")
        await expect(ana.page.get_by_role("dialog", name="Keys")).to_be_visible()
        await ana.page.keyboard.press("Escape")
        await expect(ana.page.get_by_role("dialog", name="Keys")).to_have_count(0)


async def test_the_tab_key_reaches_the_three_buttons_in_their_order(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("report")
        await ana.looks_at(here, run)
        await shows(ana.page, "Score churn risk")
        order: list[str] = []
        for _ in range(60):
            await ana.page.keyboard.press("Tab")
            order.append(await ana.page.evaluate(WHO_HAS_THE_FOCUS))
            if "Cancel" in order:
                break
        assert order[0] == "Skip to the run"
        places = [order.index(name) for name in ("Pause", "Redirect", "Cancel")]
        assert places == sorted(places)
        focused = button(ana.page, "Cancel")
        assert await focused.evaluate("one => getComputedStyle(one).outlineStyle") != "none"


OVERFLOW = """() => {
  const page = document.documentElement;
  return page.scrollWidth - page.clientWidth;
}"""


@pytest.mark.parametrize("width", [390, 320])
async def test_a_phone_is_wide_enough(
    browser: Browser, tmp_path: Path, staff: Staff, width: int
) -> None:
    """Nothing is cut off at the side, and the three buttons are in reach without scrolling."""
    looks: dict[str, Any] = {"has_touch": True, "is_mobile": True, "device_scale_factor": 1}
    async with (
        restartable_server(tmp_path, report=staff.report, mail=staff.mail) as here,
        person(browser, here.base, viewport={"width": width, "height": 640}, **looks) as ana,
    ):
        await here.start("report")
        await ana.page.goto(here.base + here.launch_link())
        await ana.page.get_by_role("link", name="report").tap()
        await shows(ana.page, "Score churn risk")
        staff.says("a very long word: " + "x" * 500)
        await expect(ana.page.get_by_text("a very long word")).to_be_visible()
        assert await ana.page.evaluate(OVERFLOW) == 0
        for name in ("Pause", "Redirect", "Cancel"):
            await _is_in_reach(ana.page, name, width)
        await button(ana.page, "Cancel").tap()
        await shows(ana.page, "Cancelled by you")
        await here.start("mail")
        await ana.page.goto(f"{here.base}#/inbox")
        await expect(ana.page.get_by_role("article").first).to_be_visible()
        assert await ana.page.evaluate(OVERFLOW) == 0


async def _is_in_reach(page: Page, name: str, width: int) -> None:
    box = await button(page, name).bounding_box()
    assert box
    assert 0 <= box["x"] < box["x"] + box["width"] <= width
    assert 0 <= box["y"] < box["y"] + box["height"] <= 640
    assert min(box["width"], box["height"]) >= 24


MOVING = """() => document.getAnimations({subtree: true}).filter((one) => {
  const timing = one.effect?.getComputedTiming();
  return one.playState === 'running' && Number(timing?.duration) > 1;
}).length"""


async def test_whoever_wants_no_motion_gets_none(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    made = restartable_server(tmp_path, report=staff.report)
    async with made as here, person(browser, here.base, reduced_motion="reduce") as ana:
        run = await here.start("report")
        await ana.looks_at(here, run)
        await shows(ana.page, "Score churn risk")
        await press(ana.page, "Redirect")
        assert await ana.page.evaluate(MOVING) == 0
        await press(ana.page, "Pause")
        await shows(ana.page, "Paused by you")
        assert await ana.page.evaluate(MOVING) == 0


async def test_a_text_that_streams_does_not_move_the_bar(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("report")
        await ana.looks_at(here, run)
        await shows(ana.page, "Score churn risk")
        before = await bar(ana.page).bounding_box()
        for number in range(40):
            staff.says(f"Line {number} of what it found.\n")
        await expect(ana.page.get_by_text("Line 39")).to_be_attached()
        assert await bar(ana.page).bounding_box() == before
        await press(ana.page, "Pause")
        await shows(ana.page, "Paused by you")
        assert await bar(ana.page).bounding_box() == before
