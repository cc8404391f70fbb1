"""Every state, in light and dark, wide and narrow: photographed, and looked over by axe-core.

The pictures are for people to look at: they are written to `.screens/`.
"""

from pathlib import Path
from typing import Any, Final, Literal

import pytest
from playwright.async_api import Browser, Page, ViewportSize

from tests.storage.campaign import FULL
from tests.web.browser import bar, expect
from tests.web.people import person
from tests.web.states import STATES, runs_in_each_state

_ROOT: Final = Path(__file__).parent.parent.parent
_SCREENS: Final = _ROOT / ".screens"
_AXE: Final = (_ROOT / "web/node_modules/axe-core/axe.min.js").read_text()
_SIZES: Final[list[ViewportSize]] = [
    {"width": 1440, "height": 900},
    {"width": 1024, "height": 768},
    {"width": 390, "height": 844},
]
_LEFT_OUT: Final = ("light", 390)
_THEMES: Final[tuple[Literal["light", "dark"], ...]] = ("light", "dark")


def _looked_over(name: str) -> tuple[str, int]:
    """In a sample: wide and light, or narrow and dark. In full: everything."""
    return ("light", 1440) if len(name) % 2 else ("dark", 390)


async def findings(page: Page) -> list[str]:
    """What axe-core finds that keeps somebody from using the page."""
    found: dict[str, Any] = await page.evaluate("axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{one['impact']}: {one['id']} at {node['target']}: {node['failureSummary']}"
        for one in found["violations"]
        if one["impact"] in ("serious", "critical")
        for node in one["nodes"]
    ]


async def look_over(page: Page, name: str) -> list[str]:
    """Photograph what is there in each theme and size, and return what axe-core finds in it. In a
    sample: wide in both themes, narrow in one."""
    found: list[str] = []
    for theme in _THEMES:
        await page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        for size in _SIZES:
            if not FULL and (theme, size["width"]) in (("light", 1024), ("dark", 1024), _LEFT_OUT):
                continue
            await page.set_viewport_size(size)
            picture = _SCREENS / f"{name}-{theme}-{size['width']}.png"
            await page.screenshot(path=picture, animations="disabled")
            if FULL or (theme, size["width"]) == _looked_over(name):
                where = f"{name}, {theme}, {size['width']}"
                found += [f"{where}: {one}" for one in await findings(page)]
    return found


@pytest.mark.campaign
@pytest.mark.parametrize("states", [list(STATES)[:7], list(STATES)[7:]], ids=["living", "ending"])
async def test_a_run_in_every_state_has_nothing_that_keeps_somebody_out(
    browser: Browser, tmp_path: Path, states: list[str]
) -> None:
    async with runs_in_each_state(tmp_path) as at, person(browser, at.here.base) as ana:
        await ana.context.add_init_script(_AXE)
        await ana.gets_in(at.here)
        found: list[str] = []
        for state in states:
            run = await at.bring(state)
            await ana.page.goto(f"{at.here.base}#/runs/{run.id}")
            label = (await run.snapshot()).state
            shown = ana.page.get_by_role("main").get_by_text(run.id).first
            await expect(shown).to_be_visible()
            await expect(bar(ana.page)).to_have_attribute("data-state", label)
            found += await look_over(ana.page, f"run-{state}")
            await run.cancel(now=True)  # so that the next one is the only one that speaks
        assert found == []


@pytest.mark.campaign
async def test_that_everything_is_stopped_keeps_nobody_out(
    browser: Browser, tmp_path: Path
) -> None:
    async with runs_in_each_state(tmp_path) as at, person(browser, at.here.base) as ana:
        await ana.context.add_init_script(_AXE)
        run = await at.bring("running")
        await ana.looks_at(at.here, run)
        await ana.page.get_by_role("button", name="Stop everything").click()
        dialog = ana.page.get_by_role("dialog", name="Stop everything")
        await expect(dialog).to_contain_text("The one run")
        found = await look_over(ana.page, "stop-everything")
        await dialog.get_by_label("Why").fill("the mailer writes to strangers")
        await dialog.get_by_role("button", name="Stop everything").click()
        await expect(bar(ana.page)).to_have_attribute("data-state", "paused")
        found += await look_over(ana.page, "stopped-all")
        await ana.page.get_by_role("button", name="Release").click()
        await expect(ana.page.get_by_role("dialog", name="Release")).to_be_visible()
        found += await look_over(ana.page, "release")
        assert found == []


@pytest.mark.campaign
async def test_every_other_screen_has_nothing_that_keeps_somebody_out(
    browser: Browser, tmp_path: Path
) -> None:
    async with runs_in_each_state(tmp_path) as at, person(browser, at.here.base) as ana:
        await ana.context.add_init_script(_AXE)
        await ana.page.goto(at.here.base)
        await expect(ana.page.get_by_text("pullcord serve")).to_be_visible()
        found = await look_over(ana.page, "outside")
        await ana.page.goto("about:blank")
        await ana.gets_in(at.here)
        await expect(ana.page.get_by_text("No runs yet.").first).to_be_visible()
        found += await look_over(ana.page, "list-empty")
        await ana.page.goto(f"{at.here.base}#/inbox")
        await expect(ana.page.get_by_text("Nothing waits for you.")).to_be_visible()
        found += await look_over(ana.page, "inbox-empty")
        for state in ("cancelled", "approval", "question", "running"):
            await at.bring(state)
        await expect(ana.page.get_by_role("article")).to_have_count(3)
        found += await look_over(ana.page, "inbox")
        await ana.page.goto(f"{at.here.base}#/start")
        await expect(ana.page.get_by_label("Thread")).to_be_visible()
        found += await look_over(ana.page, "start")
        await ana.page.goto(f"{at.here.base}#/")
        await ana.page.keyboard.press("?")
        await expect(ana.page.get_by_role("dialog", name="Keys")).to_be_visible()
        found += await look_over(ana.page, "keys")
        assert found == []
