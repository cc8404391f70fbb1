"""The bar in somebody else's page: it works there, and looks as that page wants it to."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import uvicorn
from playwright.async_api import Browser, Locator, Page
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Mount, Route

from pullcord import RunState, Runtime
from pullcord.core.events import PauseRequested
from pullcord.server.app import Server, app
from pullcord.server.rights import Grant, Right
from pullcord.server.standalone import listen
from tests.runs.observed_runs import happened, runtime_with
from tests.web.browser import bar, expect, press, shows
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
        runtime_with(tmp_path / "runs.db", report=staff.report) as runtime,
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
        runtime_with(tmp_path / "runs.db", report=staff.report) as runtime,
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
        runtime_with(tmp_path / "runs.db", report=staff.report) as runtime,
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
        runtime_with(tmp_path / "runs.db", asker=staff.asker) as runtime,
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


CHANGE = "(one, [name, value]) => one.setAttribute(name, value)"


@asynccontextmanager
async def branches(*runtimes: Runtime, right: "dict[str, Right]") -> AsyncGenerator[str]:
    """A host with several control planes: /0/, /1/, … In its page is no bar yet."""
    cords = [app(one, authorize=lambda _: Grant(by="ana", right=right["is"])) for one in runtimes]

    async def page(request: Request) -> HTMLResponse:
        script = '<script type="module" src="/0/pullcord-bar.js"></script>'
        return HTMLResponse(f"<!doctype html><title>Shop</title>{script}<body>")

    mounted = [Mount(f"/{number}", cord) for number, cord in enumerate(cords)]
    config = uvicorn.Config(
        Starlette(routes=[Route("/", page), *mounted]), log_config=None, lifespan="off"
    )
    server = uvicorn.Server(config)
    listening = listen("127.0.0.1", 0)
    serving = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/"
    finally:
        for cord in cords:
            cord.close()
        server.should_exit = True
        await serving
        listening.close()


async def add_bar(page: Page, **how: str) -> Locator:
    await page.evaluate(
        """how => {
            const made = document.createElement("pullcord-bar");
            for (const [name, value] of Object.entries(how)) made.setAttribute(name, value);
            document.body.append(made);
        }""",
        how,
    )
    return page.locator("pullcord-bar").last


async def test_the_same_id_at_another_base_is_another_run(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    """What the bar shows is what it stops, also where the other run has fewer records."""
    async with (
        runtime_with(tmp_path / "0.db", report=staff.report) as one,
        runtime_with(tmp_path / "1.db", asker=staff.asker) as two,
        branches(one, two, right={"is": "control"}) as base,
        person(browser, base) as ana,
    ):
        first = await one.start("report", run_id="r1")
        second = await two.start("asker", run_id="r1")
        await ana.page.goto(base)
        shown = await add_bar(ana.page, run="r1", base="/0/")
        await shows(ana.page, "Score churn risk")
        await shown.evaluate(CHANGE, ["base", "/1/"])
        await shows(ana.page, "Which region?")
        await press(ana.page, "Cancel")
        await shows(ana.page, "Cancelled")
        assert (await second.snapshot()).state is RunState.CANCELLED
        assert (await first.snapshot()).state is RunState.RUNNING
        await shown.evaluate(CHANGE, ["base", "/0/"])
        await shows(ana.page, "Score churn risk")


async def test_a_name_that_is_given_later_leaves_the_right_that_the_server_told(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        runtime_with(tmp_path / "runs.db", asker=staff.asker) as runtime,
        branches(runtime, right={"is": "view"}) as base,
        person(browser, base) as ana,
    ):
        run = await runtime.start("asker")
        await ana.page.goto(base)
        shown = await add_bar(ana.page, run=run.id, base="/0/")
        await expect(shown).to_contain_text("you may watch it, not stop it")
        await shown.evaluate(CHANGE, ["me", "ana"])
        await ana.page.wait_for_timeout(100)
        await expect(shown).to_contain_text("you may watch it, not stop it")


async def test_a_key_goes_to_the_bar_with_the_focus_and_to_none_if_it_could_mean_two(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        runtime_with(tmp_path / "runs.db", asker=staff.asker) as runtime,
        branches(runtime, right={"is": "control"}) as base,
        person(browser, base) as ana,
    ):
        runs = [await runtime.start("asker"), await runtime.start("asker")]
        await ana.page.goto(base)
        bars = ana.page.locator("pullcord-bar")
        for run in runs:
            added = await add_bar(ana.page, run=run.id, base="/0/", keys="global")
            await expect(added).to_contain_text("Which region?")
        await ana.page.keyboard.press("p")
        await expect(bars.first).to_contain_text("put the focus into the one that you mean")
        await bars.last.get_by_role("button", name="Redirect").focus()
        await ana.page.keyboard.press("p")
        await expect(bars.last.locator(".state")).to_contain_text("Paused")
        assert [(await run.snapshot()).state for run in runs] == [RunState.WAITING, RunState.PAUSED]
        await bars.last.evaluate("one => one.remove()")
        await ana.page.keyboard.press("p")
        await expect(bars.locator(".state")).to_contain_text("Paused")


async def test_a_run_that_is_begun_late_does_not_lead_away_from_the_one_that_was_chosen(
    browser: Browser, tmp_path: Path, staff: Staff
) -> None:
    async with (
        runtime_with(tmp_path / "runs.db", asker=staff.asker, spender=staff.spender) as runtime,
        branches(runtime, right={"is": "control"}) as base,
        person(browser, base) as ana,
    ):
        ended, chosen = await runtime.start("spender"), await runtime.start("asker")
        await ended.result()
        answered = asyncio.Event()

        async def hold(route: Any) -> None:
            await answered.wait()
            await route.continue_()

        await ana.page.route("**/continue", hold)
        await ana.page.goto(base)
        shown = await add_bar(ana.page, run=ended.id, base="/0/")
        await press(ana.page, "Continue from here")
        await shown.get_by_label("What the next run is told").fill("and now?")
        await ana.page.keyboard.press("Enter")
        await shown.evaluate(CHANGE, ["run", chosen.id])
        await shows(ana.page, "Which region?")
        async with ana.page.expect_response("**/continue"):
            answered.set()
        await ana.page.wait_for_timeout(200)
        assert await shown.get_attribute("run") == chosen.id
        await expect(bar(ana.page)).to_have_attribute("aria-label", f"Run {chosen.id} of asker")
