"""The example of a host: its users have the rights that it says, and the bar works in its page."""

import asyncio
import importlib.util
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.async_api import Page, async_playwright
from starlette.applications import Starlette

from tests.demo.asking import ask
from tests.web.browser import chromium_path, expect

APP = Path(__file__).parents[2] / "examples" / "host" / "app.py"


@asynccontextmanager
async def host(tmp_path: Path) -> AsyncGenerator[Starlette]:
    spec = importlib.util.spec_from_file_location("host_example", APP)
    assert spec is not None
    assert spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    app: Starlette = module.host(str(tmp_path / "host.db"))
    async with asyncio.timeout(60), app.router.lifespan_context(app):
        yield app


@pytest.mark.parametrize(
    ("user", "looks", "starts", "pauses", "approves"),
    [
        ("", 401, 403, 401, 401),
        ("mallory", 401, 403, 401, 401),
        ("cleo", 200, 403, 403, 403),
        ("bo", 200, 303, 200, 403),
        ("ana", 200, 303, 200, 409),  # she may; but nobody has asked yet
    ],
)
async def test_each_user_may_do_what_the_host_says(
    user: str, looks: int, starts: int, pauses: int, approves: int, tmp_path: Path
) -> None:
    async with host(tmp_path) as app:
        made = await ask(app, "POST", "/reports", user="ana")
        run = made.headers["location"].removeprefix("/?run=")
        at = f"/agents/runs/{run}"
        assert (await ask(app, "GET", at, user=user)).status == looks
        assert (await ask(app, "POST", "/reports", user=user)).status == starts
        assert (await ask(app, "POST", f"{at}/pause", user=user, said={})).status == pauses
        word = {"question": "q", "call": "c"}
        assert (await ask(app, "POST", f"{at}/approve", user=user, said=word)).status == approves


async def test_what_stands_in_its_page_is_text(tmp_path: Path) -> None:
    async with host(tmp_path) as app:
        page = await ask(app, "GET", "/", user='"><script>alert(1)</script>')
    assert b"<strong>nobody</strong>" in page.body


@asynccontextmanager
async def browser(app: Starlette) -> AsyncGenerator[Page]:
    listening = socket.create_server(("127.0.0.1", 0))
    config = uvicorn.Config(app, lifespan="off", log_config=None, timeout_graceful_shutdown=1)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    async with async_playwright() as playwright:
        chromium = await playwright.chromium.launch(
            executable_path=chromium_path(),
            args=["--no-sandbox", "--disable-gpu", "--disable-quic"],
        )
        address = f"http://127.0.0.1:{listening.getsockname()[1]}"
        yield await chromium.new_page(base_url=address)
        await chromium.close()
    server.should_exit = True
    await serving


async def test_the_bar_stops_a_report_in_the_page_of_the_host(tmp_path: Path) -> None:
    async with host(tmp_path) as app, browser(app) as page:
        await page.goto("/as/bo")
        bar = page.locator("pullcord-bar")
        await expect(bar).not_to_be_visible()
        await page.get_by_role("button", name="Write a new report").click()
        await bar.get_by_role("button", name="Pause").click()
        await expect(bar).to_contain_text("Paused by you")
        await bar.get_by_role("button", name="Redirect").click()
        await page.keyboard.type("EU customers only")
        await page.keyboard.press("Enter")
        await expect(bar).to_contain_text("EU customers only")
        await page.goto("/as/cleo")
        await expect(bar).to_contain_text("you may watch it, not stop it")
        await expect(bar.get_by_role("button", name="Cancel")).to_be_disabled()
        await page.goto("/as/ana")
        await expect(bar).to_contain_text("Paused by bo")
        await bar.get_by_role("button", name="Cancel").click()
        await expect(bar).to_contain_text("Cancelled by you")
