"""What somebody who saw it for the first time did not understand, each as it is now."""

from pathlib import Path
from typing import Any

import pytest
from playwright.async_api import Browser, Locator, Page, ViewportSize

from pullcord import RunState
from pullcord.limits import MaxSteps, Spent
from tests.agents.provider.reply import say
from tests.runs.observed_runs import shown
from tests.web.browser import bar, button, expect, press, shows
from tests.web.people import Person, person
from tests.web.restartable_server import RestartableServer, restartable_server
from tests.web.staff import Staff
from tests.web.states import ANSWER
from tests.web.stopping_everything import release, stop_everything
from tests.web.talking import talker

SIZES: list[ViewportSize] = [
    {"width": 1440, "height": 900},
    {"width": 1024, "height": 768},
    {"width": 390, "height": 844},
]


def sized(size: ViewportSize) -> str:
    return str(size["width"])


# --- a refusal ---

WHERE = """one => {
  const said = one.querySelector('.notice bdi').getBoundingClientRect();
  const inside = one.getBoundingClientRect();
  const buttons = [...one.querySelectorAll('.press')].map((b) => b.getBoundingClientRect());
  const over = buttons.filter((b) => b.bottom > said.top && b.top < said.bottom
    && b.right > said.left && b.left < said.right);
  return {
    isInside: said.left >= inside.left && said.right <= inside.right && said.top >= inside.top
      && said.bottom <= Math.min(inside.bottom, innerHeight),
    covers: over.length,
    height: inside.height,
    width: said.width,
  };
}"""
LONG = (
    "Cannot resume run sf6a3uqjh4: the kill switch is engaged (by root: it is only a drill, and "
    "we wanted to see how long it takes). Nothing was changed. Somebody has to release it first: "
    "pullcord kill-switch release"
)


@pytest.mark.parametrize("size", SIZES, ids=sized)
async def test_a_refusal_can_be_read_and_moves_and_covers_no_button(
    browser: Browser, tmp_path: Path, staff: Staff, size: ViewportSize
) -> None:
    made = restartable_server(tmp_path, report=staff.report)
    async with made as here, person(browser, here.base, viewport=size) as ana:
        run = await here.start("report")
        await ana.looks_at(here, run)
        await shows(ana.page, "Score churn risk")
        await refuse_everything(ana.page)
        before: Any = await bar(ana.page).bounding_box()
        await press(ana.page, "Pause")
        notice = bar(ana.page).locator(".notice")
        await expect(notice).to_contain_text("Release it first")
        await expect(notice).not_to_contain_text("pullcord kill-switch")
        found: Any = await bar(ana.page).evaluate(WHERE)
        assert found["isInside"]
        assert found["covers"] == 0
        assert found["width"] >= 300
        assert await bar(ana.page).bounding_box() == before
        picture = Path(".screens") / f"refused-{size['width']}.png"
        await ana.page.screenshot(path=picture)


async def refuse_everything(page: Page) -> None:
    ack = {"verdict": "rejected", "seq": 1, "state": "running", "reason": "kill_switch"}
    said = {"type": "about:blank", "title": "Not done", "status": 409, "code": "kill_switch"}
    body: dict[str, Any] = {**said, "detail": LONG, "ack": {**ack, "message": LONG}}
    await page.route("**/runs/*/pause", lambda route: route.fulfill(status=409, json=body))


async def test_what_the_kill_switch_holds_says_so_and_can_be_resumed_only_after_the_release(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    made = restartable_server(tmp_path, report=staff.report)
    async with made as here, person(browser, here.base) as ana, person(browser, here.base) as bo:
        run = await here.start("report")
        await ana.looks_at(here, run)
        await bo.page.goto(here.base + here.share_link(run, "control"))
        await shows(ana.page, "Score churn risk")
        await stop_everything(ana, "drill")
        for page in (ana.page, bo.page):
            await shows(page, "Paused by the kill switch (ana)", "drill")
            await expect(button(page, "Resume")).to_have_attribute("aria-disabled", "true")
        await expect(bar(ana.page)).to_contain_text("release it first, at the top")
        await expect(bar(bo.page)).to_contain_text("an admin has to release it first")
        await release(ana, "it was a drill")
        await expect(bar(ana.page)).to_contain_text("goes on where it stopped")
        await expect(bar(ana.page)).not_to_contain_text("release")
        await press(ana.page, "Resume")
        await shows(ana.page, "Running")


# --- why ---

FOOT_IS_CLEAR = """one => {
  const foot = one.querySelector('.foot bdi, .foot');
  const words = document.createRange();
  words.selectNodeContents(foot);
  const { top, right, bottom, left } = words.getBoundingClientRect();
  const over = [...one.querySelectorAll('.says bdi, .chip')].map((b) => b.getBoundingClientRect())
    .filter((b) => b.bottom > top && b.top < bottom && b.right > left && b.left < right);
  return [over.length, bottom <= one.getBoundingClientRect().bottom - 4];
}"""


@pytest.mark.parametrize("width", [1440, 1280, 1060, 390])
async def test_what_is_said_of_a_reason_covers_nothing(
    browser: Browser, tmp_path: Path, staff: Staff, width: int
) -> None:
    size: ViewportSize = {"width": width, "height": 900}
    made = restartable_server(tmp_path, report=staff.report)
    async with made as here, person(browser, here.base, viewport=size) as ana:
        run = await here.start("report")
        await ana.looks_at(here, run)
        await shows(ana.page, "Score churn risk")
        before: Any = await bar(ana.page).bounding_box()
        await bar(ana.page).get_by_role("button", name="wrong path").click()
        await expect(bar(ana.page).locator(".foot")).not_to_be_empty()
        assert await bar(ana.page).evaluate(FOOT_IS_CLEAR) == [0, True]
        assert await bar(ana.page).bounding_box() == before


# --- live text ---

IN_VIEW = """one => {
  const { top, bottom } = one.getBoundingClientRect();
  const box = one.closest('.scrolling').getBoundingClientRect();
  return top >= box.top && bottom <= box.bottom;
}"""


async def in_view(line: Locator) -> bool:
    return await line.evaluate(IN_VIEW)


def spoken(page: Page) -> Locator:
    return page.locator("#report .said").last


async def speaks(page: Page, staff: Staff, numbers: range) -> None:
    for number in numbers:
        staff.says(f"Line {number} of what it found.\n")
    await expect(spoken(page)).to_contain_text(f"Line {numbers[-1]} of")
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50)))")


END_IN_VIEW = """one => {
  const bottom = one.getBoundingClientRect().bottom;
  const box = one.closest('.scrolling').getBoundingClientRect();
  return bottom > box.top && bottom <= box.bottom - 24;
}"""


@pytest.mark.parametrize("size", [SIZES[0], SIZES[2]], ids=sized)
async def test_what_it_says_is_followed_until_somebody_scrolls_up_and_again_on_a_press(
    browser: Browser, tmp_path: Path, staff: Staff, size: ViewportSize
) -> None:
    made = restartable_server(tmp_path, report=staff.report)
    async with made as here, person(browser, here.base, viewport=size) as ana:
        run = await here.start("report")
        await ana.looks_at(here, run)
        await shows(ana.page, "Score churn risk")
        box = ana.page.locator(".scrolling")
        for start in (0, 30, 60):
            await speaks(ana.page, staff, range(start, start + 30))
            assert await spoken(ana.page).evaluate(END_IN_VIEW)
        await ana.page.mouse.move(size["width"] * 0.6, 200)
        await ana.page.mouse.wheel(0, -300)
        to_end = ana.page.get_by_role("button", name="To the end")
        await expect(to_end).to_be_visible()
        top = await box.evaluate("one => one.scrollTop")
        await speaks(ana.page, staff, range(90, 120))
        assert await box.evaluate("one => one.scrollTop") == top
        await to_end.click()
        await speaks(ana.page, staff, range(120, 150))
        assert await spoken(ana.page).evaluate(END_IN_VIEW)
        await expect(to_end).to_have_count(0)


async def test_whoever_watches_a_run_to_its_end_sees_the_receipt_from_its_beginning(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    made = restartable_server(tmp_path, report=staff.report)
    async with made as here, person(browser, here.base, viewport=SIZES[2]) as ana:
        run = await here.start("report")
        await ana.looks_at(here, run)
        await shows(ana.page, "Score churn risk")
        await speaks(ana.page, staff, range(60))
        await press(ana.page, "Cancel")
        await shows(ana.page, "Cancelled by you")
        receipt = ana.page.get_by_role("region", name="Receipt")
        await expect(receipt.locator(".no_undo")).to_be_in_viewport(ratio=1)
        assert await in_view(receipt.get_by_role("heading", name="Receipt"))


async def test_whoever_opens_a_run_that_is_over_reads_it_from_the_beginning(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("report")
        for number in range(80):
            staff.says(f"Line {number} of what it found.\n")
        staff.says("")
        await run.wait_for(RunState.COMPLETED)
        await ana.looks_at(here, run)
        await expect(spoken(ana.page)).to_be_attached()
        await expect(ana.page.get_by_role("button", name="To the end")).to_be_visible()
        assert await ana.page.locator(".scrolling").evaluate("one => one.scrollTop") == 0
        await ana.page.get_by_role("button", name="To the end").click()
        assert await in_view(ana.page.get_by_text("the memo is written"))


# --- the receipt ---


async def test_the_receipt_names_what_nothing_can_undo(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("report")
        await ana.looks_at(here, run)
        await shows(ana.page, "Score churn risk")
        await expect(bar(ana.page)).to_contain_text("cannot undo 1: tell_the_team")
        await press(ana.page, "Cancel")
        await shows(ana.page, "Cancelled by you")
        await expect(bar(ana.page).locator(".tally")).to_contain_text("2 done (1 has no undo)")
        on_page = ana.page.get_by_role("region", name="Receipt").locator(".no_undo")
        await expect(on_page).to_contain_text("tell_the_team")
        await expect(on_page).to_contain_text("nothing says how to undo it")
        await expect(on_page).not_to_contain_text("book_room")  # its undo has failed
        await press(ana.page, "Receipt")
        lines = bar(ana.page).locator(".receipt .line")
        await expect(lines.filter(has_text="has no undo")).to_contain_text("tell_the_team")
        asked = lines.filter(has_text="asked")
        await expect(asked).not_to_contain_text("AM")
        await expect(asked).not_to_contain_text("PM")


# --- a run that has ended ---

EMPTY_BELOW = """one => {
  const said = [...one.querySelectorAll('.says')].map((p) => p.getBoundingClientRect().bottom);
  return one.getBoundingClientRect().bottom - Math.max(...said);
}"""


@pytest.mark.parametrize("size", SIZES, ids=sized)
async def test_a_run_that_has_ended_keeps_no_room_for_what_it_does_not_say(
    browser: Browser, tmp_path: Path, staff: Staff, size: ViewportSize
) -> None:
    made = restartable_server(tmp_path, fails=staff.fails)
    async with made as here, person(browser, here.base, viewport=size) as ana:
        run = await here.start("fails")
        await ana.looks_at(here, run)
        await shows(ana.page, "Failed")
        assert await bar(ana.page).evaluate(EMPTY_BELOW) <= 16
        whole: Any = await bar(ana.page).bounding_box()
        assert whole["height"] <= 0.3 * size["height"]
        await ana.page.route("**/fork", lambda route: route.abort())
        await press(ana.page, "Try again")
        await expect(bar(ana.page).locator(".notice")).to_contain_text("does not answer")
        assert await bar(ana.page).evaluate(FOOT_IS_CLEAR) == [0, True]


# --- a run that is held ---


def card(page: Page) -> Locator:
    return page.get_by_role("article", name="send_email waits to be allowed")


async def held_mail(here: RestartableServer, ana: Person) -> Any:
    run = await here.start("mail")
    await run.wait_for(RunState.WAITING)
    await run.pause(by="ana")
    await run.wait_for(RunState.PAUSED)
    await ana.gets_in(here)
    return run


async def test_a_call_of_a_paused_run_says_that_it_is_made_on_resume_before_and_after(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, mail=staff.mail) as here,
        person(browser, here.base) as ana,
    ):
        run = await held_mail(here, ana)
        await ana.page.goto(f"{here.base}#/inbox")
        await expect(card(ana.page)).to_contain_text("Made when you resume the run")
        await card(ana.page).get_by_role("button", name="Approve").click()
        word = ana.page.get_by_text("send_email is approved. It is made when the run is resumed.")
        await expect(word).to_be_visible()
        await ana.page.goto(f"{here.base}#/runs/{run.id}")
        await expect(word).to_be_visible()
        await shows(ana.page, "send_email: approved, made on resume")
        await expect(bar(ana.page)).to_contain_text("makes send_email, and goes on")
        assert staff.did == []
        await press(ana.page, "Resume")
        await shows(ana.page, "Completed")
        await expect(word).to_have_count(0)
        assert len(staff.did) == 1


async def test_a_changed_call_of_a_paused_run_says_that_it_is_asked_about_on_resume(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, mail=staff.mail) as here,
        person(browser, here.base) as ana,
    ):
        run = await held_mail(here, ana)
        await ana.page.goto(f"{here.base}#/runs/{run.id}")
        await card(ana.page).get_by_role("button", name="Edit the arguments").click()
        await card(ana.page).get_by_role("button", name="Ask about the changed call").click()
        await shows(ana.page, "send_email: changed, asked about again on resume")
        await expect(ana.page.get_by_text("send_email is changed.")).to_be_visible()


async def test_a_redirect_of_a_paused_model_run_says_when_the_agent_is_told(
    browser: Browser, tmp_path: Path
) -> None:
    async with (
        talker() as (provider, agent),
        restartable_server(tmp_path, talker=agent) as here,
        person(browser, here.base) as ana,
    ):
        provider.script = [say(ANSWER * 3, stall_after=40)]
        run = await here.start("talker", "What does it look like?")
        await shown(run, "stand out")
        await ana.looks_at(here, run)
        await expect(bar(ana.page)).to_contain_text("the agent is told at once")
        await run.pause(by="ana", now=True)
        await shows(ana.page, "Paused")
        await expect(bar(ana.page)).to_contain_text("it is told when resumed")
        await press(ana.page, "Redirect")
        await bar(ana.page).get_by_label("New instruction").fill("Only the EU")
        await bar(ana.page).get_by_role("button", name="Send").click()
        await expect(bar(ana.page).locator(".added")).to_contain_text("Only the EU")
        await expect(bar(ana.page).locator(".added")).not_to_contain_text("told")
        provider.hang_up()


async def test_an_item_of_a_run_that_waits_for_a_person_does_not_say_that_it_runs(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, mail=staff.planned_mail) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("mail")
        await run.wait_for(RunState.WAITING)
        await ana.looks_at(here, run)
        heading = ana.page.locator(".item .heading").first
        await expect(heading.locator(".sign")).to_have_text("?")
        await expect(heading.locator(".state")).to_have_text("Waiting")
        await expect(heading.locator(".took")).to_have_text("")


# --- small things ---


async def test_the_cap_that_is_proposed_is_typed_over_and_money_is_money(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, spender=staff.spender, buyer=staff.buyer) as here,
        person(browser, here.base) as ana,
    ):
        limits = MaxSteps(2)
        run = await here.start("spender", limits=limits, on_exhausted="pause_and_ask")
        await ana.looks_at(here, run)
        await press(ana.page, "Raise the limit")
        field = bar(ana.page).get_by_role("textbox", name="steps")
        await expect(field).to_be_focused()
        await ana.page.keyboard.type("30")
        await expect(field).to_have_value("30")
        costly = await here.start("buyer", limits=Spent(usd=0.05), on_exhausted="pause_and_ask")
        await ana.goes_to(here, costly)
        await press(ana.page, "Raise the limit")
        money = bar(ana.page).get_by_role("textbox", name="US dollars")
        await expect(money).to_have_value("0.10")
        await expect(bar(ana.page)).to_contain_text("$0.07 of $0.05 used")


async def test_small_things_say_what_they_are(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    made = restartable_server(tmp_path, report=staff.report, mail=staff.mail)
    async with made as here, person(browser, here.base) as ana, person(browser, here.base) as bo:
        run = await here.start("report", thread="q3")
        await ana.looks_at(here, run)
        await shows(ana.page, "Score churn risk")
        colours = ana.page.get_by_role("button", name="Colours")
        await expect(colours).to_have_attribute("title", "Colours: as your system has them")
        mails = [await here.start("mail", thread=name) for name in ("ana-7", "bo-9")]
        for name in ("ana-7", "bo-9"):
            row = ana.page.get_by_role("navigation", name="Runs").get_by_role("link", name=name)
            await expect(row).to_be_visible()
        besides = ana.page.locator(".besides")
        await expect(besides).to_contain_text("Without stopping it")
        await expect(besides).to_contain_text("as if nobody had asked")
        await bo.page.goto(here.base + here.share_link(run, "view"))
        await shows(bo.page, "Score churn risk")
        await expect(bar(bo.page)).to_contain_text("you may watch it")
        await expect(bar(bo.page).get_by_role("button", name="wrong path")).to_have_count(0)
        await expect(bar(ana.page).get_by_role("button", name="wrong path")).to_be_visible()
        await press(ana.page, "Cancel")
        await shows(ana.page, "Cancelled by you")
        await expect(besides).not_to_contain_text("Without stopping it")
        await expect(besides).to_contain_text("This one stays as it is.")
        await ana.page.goto(f"{here.base}#/inbox")
        cards = ana.page.get_by_role("article", name="send_email waits to be allowed")
        await expect(cards).to_have_count(2)
        for name in ("ana-7", "bo-9"):
            await expect(cards.filter(has_text=name)).to_have_count(1)
        await ana.page.goto(f"{here.base}#/runs/{mails[0].id}")
        await expect(bar(ana.page)).to_contain_text("nothing to undo")


async def test_a_release_says_that_it_needs_a_reason(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, report=staff.report) as here,
        person(browser, here.base) as ana,
    ):
        await ana.gets_in(here)
        await stop_everything(ana, "")
        await ana.page.get_by_role("button", name="Release").click()
        dialog = ana.page.get_by_role("dialog", name="Release")
        await expect(dialog.get_by_label("Why, for the record (needed)")).to_be_visible()
