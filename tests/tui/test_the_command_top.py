"""`pullcord top` as a person starts it: a process in a real pseudo-terminal, on a real store."""

import asyncio
import re
import subprocess
import sys
from pathlib import Path

import pytest

from pullcord.core.events import PauseRequested
from pullcord.core.states import RunState
from pullcord.journal.journal import Journal
from pullcord.journal.sqlite.backend import SqliteStore
from tests.cli.serving import serve
from tests.cli.terminal import Terminal, agent
from tests.tui.sample_store import SampleStore
from tests.tui.top import Tty, started

WITHOUT = """
import sys, importlib.util as util
find = util.find_spec
util.find_spec = lambda name, *more: None if name == "textual" else find(name, *more)
from pullcord.cli.main import main
sys.exit(main(["top", "--store", sys.argv[1]]))
"""


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"

    async def fill() -> None:
        sample = SampleStore(path)
        await sample.report("r-report")
        await sample.journal.aclose()

    asyncio.run(fill())
    return path


def test_it_shows_the_runs_takes_a_key_and_leaves_without_stopping_anything(store: Path) -> None:
    with started(store) as top:
        top.until(lambda said: "Score churn risk" in said)
        top.press("r")
        top.until(lambda said: "closes this" in said)
        top.press("\x1b")
        top.until(lambda said: "rewrites" in said)
        top.press("q")
        status, said = top.end()
    assert status == 0
    assert "Nothing was stopped. 1 run goes on as before." in said
    assert controls(store) == []


def test_a_press_is_in_the_journal_before_the_screen_says_so(store: Path) -> None:
    with started(store) as top:
        top.until(lambda said: "Score churn risk" in said)
        top.press("p")
        top.until(lambda said: "Paused by you" in said or "Pausing by you" in said)
        assert controls(store) == [("ana", "top")]
        top.press("\x03")
        assert top.end()[0] == 0


def test_without_colour_it_says_the_same(store: Path) -> None:
    with started(store, NO_COLOR="1") as top:
        said = top.until(lambda said: "Score churn risk" in said)
        coloured = {tuple(map(int, rgb)) for rgb in re.findall(r"[34]8;2;(\d+);(\d+);(\d+)", said)}
        assert all(red == green == blue for red, green, blue in coloured)
        top.press("q")
        top.end()


def test_what_must_be_installed_is_said(store: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT, str(store)], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "pip install 'pullcord[tui]'" in done.stderr


def test_without_a_terminal_it_says_what_to_use_instead(tmp_path: Path) -> None:
    pullcord = Terminal(tmp_path)
    pullcord("run", agent("quick"), "--run-id", "r1")
    said = pullcord("top")
    assert (said.status, said.out) == (2, "")
    assert "pullcord ps --json" in said.err


def test_a_store_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    with started(tmp_path / "none.db") as top:
        status, said = top.end()
    assert status == 2
    assert "There is no store at" in said
    assert not (tmp_path / "none.db").exists()


def test_with_server_it_watches_the_server_and_presses_there(tmp_path: Path) -> None:
    with serve(tmp_path) as serving:
        serving.begin("planned", "r1", given="waits")
        serving.here.reached(RunState.WAITING)
        with Tty("top", env=serving.env) as top:  # PULLCORD_SERVER, as for every command
            top.until(lambda said: serving.url in said and "Waiting" in said)
            top.press("p")
            top.until(lambda said: "Paused by you" in said)
            top.press("q")
            assert top.end()[0] == 0
        paused = serving.here.until(lambda run: run.state is RunState.PAUSED)
        assert paused.pause is not None
        assert paused.pause.by == "ci"


@pytest.mark.parametrize(
    ("words", "status", "why"),
    [
        (("--server", "http://127.0.0.1:1"), 1, "No answer from http://127.0.0.1:1"),
        (("--server", "http://127.0.0.1:1", "--by", "bo"), 2, "A server signs with the name"),
        (("--server", "ftp://x"), 2, "is not the address of a server"),
        (("--server", "http://127.0.0.1:1", "--store", "x.db"), 2, "are two places"),
    ],
)
def test_what_keeps_it_from_a_server_is_said_like_everywhere(
    words: tuple[str, ...], status: int, why: str
) -> None:
    with Tty("top", *words, env={"PULLCORD_TOKEN": "t"}) as top:
        said = top.end()
    assert said[0] == status
    assert why in " ".join(said[1].split())


def controls(path: Path) -> list[tuple[str, str]]:
    """Who has paused the run, and by which way."""
    journal = Journal(SqliteStore(path))
    found = [record.event for record in journal.changes.read_now("r-report")]
    asyncio.run(journal.aclose())
    return [(event.by, event.via) for event in found if isinstance(event, PauseRequested)]
