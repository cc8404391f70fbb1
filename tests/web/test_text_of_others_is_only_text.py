"""Whatever a model or a tool says, wherever it says it: nothing of it runs or leaves the page,
nothing of it passes for something else, and the call that will be made is seen first."""

from pathlib import Path
from typing import Final

import pytest
from playwright.async_api import Browser, Page

from pullcord import RunState
from tests.agents.provider.reply import Reply, Text, Thinking
from tests.storage.campaign import FULL
from tests.web.browser import bar, expect
from tests.web.mouth import babble, batches, mouth, stop_with, stumble, until_it_asks
from tests.web.payloads import CLASSES, PAYLOADS, mark
from tests.web.people import Person, person
from tests.web.restartable_server import RestartableServer, restartable_server
from tests.web.talking import talker

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(900 if FULL else 120)]

TOGETHER: Final = 1 if FULL else 32
SHORT: Final = [text for text in PAYLOADS if len(text) < 1_000]
# Everything the page is made of. A tag that is not among these came out of somebody's text.
TAGS: Final = """
    a article aside b bdi blockquote body button circle code dd defs del desc details dialog div dl
    dt fieldset figcaption figure footer form g h1 h2 h3 h4 head header html input ins kbd label
    legend li line link main meta nav ol option p path pattern pre pullcord-bar q rect script
    section select span strong summary svg text textarea time title tspan ul
"""
STRANGE: Final = """(known) => {
  const found = [];
  const tags = known.trim().split(/\\s+/);
  const unseen = /[\\u0000-\\u0008\\u000b-\\u001f\\u007f-\\u009f\\u00ad\\u200b-\\u200f\\u2028-\\u202e\\u2060-\\u206f\\ufeff]/;
  const look = (root) => {
    for (const one of root.querySelectorAll('*')) {
      const tag = one.localName;
      if (!tags.includes(tag)) found.push(tag);
      if (tag === 'script' && new URL(one.src).origin !== location.origin) found.push(one.src);
      for (const { name, value } of one.attributes) {
        if (name.startsWith('on') || name === 'srcdoc') found.push(`${tag} ${name}`);
        if (/^(href|src|action|xlink:href)$/.test(name) && /^\\s*(javascript|data|vbscript|http):/i.test(value)
            && !value.startsWith(location.origin)) found.push(`${tag} ${name}=${value}`);
      }
      for (const child of one.childNodes)
        if (child.nodeType === 3 && unseen.test(child.data)) found.push(`unseen in ${tag}: ${JSON.stringify(child.data.slice(0, 80))}`);
      if (one.shadowRoot) look(one.shadowRoot);
    }
  };
  look(document);
  return found;
}"""  # noqa: E501 (the list of what is not seen is one thing)
CANARY: Final = (
    "window.sung = []; window.canary = (...what) => { window.sung.push(String(what)); };"
)


async def is_only_text(page: Page) -> None:
    await page.evaluate(
        "document.querySelectorAll('details').forEach((one) => { one.open = true; })"
    )
    await page.evaluate("new Promise((done) => requestAnimationFrame(() => setTimeout(done, 30)))")
    assert await page.evaluate(STRANGE, TAGS) == []
    assert await page.evaluate("window.sung") == []


async def hover_over_everything(page: Page) -> None:
    """Handlers of the mouse run only if it is moved."""
    for y in range(20, 880, 60):
        await page.mouse.move(600, y)


async def shows_marks(page: Page, texts: list[str]) -> None:
    """Nothing of it was swallowed: each text is there to be read."""
    wanted = [mark(PAYLOADS.index(text)) for text in texts]
    there = "marks => marks.every((mark) => document.body.textContent.includes(mark))"
    await page.wait_for_function(there, arg=wanted)


async def gets_in_with_canary(ana: Person, here: RestartableServer) -> None:
    await ana.context.add_init_script(CANARY)
    await ana.gets_in(here)


def test_there_are_enough_of_them() -> None:
    assert len(PAYLOADS) == len(set(PAYLOADS)) >= 100
    assert len(CLASSES) >= 10


async def test_the_eyes_see_what_they_look_for(browser: Browser) -> None:
    page = await browser.new_page()
    await page.set_content(
        "<img onclick=canary(1)><a href='javascript:canary(1)'>a\u202eb</a><bdi>c\x1bd</bdi>"
    )
    found = await page.evaluate(STRANGE, TAGS)
    await page.close()
    assert [one.split(":")[0] for one in found] == [
        "img", "img onclick", "a href=javascript", "unseen in a", "unseen in bdi",
    ]  # fmt: skip


async def test_nothing_that_an_agent_says_or_does_runs_in_the_page(
    browser: Browser, tmp_path: Path
) -> None:
    made = restartable_server(tmp_path, bound_s=880 if FULL else 100, mouth=mouth)
    async with made as here, person(browser, here.base) as ana:
        await gets_in_with_canary(ana, here)
        for texts in batches(SHORT, TOGETHER):
            run = await here.start("mouth", texts)
            await until_it_asks(run, texts)
            await ana.page.goto(f"{here.base}#/inbox")
            await expect(ana.page.locator("article.approval")).to_have_count(len(texts))
            await expect(ana.page.locator("article.question")).to_have_count(len(texts))
            await is_only_text(ana.page)
            await stop_with(run, texts[0])
            await ana.page.goto(f"{here.base}#/runs/{run.id}")
            await expect(bar(ana.page)).to_have_attribute("data-state", "paused")
            await shows_marks(ana.page, texts)
            await is_only_text(ana.page)
            if FULL:
                await hover_over_everything(ana.page)
            await run.cancel()
            await run.wait_for(RunState.CANCELLED)
        await hover_over_everything(ana.page)
        await is_only_text(ana.page)


async def test_nothing_runs_that_comes_in_pieces_cut_anywhere(
    browser: Browser, tmp_path: Path
) -> None:
    made = restartable_server(tmp_path, bound_s=880 if FULL else 100, babble=babble)
    async with made as here, person(browser, here.base) as ana:
        await gets_in_with_canary(ana, here)
        for text in SHORT if FULL else SHORT[::18]:
            run = await here.start("babble", text)
            await ana.page.goto(f"{here.base}#/runs/{run.id}")
            await expect(bar(ana.page)).to_have_attribute("data-state", "waiting")
            await is_only_text(ana.page)


async def test_nothing_that_a_model_thinks_runs_in_the_page(
    browser: Browser, tmp_path: Path
) -> None:
    async with talker() as (provider, agent):
        made = restartable_server(tmp_path, bound_s=880 if FULL else 100, talker=agent)
        async with made as here, person(browser, here.base) as ana:
            await gets_in_with_canary(ana, here)
            for texts in batches(SHORT, TOGETHER):
                thoughts = [Thinking(text="\n".join(texts)), Text(text="So it is.")]
                provider.script = [Reply(parts=thoughts, chunk_chars=7)]
                run = await here.start("talker", "go")
                await ana.page.goto(f"{here.base}#/runs/{run.id}")
                await expect(bar(ana.page)).to_have_attribute("data-state", "completed")
                await expect(ana.page.locator("details.thought")).to_have_count(1)
                await is_only_text(ana.page)
                await shows_marks(ana.page, texts)
                await is_only_text(ana.page)


async def test_no_error_and_no_input_runs_in_the_page(browser: Browser, tmp_path: Path) -> None:
    made = restartable_server(tmp_path, bound_s=880 if FULL else 100, stumble=stumble)
    async with made as here, person(browser, here.base) as ana:
        await gets_in_with_canary(ana, here)
        for text in SHORT if FULL else SHORT[::20]:
            run = await here.start("stumble", text)
            await run.wait_for(RunState.FAILED)
            await ana.page.goto(f"{here.base}#/runs/{run.id}")
            await expect(bar(ana.page)).to_have_attribute("data-state", "failed")
            await shows_marks(ana.page, [text])
            await is_only_text(ana.page)


LONG: Final = {
    "one long line": "y" * (900_000 if FULL else 200_000),
    "ten thousand lines": "\n" * 10_000 + "end",
    "deep marks": "<b>" * 30_000,
    "a pile of accents": "a" + "\u0300" * 50_000,
    "an endless word": "\u0628" * 50_000,
}


@pytest.mark.parametrize("text", LONG.values(), ids=LONG.keys())
async def test_the_call_is_seen_whole_however_long_its_name_and_arguments_are(
    browser: Browser, tmp_path: Path, text: str
) -> None:
    made = restartable_server(tmp_path, mouth=mouth)
    async with made as here, person(browser, here.base) as ana:
        await gets_in_with_canary(ana, here)
        await here.start("mouth", [text])
        await ana.page.goto(f"{here.base}#/inbox")
        card = ana.page.locator("article.approval")
        await expect(card.get_by_role("button", name="Approve")).to_contain_text("show all of it")
        await expect(card.locator(".call")).to_be_in_viewport(ratio=1)
        call = await card.locator(".call").bounding_box()
        approve = await card.get_by_role("button", name="Approve").bounding_box()
        assert call
        assert approve
        assert call["y"] + call["height"] <= approve["y"]
        assert approve["y"] + approve["height"] <= 900
        await is_only_text(ana.page)
