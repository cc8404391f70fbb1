"""Getting in: the launch link opens the page once; a link for one run shows that run only."""

import asyncio
import os
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from playwright.async_api import Browser

from pullcord import Context
from tests.web.browser import expect
from tests.web.people import person
from tests.web.restartable_server import restartable_server


async def quick(ctx: Context) -> str:
    """Says one thing and is done."""
    return await ctx.say("Hello.")


async def test_the_launch_link_opens_the_page_once_and_is_void_afterwards(
    browser: Browser, tmp_path: Path
) -> None:
    async with restartable_server(tmp_path, quick=quick) as here, person(browser, here.base) as ana:
        link = here.launch_link()
        await ana.page.goto(here.base + link)
        await expect(ana.page.get_by_role("navigation", name="Runs")).to_be_visible()
        assert "launch" not in ana.page.url
        await ana.page.reload()
        await expect(ana.page.get_by_role("navigation", name="Runs")).to_be_visible()
        async with person(browser, here.base) as eve:
            await eve.page.goto(here.base + link)
            await expect(eve.page.get_by_text("it was used before")).to_be_visible()
            await expect(eve.page.get_by_role("navigation", name="Runs")).to_have_count(0)


async def test_a_link_that_is_pasted_into_the_open_page_lets_in(
    browser: Browser, tmp_path: Path
) -> None:
    async with restartable_server(tmp_path, quick=quick) as here, person(browser, here.base) as ana:
        await ana.page.goto(here.base)
        await expect(ana.page.get_by_text("pullcord serve")).to_be_visible()
        await ana.page.goto(here.base + here.launch_link())
        await expect(ana.page.get_by_role("navigation", name="Runs")).to_be_visible()


@asynccontextmanager
async def another_port(heard: list[str]) -> AsyncGenerator[str]:
    """A page on another port of the same host, that listens to what browsers send it."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        heard.append((await reader.readuntil(b"\r\n\r\n")).decode())
        body = b"<!doctype html><title>Another</title>"
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: {len(body)}\r\n"
        writer.write(head.encode() + b"Connection: close\r\n\r\n" + body)
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"


def cookie_in(heard: list[str]) -> str:
    lines = [line for said in heard for line in said.split("\r\n")]
    return next(line.partition(": ")[2] for line in lines if line.lower().startswith("cookie: "))


async def test_the_cookie_that_goes_to_every_port_opens_nothing_by_itself(
    browser: Browser, tmp_path: Path
) -> None:
    heard: list[str] = []
    async with (
        restartable_server(tmp_path, quick=quick) as here,
        person(browser, here.base) as ana,
        another_port(heard) as elsewhere,
    ):
        run = await here.start("quick")
        await run.result()
        await ana.gets_in(here)
        if folder := os.environ.get("PULLCORD_SCREENS"):
            await ana.page.screenshot(path=f"{folder}/after-the-launch-link.png")
        other = await ana.context.new_page()
        await other.goto(elsewhere)
        cookie = cookie_in(heard)  # a browser knows no ports
        key = await ana.page.evaluate("localStorage.getItem('pullcord-key:/')")
        assert await other.evaluate("localStorage.length") == 0
        assert key
        assert key not in "".join(heard)
        for path in ("me", "runs", f"runs/{run.id}", f"runs/{run.id}/events", "events", "grants"):
            for headers in ({"Cookie": cookie}, {"Cookie": cookie, "X-Pullcord-Key": "x" * 43}):
                answer = await ana.context.request.get(here.base + path, headers=headers)
                assert answer.status == 401, path
        stop = await ana.context.request.post(
            here.base + "kill-switch/engage",
            headers={"Cookie": cookie, "X-Pullcord": "1", "Content-Type": "application/json"},
            data="{}",
        )
        assert stop.status == 401
        both = {"Cookie": cookie, "X-Pullcord-Key": key}
        assert (await ana.context.request.get(here.base + "me", headers=both)).status == 200
        await ana.page.reload()  # and the page goes on as before
        await expect(ana.page.get_by_role("navigation", name="Runs")).to_be_visible()
        ana.asked_outside.clear()


async def test_a_share_link_opens_its_run_in_a_browser_that_was_never_here(
    browser: Browser, tmp_path: Path
) -> None:
    async with restartable_server(tmp_path, quick=quick) as here, person(browser, here.base) as bo:
        run = await here.start("quick")
        await run.result()
        await bo.page.goto(here.base + here.share_link(run, "stop"))
        await expect(bo.page.get_by_text("Hello.").first).to_be_visible()
        await bo.page.reload()
        await expect(bo.page.get_by_text("Hello.").first).to_be_visible()
