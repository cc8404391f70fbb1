"""What waits for a person: the true call first; nothing happens that was not allowed as it is."""

from pathlib import Path

from playwright.async_api import Browser, Locator, Page, expect

from pullcord import RunState as S
from pullcord.core.events import Answered, QuestionAsked
from tests.web.browser import press, shows
from tests.web.house import house
from tests.web.people import Person, person
from tests.web.staff import Staff


def card(page: Page) -> Locator:
    return page.get_by_role("article", name="send_email waits to be allowed")


async def test_a_call_with_edited_arguments_is_asked_about_again_and_exactly_that_is_made(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with house(tmp_path, mail=staff.mail) as here, person(browser, here.base) as ana:
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
    async with house(tmp_path, mail=staff.mail) as here, person(browser, here.base) as ana:
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
    async with house(tmp_path, asker=staff.asker) as here, person(browser, here.base) as ana:
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
    async with house(tmp_path, mail=staff.mail) as here, person(browser, here.base) as ana:
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
        assert (await run.look()).state is S.WAITING
        await expect(approve).to_contain_text("exactly as above")
        await _hold_enter(ana, repeats_only=True)
        assert (await run.look()).state is S.WAITING
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
    async with house(tmp_path, mail=staff.mail) as here, person(browser, here.base) as ana:
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
