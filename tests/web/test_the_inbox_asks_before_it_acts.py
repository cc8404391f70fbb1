"""What waits for a person: the true call first; nothing happens that was not allowed as it is."""

from pathlib import Path

from playwright.async_api import Browser, Locator, Page, ViewportSize

from pullcord import RunState
from pullcord.core.events import Answered, QuestionAsked
from tests.web.browser import bar, expect, press, shows
from tests.web.people import Person, person
from tests.web.restartable_server import restartable_server
from tests.web.staff import Staff


def card(page: Page) -> Locator:
    return page.get_by_role("article", name="send_email waits to be allowed")


async def test_a_call_with_edited_arguments_is_asked_about_again_and_exactly_that_is_made(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, mail=staff.mail) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("mail")
        await ana.looks_at(here, run)
        await shows(ana.page, "Waiting", "approve send_email")
        await press(ana.page, "Review")
        await expect(card(ana.page).locator(".call")).to_contain_text("ana@example.org")
        await card(ana.page).get_by_role("button", name="Edit the arguments").click()
        field = card(ana.page).get_by_label("The arguments, as JSON")
        await field.fill('{"to": "bo@example.org", "subject": "Your churn"}')
        await card(ana.page).get_by_role("button", name="Ask about the changed call").click()
        await expect(card(ana.page).locator(".call")).to_contain_text("bo@example.org")
        assert staff.did == []
        await card(ana.page).get_by_role("button", name="Approve").click()
        await shows(ana.page, "Completed")
        assert staff.did == ["mail to bo@example.org: Your churn"]
        asked = await here.happened(run, QuestionAsked)
        answers = await here.happened(run, Answered)
        assert len({question.call for question in asked}) == 2
        assert [(a.verdict, a.by) for a in answers] == [("edited", "ana"), ("approved", "ana")]


async def test_a_denied_call_is_not_made_and_the_agent_is_told_why(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, mail=staff.mail) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("mail")
        await ana.gets_in(here)
        await ana.page.get_by_role("link", name="Inbox").click()
        await card(ana.page).get_by_role("button", name="Deny").click()
        reason = card(ana.page).get_by_label("Why, for the agent")
        await reason.fill("not before Monday")
        await reason.press("Enter")
        await expect(ana.page.get_by_text("Nothing waits for you.")).to_be_visible()
        assert "not before Monday" in await run.result()
        assert staff.did == []


async def test_a_question_is_answered_where_it_is_asked(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, asker=staff.asker) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("asker")
        await ana.looks_at(here, run)
        await shows(ana.page, "Waiting", "Which region?")
        question = ana.page.get_by_role("article", name="A question")
        await expect(question).to_contain_text('"EU"')
        await question.get_by_label("Your answer").fill("EU")
        await question.get_by_role("button", name="Answer").click()
        await shows(ana.page, "Completed")
        await expect(ana.page.get_by_text("So it is EU.").first).to_be_visible()


async def test_a_key_that_is_held_down_approves_nothing_before_it_could_be_read(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    """Nor does a press that was meant for something else, in the second after a card came up."""
    async with (
        restartable_server(tmp_path, mail=staff.mail) as here,
        person(browser, here.base) as ana,
    ):
        approve = card(ana.page).get_by_role("button", name="Approve")
        run = await here.start("mail")
        for _ in range(10):  # on a slow machine the second may be over: then once more
            await ana.looks_at(here, run)
            await shows(ana.page, "Waiting")
            await approve.focus()
            await _hold_enter(ana)
            if "Read it first" in await approve.inner_text():
                break
            staff.did.clear()
            run = await here.start("mail")
        assert (await run.snapshot()).state is RunState.WAITING
        await expect(approve).to_contain_text("exactly as above")
        await _hold_enter(ana, repeats_only=True)
        assert (await run.snapshot()).state is RunState.WAITING
        assert staff.did == []
        await ana.page.keyboard.press("Enter")
        await shows(ana.page, "Completed")
        assert len(staff.did) == 1


async def _hold_enter(ana: Person, *, repeats_only: bool = False) -> None:
    """As a keyboard does it: one press, and then only repetitions."""
    keys = await ana.context.new_cdp_session(ana.page)
    enter = {"key": "Enter", "code": "Enter", "windowsVirtualKeyCode": 13, "text": "\r"}
    for number in range(20):
        again = repeats_only or number > 0
        down = {"type": "keyDown", "autoRepeat": again, **enter}
        await keys.send("Input.dispatchKeyEvent", down)
    await keys.send("Input.dispatchKeyEvent", {"type": "keyUp", **enter})
    await keys.detach()


async def test_the_true_call_comes_first_however_much_the_agent_says(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    """Ten thousand lines before the call do not push it out of sight: in the run, in the inbox."""
    staff.mail_words = "\n" * 10_000 + "Please approve: it only reads."
    async with (
        restartable_server(tmp_path, mail=staff.mail) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("mail")
        await ana.looks_at(here, run)
        await shows(ana.page, "Waiting")
        await press(ana.page, "Review")
        await expect(card(ana.page).locator(".call")).to_be_in_viewport(ratio=1)
        await ana.page.get_by_role("link", name="Inbox").click()
        await expect(card(ana.page).locator(".call")).to_be_in_viewport(ratio=1)
        call = await card(ana.page).locator(".call").bounding_box()
        approve = await card(ana.page).get_by_role("button", name="Approve").bounding_box()
        assert call
        assert approve
        assert call["y"] + call["height"] <= approve["y"]
        assert approve["y"] + approve["height"] <= 900


# Scrolls on by less than there is in view, and lets that be seen.
DOWN = """box => new Promise(seen => {
    box.scrollTop += 100;
    requestAnimationFrame(() => requestAnimationFrame(seen));
})"""


def payment(page: Page) -> Locator:
    return page.get_by_role("article", name="pay waits to be allowed")


async def test_numbers_that_a_browser_would_round_are_shown_edited_and_allowed_as_they_are(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, payer=staff.payer) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("payer", {"account": 2**53 + 1, "rate": 1.0})
        await ana.looks_at(here, run)
        await press(ana.page, "Review")
        call = payment(ana.page).locator(".call")
        await expect(call.locator("dd")).to_have_text(["9007199254740993", "1.0"])
        await payment(ana.page).get_by_role("button", name="Edit the arguments").click()
        field = payment(ana.page).get_by_label("The arguments, as JSON")
        await expect(field).to_have_value('{\n  "account": 9007199254740993,\n  "rate": 1.0\n}')
        await field.fill('{"account": 18446744073709551615, "rate": 2.0}')
        await payment(ana.page).get_by_role("button", name="Ask about the changed call").click()
        await expect(call.locator("dd")).to_have_text(["18446744073709551615", "2.0"])
        await payment(ana.page).get_by_role("button", name="Approve").click()
        await shows(ana.page, "Completed")
        assert staff.did == ["paid {'account': 18446744073709551615, 'rate': 2.0}"]


async def test_a_call_cannot_be_allowed_while_something_of_it_is_folded(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    """Nor is the name of an argument cut."""
    name = "n" * 60 + "_the_end_of_it"
    async with (
        restartable_server(tmp_path, payer=staff.payer) as here,
        person(browser, here.base) as ana,
    ):
        text = "x" * 120 + " DROP TABLE users; " + "y" * 100
        run = await here.start("payer", {name: 1, "note": text})
        await ana.looks_at(here, run)
        await press(ana.page, "Review")
        approve = payment(ana.page).get_by_role("button", name="Approve")
        await expect(payment(ana.page).locator("dt").first).to_have_text(name)
        await expect(approve).to_contain_text("Read it first: show all of it")
        await ana.page.wait_for_timeout(1_300)  # longer than it takes to read what is not folded
        await expect(approve).to_contain_text("Read it first: show all of it")
        await approve.dispatch_event("click")
        await payment(ana.page).get_by_role("button", name="characters more").click()
        await expect(payment(ana.page).locator(".call")).to_contain_text("DROP TABLE users;")
        await expect(approve).to_contain_text("exactly as above")
        assert (await run.snapshot()).state is RunState.WAITING
        await approve.click()
        await shows(ana.page, "Completed")


async def test_a_call_cannot_be_allowed_before_its_end_was_in_view(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    given = {**{f"field{n:02}": "harmless" for n in range(40)}, "zz_to": "eve@example.org"}
    async with (
        restartable_server(tmp_path, payer=staff.payer) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("payer", given)
        await ana.looks_at(here, run)
        await press(ana.page, "Review")
        approve = payment(ana.page).get_by_role("button", name="Approve")
        await expect(approve).to_contain_text("Read it first: scroll through to its end")
        await ana.page.wait_for_timeout(1_300)
        await expect(approve).to_contain_text("Read it first: scroll through to its end")
        await approve.dispatch_event("click")
        args = payment(ana.page).locator(".args")
        for _ in range(5):  # a busy browser may not have noticed a part: then it is read again
            await args.evaluate("box => { box.scrollTop = 0; }")
            for _ in range(9):
                await args.evaluate(DOWN)
            if "exactly as above" in await approve.inner_text():
                break
        await expect(payment(ana.page).locator("dd").last).to_be_in_viewport()
        await expect(approve).to_contain_text("exactly as above")
        assert (await run.snapshot()).state is RunState.WAITING
        await approve.click()
        await shows(ana.page, "Completed")


async def test_a_call_whose_end_lies_under_the_bar_has_not_been_read(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    given = {f"field{n}": "harmless" for n in range(6)}
    small: ViewportSize = {"width": 1440, "height": 680}
    made = restartable_server(tmp_path, payer=staff.payer)
    async with made as here, person(browser, here.base, viewport=small) as ana:
        run = await here.start("payer", given)
        await ana.looks_at(here, run)
        approve = payment(ana.page).get_by_role("button", name="Approve")
        await expect(approve).to_be_attached()
        await ana.page.mouse.move(720, 100)
        await ana.page.mouse.wheel(0, -5_000)  # to its beginning, wherever the page had gone
        place = await payment(ana.page).locator(".args").bounding_box()
        over = await bar(ana.page).bounding_box()
        assert place
        assert over
        assert over["y"] < place["y"] + place["height"]
        await ana.page.wait_for_timeout(1_300)
        await expect(approve).to_contain_text("Read it first: scroll through to its end")
        await press(ana.page, "Review")
        await expect(approve).to_contain_text("exactly as above")
