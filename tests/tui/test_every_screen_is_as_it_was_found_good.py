"""What is on the screen, line by line: every state of the bar, every view, narrow and wide."""

import pytest

from tests.tui.sample_store import SampleStore
from tests.tui.screen import agrees, looking

STATES = (
    "cancelled",
    "failed",
    "completed",
    "stopped",
    "stopping",
    "cancelling",
    "limited",
    "paused",
    "pausing",
    "waiting",
    "report",
)
SIZES = {"narrow": (80, 24), "wide": (200, 50)}


@pytest.mark.parametrize("size", SIZES)
async def test_among_a_thousand_runs_every_state_has_its_bar(
    sample: SampleStore, size: str
) -> None:
    await sample.many(1000)
    for state in STATES:
        await getattr(sample, state)(f"r-{state}")
    async with looking(sample, size=SIZES[size]) as eyes:
        for state in (*STATES, "queued"):
            await eyes.look_at(f"r-{state}" if state != "queued" else "m0990")
            agrees(f"{size}-{state}", eyes.text)


@pytest.mark.parametrize("size", SIZES)
async def test_every_view_of_a_run(sample: SampleStore, size: str) -> None:
    for state in STATES:
        await getattr(sample, state)(f"r-{state}")
    async with looking(sample, size=SIZES[size]) as eyes:
        await eyes.look_at("r-cancelled")
        for key, view in (("2", "text"), ("4", "timeline"), ("5", "receipt"), ("?", "keys")):
            await eyes.press(key)
            await eyes.until(lambda: "Reading" not in eyes.text)
            agrees(f"{size}-view-{view}", eyes.text)
        await eyes.press("escape", "1")
        await eyes.look_at("r-report")
        await eyes.press("c", "2")
        agrees(f"{size}-view-cancel-armed", eyes.text)
        await eyes.press("escape", "r")
        await eyes.write("EU customers only")
        agrees(f"{size}-view-redirect", eyes.text)
        await eyes.press("escape", "a")
        await eyes.sees("send_email(")
        await eyes.whole()
        agrees(f"{size}-view-approvals", eyes.text)
        await eyes.press("/")
        await eyes.write("crawl")
        await eyes.whole()
        agrees(f"{size}-view-filter", eyes.text)


async def test_a_store_without_runs_says_how_to_start_one(sample: SampleStore) -> None:
    async with looking(sample) as eyes:
        assert "pullcord run FILE.py:NAME" in eyes.text
        agrees("narrow-empty", eyes.text)


@pytest.mark.parametrize(("width", "height"), [(60, 20), (80, 24), (120, 30), (200, 50)])
async def test_the_bar_is_whole_at_any_size(sample: SampleStore, width: int, height: int) -> None:
    await sample.report("r-report")
    async with looking(sample, size=(80, 24)) as eyes:
        await eyes.look_at("r-report")
        await eyes.resize(width, height)
        await eyes.whole()
        assert len(eyes.lines) == height
        bar = "\n".join(eyes.lines[-8:])
        for word in (
            "● Running",
            "00:36",
            "$0.31 of $2",
            "Pause",
            "Redirect",
            "Cancel",
            "score",
        ):
            assert word in bar
        assert "Score churn risk" in eyes.lines[1]  # and so is the run in the list


@pytest.mark.parametrize("width", [60, 80, 109, 110, 115, 120])
async def test_the_names_of_the_views_and_the_help_are_whole(
    sample: SampleStore, width: int
) -> None:
    await sample.waiting("r1")
    async with looking(sample, size=(width, 50)) as eyes:
        await eyes.look_at("r1")
        await eyes.sees("5 receipt")
        assert "3 approvals" in eyes.text
        await eyes.press("?")
        await eyes.sees("Every press is signed")
        assert "journal." in eyes.text
        assert "5 receipt" in eyes.text
