"""A run does not depend on anybody looking; whoever looks, sees the same."""

import asyncio
from pathlib import Path

import pytest
from playwright.async_api import Browser, Route

from pullcord import RunState
from pullcord.core.events import CancelRequested, PauseRequested, Redirected
from tests.web.browser import button, expect, press, shows
from tests.web.lasting import serving
from tests.web.people import person
from tests.web.restartable_server import restartable_server
from tests.web.staff import Staff

PAIRS = [("Pause", "Cancel"), ("Cancel", "Cancel"), ("Pause", "Pause")]


@pytest.mark.parametrize("names", PAIRS)
async def test_two_tabs_that_press_at_once_end_in_the_same_state_and_both_show_it(
    browser: Browser, tmp_path: Path, staff: Staff, names: tuple[str, str]
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("report")
        await ana.looks_at(here, run)
        second = await ana.tab(f"#/runs/{run.id}")
        tabs = (ana.page, second)
        for page in tabs:
            await shows(page, "Score churn risk")
        at = [await button(ana.page, names[0]).element_handle()]
        at += [await button(second, names[1]).element_handle()]
        await asyncio.gather(*(one.evaluate("button => button.click()") for one in at))
        ends = RunState.CANCELLED if "Cancel" in names else RunState.PAUSED
        await run.wait_for(ends)
        for page in tabs:
            await shows(page, "Cancelled by you" if ends is RunState.CANCELLED else "Paused by you")
        asked = CancelRequested if ends is RunState.CANCELLED else PauseRequested
        assert len(await here.happened(run, asked)) == 1


async def test_a_page_that_is_loaded_anew_in_the_middle_shows_everything_again(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("report")
        await ana.looks_at(here, run)
        staff.says("Scoring one, ")
        await expect(ana.page.get_by_text("Scoring one,")).to_be_visible()
        await ana.page.reload()
        await expect(ana.page.get_by_text("Scoring one,")).to_be_visible()
        staff.says("two")
        await expect(ana.page.get_by_text("Scoring one, two")).to_be_visible()
        await shows(ana.page, "Running")
        await press(ana.page, "Cancel")
        await shows(ana.page, "Cancelled by you")


async def test_the_page_comes_back_by_itself_after_the_server_was_away(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("report")
        await ana.looks_at(here, run)
        staff.says("Before. ")
        await expect(ana.page.get_by_text("Before.")).to_be_visible()
        await here.close()
        await expect(ana.page.get_by_text("The connection is gone.")).to_be_visible()
        staff.at_it.clear()
        await here.open()
        await staff.at_it.wait()
        staff.says("After.")
        await expect(ana.page.get_by_text("The connection is gone.")).to_have_count(0)
        await expect(ana.page.get_by_text("After.")).to_be_visible()
        await expect(ana.page.get_by_text("Before.")).to_be_visible()
        await press(ana.page, "Cancel")
        await shows(ana.page, "Cancelled by you")
        run = await here.runtime.get(run.id)
        assert (await run.snapshot()).state is RunState.CANCELLED
        assert staff.did.count("told #churn") == 1


async def test_a_server_that_is_killed_is_found_again_and_its_run_goes_on(
    browser: Browser, tmp_path: Path
) -> None:
    store = tmp_path / "runs.db"
    async with asyncio.timeout(60), serving(store) as first, person(browser, first.base) as ana:
        await ana.page.goto(first.url)
        await ana.page.get_by_role("link", name="Start a run").click()
        await ana.page.get_by_role("button", name="Start", exact=True).click()
        await expect(ana.page.get_by_text(f"This is process {first.pid}.")).to_be_visible()
        await first.kill()
        await expect(ana.page.get_by_text("The connection is gone.")).to_be_visible()
        async with serving(store, first.port) as second:
            await expect(ana.page.get_by_text(f"This is process {second.pid}.")).to_be_visible()
            await expect(ana.page.get_by_text("The connection is gone.")).to_have_count(0)
            await expect(ana.page.get_by_text(f"This is process {first.pid}.")).to_be_visible()
            await expect(ana.page.get_by_text("Its process was gone.")).to_be_visible()
            await expect(ana.page.locator("details.step")).to_have_count(1)
            await shows(ana.page, "Running")
            await press(ana.page, "Cancel")
            await shows(ana.page, "Cancelled by you")


async def test_what_happens_while_a_page_goes_from_one_screen_to_another_is_not_missed(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    made = restartable_server(tmp_path, report=staff.report, asker=staff.asker)
    async with made as here, person(browser, here.base) as ana, person(browser, here.base) as bo:
        await ana.looks_at(here, await here.start("report"))
        await shows(ana.page, "Score churn risk")
        await bo.gets_in(here)
        others_know = asyncio.Event()

        async def connects_late(route: Route) -> None:
            await others_know.wait()
            await route.continue_()

        await ana.page.route("**/events*", connects_late)
        await ana.page.goto(f"{here.base}#/inbox")
        await here.start("asker")
        await expect(bo.page.get_by_text("Waiting · Which region?")).to_be_visible()
        others_know.set()
        await expect(ana.page.get_by_role("article", name="A question")).to_be_visible()


async def test_a_run_is_stopped_from_a_second_tab(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("report")
        await ana.looks_at(here, run)
        second = await ana.tab(f"#/runs/{run.id}")
        await press(second, "Cancel")
        await shows(ana.page, "Cancelled by you")


async def test_closing_the_tab_stops_nothing(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("report")
        await ana.looks_at(here, run)
        await shows(ana.page, "Score churn risk")
        await ana.page.close()
        staff.says("Nobody looks.")
        staff.says("")
        assert await run.result() == "the memo is written"


async def test_whoever_has_a_link_to_stop_may_stop_that_run_and_sees_no_other(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    made = restartable_server(tmp_path, report=staff.report, asker=staff.asker)
    async with made as here, person(browser, here.base) as bo:
        run, other = await here.start("report"), await here.start("asker")
        await bo.page.goto(here.base + here.share_link(run, "control"))
        await shows(bo.page, "Score churn risk")
        assert "share" not in bo.page.url
        await expect(bo.page.get_by_role("navigation")).to_have_count(0)
        await bo.page.goto(f"{here.base}#/runs/{other.id}")
        await expect(bo.page.get_by_role("heading", name="report", exact=True)).to_be_visible()
        await expect(bo.page.get_by_text("Which region?")).to_have_count(0)
        await press(bo.page, "Cancel")
        await shows(bo.page, "Cancelled")
        [asked] = await here.happened(run, CancelRequested)
        assert (asked.by, asked.via) == ("bo", "page, link")
        assert (await other.snapshot()).state is RunState.WAITING


async def test_whoever_has_a_link_to_watch_can_press_nothing(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as bo,
    ):
        run = await here.start("report")
        await bo.page.goto(here.base + here.share_link(run, "view"))
        await shows(bo.page, "Score churn risk")
        for key in ("p", "r", "c", "Enter"):
            await bo.page.keyboard.press(key)
        for name in ("Pause", "Cancel"):
            await button(bo.page, name).dispatch_event("click")
        staff.says("Still at it.")
        await expect(bo.page.get_by_text("Still at it.")).to_be_visible()
        assert (await run.snapshot()).state is RunState.RUNNING
        for kind in (PauseRequested, CancelRequested, Redirected):
            assert await here.happened(run, kind) == []
