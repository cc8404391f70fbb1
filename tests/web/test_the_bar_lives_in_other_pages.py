"""The bar in somebody else's page: it works there, and looks as that page wants it to."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from playwright.async_api import Browser, expect
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route

from pullcord import Runtime
from pullcord.core.events import PauseRequested
from pullcord.server.app import Server, app
from pullcord.server.rights import Grant
from pullcord.server.standing import listen
from tests.runs.stage import happened, stage
from tests.web.browser import bar, press, shows
from tests.web.people import person
from tests.web.staff import Staff

PAGE = """<!doctype html><html lang="en"><title>Shop</title>
<style>
  pullcord-bar {{ --pullcord-surface: rgb(1, 2, 3); --pullcord-text: rgb(250, 251, 252);
                  --pullcord-radius: 0px; }}
  button {{ font-size: 40px; color: red; display: none }} /* what the host does stays outside */
</style>
<h1>Our shop</h1>
<script type="module" src="/cord/pullcord-bar.js"></script>
<pullcord-bar run="{run}" base="/cord/"></pullcord-bar>
<script>
  window.heard = [];
  for (const kind of ['ack', 'open', 'review'])
    addEventListener('pullcord:' + kind, (event) => heard.push([kind, event.detail.run]));
</script>"""


def who(request: Request) -> Grant | None:
    """As a host does it: by its own session."""
    name = request.cookies.get("shop-user")
    return Grant(by=name, right="control") if name else None


@asynccontextmanager
async def shop(runtime: Runtime) -> "AsyncGenerator[str]":
    """A host with the control plane mounted in it. Gives its address."""
    cord: Server = app(runtime, authorize=who)

    async def page(request: Request) -> HTMLResponse:
        return HTMLResponse(PAGE.format(run=request.path_params["run"]))

    routes = [Route("/orders/{run}", page), Mount("/cord", cord)]
    config = uvicorn.Config(Starlette(routes=routes), log_config=None, lifespan="off")
    server = uvicorn.Server(config)
    listening = listen("127.0.0.1", 0)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        cord.close()
        server.should_exit = True
        await serving
        listening.close()


async def test_the_bar_works_in_a_host_that_knows_its_own_users(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        stage(tmp_path / "runs.db", report=staff.report) as runtime,
        shop(runtime) as base,
        person(browser, base) as ana,
    ):
        run = await runtime.start("report")
        await ana.context.add_cookies([{"name": "shop-user", "value": "ana", "url": base}])
        await ana.page.goto(f"{base}orders/{run.id}")
        await shows(ana.page, "Score churn risk")
        await press(ana.page, "Pause")
        await shows(ana.page, "Paused by you")
        await press(ana.page, "Redirect")
        await bar(ana.page).get_by_label("New instruction").fill("Only the EU")
        await bar(ana.page).get_by_role("button", name="Send").click()
        await expect(bar(ana.page).locator(".added")).to_contain_text("Only the EU")
        await press(ana.page, "Resume")
        await shows(ana.page, "Running")
        await press(ana.page, "Cancel")
        await shows(ana.page, "Cancelled by you")
        heard: list[Any] = await ana.page.evaluate("heard")
        assert [one[0] for one in heard] == ["ack"] * 4
        assert {one[1] for one in heard} == {run.id}
        [asked] = await happened(runtime, run.id, PauseRequested)
        assert (asked.by, asked.via) == ("ana", "page, host")


async def test_the_bar_is_themed_by_variables_and_by_nothing_else_of_the_host(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        stage(tmp_path / "runs.db", report=staff.report) as runtime,
        shop(runtime) as base,
        person(browser, base) as ana,
    ):
        run = await runtime.start("report")
        await ana.context.add_cookies([{"name": "shop-user", "value": "ana", "url": base}])
        await ana.page.goto(f"{base}orders/{run.id}")
        await shows(ana.page, "Score churn risk")
        look = "one => { const s = getComputedStyle(one); return [s.backgroundColor, s.color]; }"
        assert await bar(ana.page).evaluate(look) == ["rgb(1, 2, 3)", "rgb(250, 251, 252)"]
        for name in ("Pause", "Redirect", "Cancel"):
            await expect(bar(ana.page).get_by_role("button", name=name)).to_be_visible()


async def test_a_stranger_sees_nothing_of_the_run_in_the_bar(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        stage(tmp_path / "runs.db", report=staff.report) as runtime,
        shop(runtime) as base,
        person(browser, base) as eve,
    ):
        run = await runtime.start("report")
        await staff.at_it.wait()
        await eve.page.goto(f"{base}orders/{run.id}")
        await shows(eve.page, "This run cannot be shown")
        await expect(bar(eve.page)).not_to_contain_text("Score churn risk")
        await expect(bar(eve.page).get_by_role("button", name="Cancel")).to_have_count(0)


async def test_a_bar_without_a_run_says_what_it_needs(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        stage(tmp_path / "runs.db", asker=staff.asker) as runtime,
        shop(runtime) as base,
        person(browser, base) as ana,
    ):
        run = await runtime.start("asker")
        await ana.context.add_cookies([{"name": "shop-user", "value": "ana", "url": base}])
        await ana.page.goto(f"{base}orders/{run.id}")
        await shows(ana.page, "Waiting")
        await ana.page.evaluate("document.querySelector('pullcord-bar').run = ''")
        await shows(ana.page, "This run cannot be shown")
        await expect(bar(ana.page)).to_contain_text("give it the id of a run")
        await ana.page.evaluate(f"document.querySelector('pullcord-bar').run = '{run.id}'")
        await shows(ana.page, "Waiting")
