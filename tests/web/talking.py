"""An agent whose model is at a provider on loopback, and eyes for what of it appears in a page."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

from playwright.async_api import Page
from pydantic_ai import Agent

from tests.agents.provider.dialect_models import model_for
from tests.agents.provider.fake import FakeProvider


@asynccontextmanager
async def talker() -> "AsyncGenerator[tuple[FakeProvider, Agent[Any, Any]]]":
    """The provider, and an agent of the name `talker` that talks to it."""
    with FakeProvider() as provider:
        async with model_for("chat", provider.url("chat")) as model:
            yield provider, Agent(model, name="talker")


WATCH = """() => {
  const words = 'div.said > span:not([class])';  // that it was cut is said by the page
  const said = () => [...document.querySelectorAll(words)].map((one) => one.textContent).join('');
  const kept = (window.kept = { acked: null, grewAfter: 0 });
  document.addEventListener('pullcord:ack', () => { kept.acked = said().length; });
  new MutationObserver(() => {
    if (kept.acked !== null) kept.grewAfter = Math.max(kept.grewAfter, said().length - kept.acked);
  }).observe(document.body, { subtree: true, childList: true, characterData: true });
}"""


async def watch_text(page: Page) -> None:
    """From now on, note how much text of agents appears after a press was acknowledged."""
    await page.evaluate(WATCH)


async def grew_after_ack(page: Page) -> int:
    """How many characters appeared after the last press was acknowledged."""
    await page.wait_for_function("kept.acked !== null")
    return await page.evaluate("kept.grewAfter")
