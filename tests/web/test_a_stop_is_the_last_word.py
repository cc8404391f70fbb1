"""A stop, as somebody sees it: after the acknowledgement no character appears, and the provider's
connection is closed."""

from pathlib import Path

from playwright.async_api import Browser

from pullcord import Timing
from pullcord.core.events import TextEnded
from tests.agents.provider.reply import say
from tests.web.browser import bar, button, expect, press, shows
from tests.web.people import person
from tests.web.restartable_server import restartable_server
from tests.web.talking import grew_after_ack, talker, watch_text

LONG = " ".join(f"word{number}" for number in range(4_000))


async def test_a_pause_in_the_middle_of_an_answer_shows_no_further_character(
    browser: Browser, tmp_path: Path
) -> None:
    async with talker() as (provider, agent), restartable_server(tmp_path, talker=agent) as here:
        provider.script = [say(LONG, chunk_delay_s=0.002), say("And on.")]
        async with person(browser, here.base) as ana:
            run = await here.start("talker", "go")
            await ana.looks_at(here, run)
            await expect(ana.page.locator("div.said")).to_contain_text("word9")
            await watch_text(ana.page)
            await press(ana.page, "Pause")
            await shows(ana.page, "Pausing", "letting the answer finish", "cut in 10 s")
            await shows(ana.page, "cut in 9 s")
            assert provider.open_connections()
            await press(ana.page, "Cut now")
            await shows(ana.page, "Paused by you")
            assert await grew_after_ack(ana.page) == 0
            await provider.async_wait_closed(0)
            await press(ana.page, "Resume")
            await expect(ana.page.get_by_text("And on.").first).to_be_visible()
            await shows(ana.page, "Completed")


async def test_a_pause_lets_the_answer_finish_unseen_and_hands_it_over_later(
    browser: Browser, tmp_path: Path
) -> None:
    async with talker() as (provider, agent), restartable_server(tmp_path, talker=agent) as here:
        provider.script = [say("This is seen. This is held.", chunk_chars=14, stall_after=1)]
        async with person(browser, here.base) as ana:
            run = await here.start("talker", "go")
            await ana.looks_at(here, run)
            await expect(ana.page.get_by_text("This is seen.")).to_be_visible()
            await press(ana.page, "Pause")
            await shows(ana.page, "Pausing")
            provider.release()
            await shows(ana.page, "Paused by you")
            await expect(ana.page.locator("div.said")).not_to_contain_text("This is held.")
            await press(ana.page, "Resume")
            await shows(ana.page, "Completed")
            assert len(provider.seen) == 1


async def test_a_cancel_closes_the_providers_socket_and_keeps_what_was_shown(
    browser: Browser, tmp_path: Path
) -> None:
    async with talker() as (provider, agent), restartable_server(tmp_path, talker=agent) as here:
        provider.script = [say(LONG, chunk_delay_s=0.002)]
        async with person(browser, here.base) as ana:
            run = await here.start("talker", "go")
            await ana.looks_at(here, run)
            await expect(ana.page.locator("div.said")).to_contain_text("word9")
            await watch_text(ana.page)
            await press(ana.page, "Cancel")
            await shows(ana.page, "Cancelled by you")
            assert await grew_after_ack(ana.page) == 0
            assert (await provider.async_wait_closed(0)).cut_short
            await expect(ana.page.get_by_text("cut here")).to_be_visible()
            [kept] = await here.happened(run, TextEnded)
            assert not kept.complete
            shown = await ana.page.locator("div.said").inner_text()
            assert kept.text.startswith(shown.partition(" ■ cut here")[0].rstrip())


async def test_a_hold_that_nobody_hurries_ends_by_itself(browser: Browser, tmp_path: Path) -> None:
    patience = Timing(hold_s=1.5)
    async with (
        talker() as (provider, agent),
        restartable_server(tmp_path, timing=patience, talker=agent) as here,
    ):
        provider.script = [say(LONG, stall_after=20)]
        async with person(browser, here.base) as ana:
            run = await here.start("talker", "go")
            await ana.looks_at(here, run)
            await expect(ana.page.locator("div.said")).to_contain_text("word9")
            await press(ana.page, "Pause")
            await shows(ana.page, "cut in", "Paused by you")
            assert (await provider.async_wait_closed(0)).cut_short


async def test_a_redirect_cuts_the_answer_and_the_model_is_told(
    browser: Browser, tmp_path: Path
) -> None:
    async with talker() as (provider, agent), restartable_server(tmp_path, talker=agent) as here:
        provider.script = [say(LONG, stall_after=20), say("Only the EU, then.")]
        async with person(browser, here.base) as ana:
            run = await here.start("talker", "go")
            await ana.looks_at(here, run)
            await expect(ana.page.locator("div.said")).to_contain_text("word9")
            await press(ana.page, "Redirect")
            await bar(ana.page).get_by_label("New instruction").fill("only the EU")
            await button(ana.page, "Send").click()
            await expect(ana.page.get_by_text("Only the EU, then.").first).to_be_visible()
            await shows(ana.page, "Completed")
            assert "only the EU" in str(provider.seen[1].body)
            assert (await provider.async_wait_closed(0)).cut_short
            await expect(ana.page.get_by_text("cut here")).to_be_visible()
