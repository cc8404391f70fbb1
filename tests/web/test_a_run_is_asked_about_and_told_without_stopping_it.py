"""What stands beside a run: a question about it, news from outside, and the way out."""

from pathlib import Path

from playwright.async_api import Browser

from pullcord import RunState
from pullcord.core.events import Created, Renamed, Signalled
from pullcord.limits import External
from tests.agents.provider.reply import say
from tests.web.browser import expect, shows
from tests.web.people import person
from tests.web.restartable_server import restartable_server
from tests.web.staff import Staff
from tests.web.talking import talker

LONG = " ".join(f"word{number}" for number in range(400))


async def test_a_question_about_a_run_is_answered_by_another_and_disturbs_nothing(
    browser: Browser, tmp_path: Path
) -> None:
    async with talker() as (provider, agent), restartable_server(tmp_path, talker=agent) as here:
        provider.script = [say(LONG, stall_after=20), say("It counts words.")]
        async with person(browser, here.base) as ana:
            run = await here.start("talker", "go")
            await ana.looks_at(here, run)
            await expect(ana.page.locator("div.said")).to_contain_text("word9")
            await ana.page.get_by_label("Ask about it").fill("What does it do?")
            await ana.page.get_by_role("button", name="Ask", exact=True).click()
            await expect(ana.page.get_by_text("It counts words.").first).to_be_visible()
            await shows(ana.page, "Completed")
            beside = await here.newest()
            [born] = await here.happened(beside, Created)
            assert (born.forked_from, born.aside, born.by) == (run.id, True, "ana")
            assert (await run.snapshot()).state is RunState.RUNNING


async def test_what_a_limit_waits_for_is_said_to_have_happened(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, asker=staff.asker) as here,
        person(browser, here.base) as ana,
    ):
        limits = External("the deploy") | External("the all-clear")
        run = await here.start("asker", limits=limits, on_exhausted="stop")
        await ana.looks_at(here, run)
        await shows(ana.page, "Waiting")
        deploy = ana.page.get_by_role("button", name="the deploy has happened")
        await deploy.click()
        await expect(deploy).to_have_count(0)
        all_clear = ana.page.get_by_role("button", name="the all-clear has happened")
        await expect(all_clear).to_be_visible()
        [told] = await here.happened(run, Signalled)
        assert (told.name, told.by) == ("the deploy", "ana")
        await run.cancel(by="ana")
        await expect(all_clear).to_have_count(0)


async def test_a_run_is_given_a_title_and_found_by_it(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, asker=staff.asker) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("asker")
        await ana.looks_at(here, run)
        await shows(ana.page, "Waiting")
        for title in ("churn in May", "<b>churn</b>"):
            await ana.page.get_by_role("button", name="Rename").click()
            await ana.page.get_by_label("Its title").fill(title)
            await ana.page.get_by_label("Its title").press("Enter")
            heading = ana.page.get_by_role("heading", level=1)
            await expect(heading).to_have_text(title)
            row = ana.page.get_by_role("navigation", name="Runs").get_by_role("link")
            await expect(row).to_contain_text(title)
            await expect(row).to_contain_text("asker")
            said = ana.page.locator("#report").get_by_text(f"named it: {title}")
            await expect(said).to_be_visible()
        assert (await run.snapshot()).title == "<b>churn</b>"
        assert [(e.title, e.by) for e in await here.happened(run, Renamed)] == [
            ("churn in May", "ana"),
            ("<b>churn</b>", "ana"),
        ]


async def test_whoever_signs_out_is_outside_and_stays_there(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        restartable_server(tmp_path, asker=staff.asker) as here,
        person(browser, here.base) as ana,
    ):
        run = await here.start("asker")
        await ana.looks_at(here, run)
        second = await ana.tab(f"#/runs/{run.id}")
        await shows(second, "Waiting")
        await ana.page.get_by_role("button", name="Sign out").click()
        for page in (ana.page, second):
            await expect(page.get_by_text("Your session has ended.")).to_be_visible()
        await ana.page.reload()
        await expect(ana.page.get_by_text("pullcord serve")).to_be_visible()
        await expect(ana.page.get_by_text("Which region?")).to_have_count(0)
