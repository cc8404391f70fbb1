"""The kill switch, as people see it: who may, what it will do, that it is engaged, and what a
release does not do."""

from pathlib import Path

from playwright.async_api import Browser

from pullcord import RunState
from tests.web.browser import bar, button, expect, press, shows
from tests.web.people import Person, person
from tests.web.restartable_server import RestartableServer, restartable_server
from tests.web.staff import Staff
from tests.web.stopping_everything import release, stop_everything, switch


async def test_everything_is_held_by_two_presses_and_everybody_sees_by_whom_and_why(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    made = restartable_server(tmp_path, report=staff.report, asker=staff.asker)
    async with made as here, person(browser, here.base) as ana, person(browser, here.base) as bo:
        run, other = await here.start("report"), await here.start("asker")
        await ana.looks_at(here, run)
        await shows(ana.page, "Score churn risk")
        await bo.page.goto(here.base + here.share_link(other, "view"))
        await shows(bo.page, "Waiting")
        await ana.page.get_by_role("button", name="Stop everything").click()
        dialog = ana.page.get_by_role("dialog", name="Stop everything")
        await expect(dialog).to_contain_text("All 2 runs are held where they are.")
        await expect(dialog).to_contain_text("Nothing starts until somebody releases it.")
        assert (await run.snapshot()).state is RunState.RUNNING
        await dialog.get_by_label("Why").fill("the mailer leaks")
        await dialog.get_by_role("button", name="Stop everything").click()
        for page in (ana.page, bo.page):
            await expect(switch(page)).to_contain_text("Everything is stopped by ana")
            await expect(switch(page)).to_contain_text("the mailer leaks")
        await expect(switch(ana.page)).to_contain_text("2 runs are held")
        await expect(switch(bo.page)).to_contain_text("1 run is held")
        await shows(ana.page, "Paused")
        await shows(bo.page, "Paused")
        for screen in ("#/", "#/inbox", "#/start"):
            await ana.page.goto(here.base + screen)
            await expect(switch(ana.page)).to_be_visible()


async def test_nothing_starts_or_goes_on_until_the_release_which_resumes_nothing(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("report")
        await ana.looks_at(here, run)
        await shows(ana.page, "Score churn risk")
        await stop_everything(ana, "the mailer leaks")
        await shows(ana.page, "Paused")
        resume = button(ana.page, "Resume")
        await expect(resume).to_have_attribute("aria-disabled", "true")
        await expect(bar(ana.page)).to_contain_text("release it first")
        await try_to_start(ana, here)
        await expect(ana.page.get_by_role("alert")).to_contain_text("kill switch")
        await expect(ana.page.get_by_role("alert")).to_contain_text("Release it first")
        await release(ana, "the mailer is mended")
        assert (await run.snapshot()).state is RunState.PAUSED
        assert len(await here.runtime.list(limit=10)) == 1
        await ana.page.goto(f"{here.base}#/runs/{run.id}")
        await press(ana.page, "Resume")
        await shows(ana.page, "Running")


async def try_to_start(ana: Person, here: RestartableServer) -> None:
    await ana.page.goto(f"{here.base}#/start")
    await ana.page.get_by_role("button", name="Start", exact=True).click()


async def test_only_an_admin_is_offered_the_switch_and_its_release(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as bo,
    ):
        run = await here.start("report")
        await bo.page.goto(here.base + here.share_link(run, "control"))
        await shows(bo.page, "Score churn risk")
        stop = bo.page.get_by_role("button", name="Stop everything")
        await expect(stop).to_have_count(0)
        async with person(browser, here.base) as ana:
            await ana.gets_in(here)
            await stop_everything(ana, "the mailer leaks")
        await expect(switch(bo.page)).to_be_visible()
        await expect(switch(bo.page).get_by_role("button")).to_have_count(0)
        await expect(button(bo.page, "Cancel")).to_be_visible()


async def test_a_key_that_is_held_down_and_a_dialog_that_is_closed_stop_nothing(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("report")
        await ana.looks_at(here, run)
        dialog = ana.page.get_by_role("dialog", name="Stop everything")
        await ana.page.get_by_role("button", name="Stop everything").focus()
        await ana.page.keyboard.down("Enter")
        await expect(dialog.get_by_label("Why")).to_be_focused()
        for _ in range(5):
            await ana.page.keyboard.down("Enter")  # it has not been let go
        await ana.page.keyboard.up("Enter")
        await ana.page.keyboard.press("Escape")
        await expect(dialog).to_have_count(0)
        staff.says("Still at it.")
        await expect(ana.page.get_by_text("Still at it.")).to_be_visible()
        await expect(switch(ana.page)).to_have_count(0)
        assert (await run.snapshot()).state is RunState.RUNNING


async def test_a_stop_needs_no_reason_and_its_release_does(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("report")
        await ana.looks_at(here, run)
        await stop_everything(ana, "")
        await shows(ana.page, "Paused")
        await switch(ana.page).get_by_role("button", name="Release").click()
        dialog = ana.page.get_by_role("dialog", name="Release")
        releases = dialog.get_by_role("button", name="Release, resume nothing")
        await expect(releases).to_be_disabled()
        await ana.page.keyboard.press("Enter")
        await dialog.get_by_label("Why").fill("it was a drill")
        await releases.click()
        await expect(switch(ana.page)).to_have_count(0)
