"""`pullcord top --server`: the same screen, over a real server in a process of its own."""

import re
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pullcord.client.http import Client
from pullcord.client.server_address import address
from pullcord.core.states import RunState
from pullcord.journal.journal import Journal
from pullcord.tui.app import Top
from pullcord.tui.local_source import LocalSource
from pullcord.tui.server_source import ServerSource
from pullcord.tui.source import Source
from tests.cli.serving import Serving, serve
from tests.tui.screen import Eyes, Now

AGENTS = Path(__file__).parents[1] / "terminal" / "agents.py"


@pytest.fixture
def gates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the agents wait until a test lets them go on."""
    made = tmp_path / "gates"
    made.mkdir()
    monkeypatch.setenv("GATES", str(made))
    return made


@pytest.fixture
def serving(tmp_path: Path, gates: Path) -> Generator[Serving]:
    with serve(tmp_path, str(AGENTS)) as made:
        yield made


@asynccontextmanager
async def looking_at(
    source: Source, me: str, size: tuple[int, int] = (80, 24)
) -> AsyncGenerator[Eyes]:
    now = Now()
    app = Top(source, me, now=now)
    async with app.run_test(size=size) as pilot:
        eyes = Eyes(app, pilot, now)
        await eyes.until(lambda: app.is_loaded)
        yield eyes


@asynccontextmanager
async def watching(serving: Serving, right: str = "approve") -> AsyncGenerator[Eyes]:
    """Somebody called ci looks at the runs of a server."""
    client = Client(address(serving.url, insecure=False), serving.token(right))
    source = ServerSource(client)
    async with looking_at(source, "ci") as eyes:
        yield eyes
    source.close()


async def test_what_happens_there_is_seen_here_and_a_press_here_happens_there(
    serving: Serving, gates: Path
) -> None:
    serving.begin("planned", "r1")
    async with watching(serving) as eyes:
        assert serving.url in eyes.lines[0]
        await eyes.sees("● Running · 1 of 2 · one")
        await eyes.press("p")
        await eyes.sees("◐ Pausing by you")
        (gates / "one").touch()
        await eyes.sees("‖ Paused by you")
        paused = serving.here.until(lambda run: run.state is RunState.PAUSED)
        assert paused.pause is not None
        assert paused.pause.by == "ci"
        await eyes.press("r")
        await eyes.write("two, EU only")
        await eyes.press("enter")
        await eyes.sees("+ next  two, EU only")
        eyes.now.advance(1)
        await eyes.press("p")
        await eyes.sees("2 of 2 · two, EU only")
        await eyes.press("c", "2")
        await eyes.sees("too expensive ✓")
        await eyes.press("c")
        await eyes.sees("■ Cancelled by you · “too expensive”")
        serving.here.ended()
        serving.begin("planned", "r2")
        await eyes.until(lambda: len(eyes.app.roster) == 2)


async def test_text_comes_as_it_is_said(serving: Serving, gates: Path) -> None:
    serving.begin("speaks", "r1")
    async with watching(serving) as eyes:
        await eyes.press("2")
        await eyes.sees("first words")
        assert "line 99" not in eyes.text
        (gates / "more").touch()
        await eyes.sees("line 99")
        await eyes.sees("without an end")
        (gates / "end").touch()
        await eyes.sees("✓ Completed")


async def test_a_call_is_allowed_and_a_question_answered(serving: Serving) -> None:
    serving.begin("pays", "r1")
    async with watching(serving) as eyes:
        await eyes.sees("? Waiting")
        await eyes.press("a")
        await eyes.sees("\npay(\n")
        eyes.now.advance(1.1)
        await eyes.press("y")
        await eyes.sees("✓ Completed")
        serving.begin("asks", "r2")
        await eyes.until(lambda: "r2" in eyes.app.roster.rows and eyes.app.roster.needing)
        await eyes.press("a")
        await eyes.sees("│ ship it?")
        await eyes.until(lambda: eyes.app.bar.ask)
        await eyes.write("yes")
        await eyes.press("enter")
        serving.here.ended("r2")


async def test_who_may_only_look_is_told_so_and_nothing_changes(serving: Serving) -> None:
    serving.begin("asks", "r1")
    async with watching(serving, "view") as eyes:
        await eyes.sees("? Waiting")
        await eyes.press("p")
        await eyes.until(lambda: "right to stop" in eyes.lines[-1])
    assert serving.here.until(lambda _: True).state is RunState.WAITING


async def test_a_server_that_goes_away_is_said_and_what_was_missed_is_caught_up_with(
    tmp_path: Path, gates: Path
) -> None:
    with serve(tmp_path, str(AGENTS)) as serving:
        serving.begin("asks", "r1", "r2")
        for run in ("r1", "r2"):
            serving.here.reached(RunState.WAITING, run_id=run)
        port = serving.url.rpartition(":")[2]
        client = Client(address(serving.url, insecure=False), serving.token("control"))
    source = ServerSource(client)
    with serve(tmp_path, str(AGENTS), port=port) as serving:
        looking = looking_at(source, "ci")
        eyes = await looking.__aenter__()
        await eyes.until(lambda: len(eyes.app.roster) == 2)
        await eyes.look_at("r1")
    await eyes.sees(f"No answer from {serving.url}: ")
    await eyes.press("p")  # it cannot be done, and that is said
    await eyes.until(lambda: eyes.app.notice)
    assert eyes.lines[-1].startswith(f"No answer from {serving.url}: ")
    for run in ("r1", "r2"):
        serving.here("cancel", run, "--reason", "meanwhile")
    serving.here("run", f"{AGENTS}:counts", "--run-id", "r3")
    with serve(tmp_path, str(AGENTS), port=port) as serving:
        await eyes.sees("Connected again.")
        await eyes.sees("■ Cancelled by ana · “meanwhile”")
        await eyes.until(lambda: len(eyes.app.roster) == 3 and not eyes.app.roster.living)
        await eyes.whole()
        assert eyes.text.count("ship it?") == 1  # what was told before is not told again
        await looking.__aexit__(None, None, None)
        source.close()


async def test_a_right_that_is_taken_back_ends_the_watching_and_says_so(serving: Serving) -> None:
    serving.begin("asks", "r1")
    client = Client(address(serving.url, insecure=False), serving.token("view"))
    admin = Client(address(serving.url, insecure=False), serving.token("admin"))
    source = ServerSource(client)
    async with looking_at(source, "ci") as eyes:
        await eyes.sees("? Waiting")
        listed = admin.ask("GET", "/grants", again=True).body.decode()
        [grant] = re.findall(r'"id":"([^"]+)","name":"ci","kind":"token","right":"view"', listed)
        admin.ask("POST", f"/grants/{grant}/revoke", b"{}", again=False)
        await eyes.sees("does not let you watch any longer")
    source.close()
    admin.close()


async def test_the_kill_switch_of_a_server_is_on_the_screen(serving: Serving) -> None:
    serving.begin("asks", "r1")
    serving.here.reached(RunState.WAITING)
    async with watching(serving, "view") as eyes:
        await eyes.sees("? Waiting")
        assert serving.here("kill-switch", "engage", "--reason", "fire").status == 0
        await eyes.sees("■ The kill switch is engaged (by ana: fire)")


VIEWS = ("1", "2", "4", "5")


async def test_it_is_the_same_screen_as_that_of_the_store(serving: Serving, gates: Path) -> None:
    (gates / "one").touch()
    (gates / "two").touch()
    serving.begin("planned", "done")
    serving.begin("fails", "lost")
    serving.begin("pays", "asked")
    serving.begin("asks", "open")
    for run in ("done", "lost"):
        serving.here.ended(run)
    for run in ("asked", "open"):
        serving.here.reached(RunState.WAITING, run_id=run)
    async with watching(serving) as eyes:
        there = [screen async for screen in screens(eyes)]
    async with (
        Journal.open(serving.here.store) as journal,
        looking_at(LocalSource(journal, me="ci", name=serving.url), "ci") as eyes,
    ):
        here = [screen async for screen in screens(eyes)]
    assert there == here


async def screens(eyes: Eyes) -> AsyncGenerator[str]:
    """Every view of every run, but for the time, which goes on."""
    for run in ("done", "lost", "asked", "open"):
        await eyes.look_at(run)
        for key in VIEWS:
            await eyes.press(key)
            await eyes.until(lambda: "Reading" not in eyes.text)
            if key == "4" and run in ("asked", "open"):
                continue  # the picture of a run that goes on changes with the time it takes to look
            yield _timeless(eyes.text)
    await eyes.look_at("asked")
    await eyes.press("3")
    await eyes.sees("\npay(\n")
    yield _timeless(eyes.text)


def _timeless(text: str) -> str:
    text = re.sub(r"\d+:\d\d(:\d\d)?|\d+(\.\d+)? m?s\b", "TIME", text)
    return re.sub(r"[▇◐‖?·◍◌ ]{9,}|  +", " ", text)
