"""Three thoughts, three buttons: what somebody presses is what happens, and what they are shown."""

from pathlib import Path

from playwright.async_api import Browser

from pullcord import RunState
from pullcord.core.events import CancelRequested, ItemRewritten, Redirected
from pullcord.limits import MaxSteps
from tests.web.browser import bar, button, expect, press, shows
from tests.web.people import person
from tests.web.restartable_server import restartable_server
from tests.web.staff import Staff


async def test_a_run_is_started_from_the_form_and_its_plan_is_shown(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    made = restartable_server(tmp_path, report=staff.report, mail=staff.mail)
    async with made as here, person(browser, here.base) as ana:
        await ana.page.goto(here.base + here.launch_link())
        await ana.page.get_by_role("link", name="Start a run").click()
        await ana.page.get_by_label("Agent").select_option("report")
        await expect(ana.page.get_by_text("A churn report in four steps.")).to_be_visible()
        await ana.page.get_by_label("Thread").fill("q3")
        await ana.page.get_by_role("textbox", name="Steps", exact=True).fill("40")
        await ana.page.get_by_role("button", name="Start").click()
        await shows(ana.page, "Running", "3 of 4", "Score churn risk")
        run = await here.newest()
        assert ana.page.url.endswith(f"#/runs/{run.id}")
        for title in ("Fetch customer list", "Write summary memo"):
            await expect(ana.page.get_by_role("heading", name=title)).to_be_visible()
        await expect(bar(ana.page).locator(".numbers")).to_contain_text("of 40 steps")
        await run.cancel()
        await run.receipt()
        assert (await run.snapshot()).thread == "q3"


async def test_a_redirect_shows_its_diff_while_typing_and_on_the_paused_bar(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("report")
        await ana.looks_at(here, run)
        await staff.at_it.wait()
        await shows(ana.page, "Score churn risk")
        staff.says("Scoring 1,204 customers")
        await expect(ana.page.get_by_text("Scoring 1,204 customers")).to_be_visible()
        await press(ana.page, "Redirect")
        field = bar(ana.page).get_by_label("New instruction")
        await expect(field).to_be_focused()
        await field.press_sequentially("Write a memo about the EU")
        await expect(bar(ana.page).locator(".removed")).to_contain_text("Write summary memo")
        await expect(field).to_have_value("Write a memo about the EU")
        await field.press("Enter")
        await expect(bar(ana.page).locator(".added")).to_contain_text("Write a memo about the EU")
        await press(ana.page, "Pause")
        await shows(ana.page, "Paused by you")
        await expect(bar(ana.page).locator(".removed")).to_contain_text("Write summary memo")
        await expect(bar(ana.page).locator(".added")).to_contain_text("Write a memo about the EU")
        await press(ana.page, "Resume")
        await shows(ana.page, "Running")
        staff.says("")
        await shows(ana.page, "Completed")
        await expect(ana.page.get_by_text("Memo: Write a memo about the EU.")).to_be_visible()
        [told] = await here.happened(run, Redirected)
        assert (told.instruction, told.by) == ("Write a memo about the EU", "ana")


async def test_a_second_redirect_strikes_out_what_the_first_one_said(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("report")
        await ana.looks_at(here, run)
        await shows(ana.page, "Score churn risk")
        for dropped, instruction in (("Write summary memo", "EU only"), ("EU only", "US only")):
            await press(ana.page, "Redirect")
            await expect(bar(ana.page).locator(".removed .text")).to_have_text(dropped)
            await ana.page.keyboard.type(instruction)
            await ana.page.keyboard.press("Enter")
            await expect(bar(ana.page).locator(".added .text")).to_have_text(instruction)
        rewritten = await here.happened(run, ItemRewritten)
        assert [one.before for one in rewritten] == ["Write summary memo", "EU only"]


async def test_a_cancel_undoes_what_it_can_and_says_what_it_could_not(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("report")
        await ana.looks_at(here, run)
        await shows(ana.page, "Score churn risk")
        await expect(bar(ana.page)).to_contain_text("undoes 2, cannot undo 1: tell_the_team")
        await bar(ana.page).get_by_role("button", name="wrong path").click()
        await press(ana.page, "Cancel")
        await shows(ana.page, "Cancelled by you", "wrong path")
        tally = bar(ana.page).locator(".tally")
        await expect(tally).to_contain_text("1 undone")
        await expect(tally).to_contain_text("1 could not be undone")
        await expect(tally).to_contain_text("1 to look at")
        receipt = ana.page.get_by_role("region", name="Receipt")
        await expect(receipt.locator(".undone")).to_contain_text("create_draft")
        await expect(receipt.locator(".could_not_undo")).to_contain_text("book_room")
        await expect(receipt.locator(".not_attempted")).to_contain_text("Write summary memo")
        assert "removed draft Q3 churn" in staff.did
        [asked] = await here.happened(run, CancelRequested)
        assert (asked.by, asked.reason) == ("ana", "wrong path")
        await press(ana.page, "Continue from here")
        await bar(ana.page).get_by_label("What the next run is told").fill("a shorter one")
        await ana.page.keyboard.press("Enter")
        await shows(ana.page, "Running")
        assert (await (await here.newest()).snapshot()).thread == (await run.snapshot()).thread


async def test_a_failed_run_says_why_and_can_be_tried_again(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, fails=staff.fails) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("fails")
        await ana.looks_at(here, run)
        await shows(ana.page, "Failed", "there are no customers to divide by")
        await press(ana.page, "Try again")
        await ana.page.wait_for_url(lambda url: not url.endswith(run.id))
        await shows(ana.page, "Failed")
        assert ana.page.url.endswith((await here.newest()).id)


async def test_a_budget_that_is_used_up_is_raised_and_the_run_goes_on(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, spender=staff.spender) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("spender", limits=MaxSteps(2), on_exhausted="pause_and_ask")
        await ana.looks_at(here, run)
        await shows(ana.page, "Paused by its limits")
        await expect(bar(ana.page)).to_contain_text("raise the limit first")
        await press(ana.page, "Raise the limit")
        field = bar(ana.page).get_by_role("textbox", name="steps")
        await expect(field).to_have_value("4")
        await field.fill("30")
        await field.press("Enter")
        await shows(ana.page, "Completed")
        assert len(staff.did) == 6
        assert "of 30 steps" in (await run.receipt()).used[0]


async def test_a_button_that_has_just_changed_its_meaning_takes_no_press(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    """A double click on Cancel is one cancel, and neither "Stop now" nor what comes after it."""
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("report")
        await ana.looks_at(here, run)
        await shows(ana.page, "Score churn risk")
        await button(ana.page, "Cancel").dblclick(delay=10)
        await shows(ana.page, "Cancelled")
        await run.receipt()
        asked = await here.happened(run, CancelRequested)
        assert [press.now for press in asked] == [False]
        assert (await here.newest()).id == run.id
        assert (await run.snapshot()).state is RunState.CANCELLED
