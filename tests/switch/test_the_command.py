"""`pullcord kill-switch`: on a store, and through a server, in the same words."""

import json
import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from pullcord.cli.commands import kill_switch, kill_switch_records
from pullcord.cli.main import main
from pullcord.core.states import RunState
from pullcord.journal.sqlite.backend import SqliteStore
from tests.cli.serving import Serving, serve
from tests.cli.terminal import Terminal

WORLD = Path(__file__).parents[1] / "cli" / "world.py"


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    with serve(tmp_path, str(WORLD)) as made:
        made.begin("hangs", "hang-1")
        made.here.until(lambda run: bool(run.open_steps()), run_id="hang-1")
        yield made


def test_it_says_what_it_did_and_how_it_is_undone(serving: Serving) -> None:
    here = serving.here
    said = here("kill-switch", "engage", "--reason", "it writes to production")
    assert (said.status, said.err) == (0, "")
    first, second, third = said.out.splitlines()
    assert first == (
        "Engaged for everything, by ana: it writes to production. Nothing starts until its release."
    )
    assert second.startswith("1 process heard of it within ")
    assert third == "Held: 1 run: hang-1"
    here.reached(RunState.PAUSED, run_id="hang-1")
    assert here("resume", "hang-1", "--detach").status == 3
    refused = here("run", f"{WORLD}:quick")
    assert refused.status == 1
    assert "by ana: it writes to production" in refused.err
    assert here("kill-switch", "status").out.splitlines()[0] == first
    assert "! kill switch   the kill switch is engaged (by ana: it writes" in here("doctor").out
    released = here("kill-switch", "release", "--reason", "the key is changed")
    assert released.out.splitlines() == [
        "Released.",
        "Nothing was resumed. 1 run stays paused: hang-1",
        "Go on: pullcord resume RUN",
    ]
    assert '"resumed"' not in here("show", "hang-1", "--records", "--json").out
    assert here("kill-switch", "status").out == "Not engaged.\n"
    assert here("kill-switch", "release").status == 2


def test_a_server_is_stopped_in_the_same_words_by_admins_alone(serving: Serving) -> None:
    refused = serving("kill-switch", "engage", "--reason", "x")
    assert refused.status != 0
    assert serving("kill-switch", "status").out == "Not engaged.\n"
    serving.env["PULLCORD_TOKEN"] = serving.token("admin")
    said = serving("kill-switch", "engage", "--agent", "hangs", "--reason", "wild")
    assert said.out.splitlines()[0] == (
        "Engaged for agent hangs, by ci: wild. Nothing starts until its release."
    )
    serving.here.reached(RunState.PAUSED, run_id="hang-1")
    assert "for agent hangs (by ci: wild)" in serving("run", "hangs").err
    assert serving("run", "quick", "x").status == 0
    assert serving("kill-switch", "release", "--agent", "hangs").status == 0
    assert serving("kill-switch", "status").out == "Not engaged.\n"


def test_a_process_that_does_not_answer_is_killed_and_said_so(tmp_path: Path) -> None:
    here = Terminal(tmp_path)
    with here.running("run", f"{WORLD}:hangs", "--run-id", "r1") as process:
        here.until(lambda run: bool(run.open_steps()))
        process.send_signal(signal.SIGSTOP)
        said = here("kill-switch", "engage", "--json").json
        assert process.wait() == -signal.SIGKILL
        assert (said["killed"], said["not_stopped"]) == ([process.pid], [])
    here.reached(RunState.PAUSED)  # recorded by whoever pulled it


def test_without_a_database_it_stops_all_the_same_and_says_what_is_not_recorded(
    tmp_path: Path,
) -> None:
    here = Terminal(tmp_path)
    assert here("run", f"{WORLD}:quick", '"x"').status == 0
    here.store.write_bytes(b"not a database " * 4096)
    said = here("kill-switch", "engage")
    assert said.status == 1
    assert "Not recorded: " in said.out
    assert Path(f"{here.store}.kill-switch").exists()
    released = here("kill-switch", "release")  # cannot be logged, so it is not done
    assert released.status == 1
    assert Path(f"{here.store}.kill-switch").exists()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("engage", "--agent", "a", "--thread", "t"), "not both"),
        (("engage", "--agent", ""), "Which agent?"),
        (("release", "--thread", "t"), "not engaged for thread t"),
        (("engage", "--store", "/nowhere/at/all.db"), "There is no store at"),
    ],
)
def test_what_makes_no_sense_changes_nothing(
    tmp_path: Path, words: tuple[str, ...], says: str
) -> None:
    here = Terminal(tmp_path)
    here("run", f"{WORLD}:quick", '"x"')
    said = here("kill-switch", *words)
    assert said.status == 2
    assert says in said.err
    assert json.loads(here("kill-switch", "status", "--json").out)["engaged"] == []


def test_who_engaged_and_who_released_it_is_in_the_stop_log_once(serving: Serving) -> None:
    here = serving.here
    here("kill-switch", "engage", "--agent", "hangs", "--reason", "wild")
    here("kill-switch", "engage", "--agent", "hangs", "--reason", "again")
    here.reached(RunState.PAUSED, run_id="hang-1")
    here("kill-switch", "release", "--agent", "hangs", "--reason", "fine", "--by", "bo")
    said = here("log", "show").out
    assert said.count("kill switch engaged") == 1
    assert said.count("kill switch released") == 1
    assert "wild" in said
    assert said.count("again") == 1  # who pulled it once more is in the log too
    assert here("log", "verify").status == 0


def test_what_it_could_not_stop_is_kept_as_evidence(serving: Serving) -> None:
    here = serving.here
    os.kill(serving.pid, signal.SIGSTOP)
    try:
        engaged = here("kill-switch", "engage", "--agent", "hangs", "--reason", "wild")
    finally:
        os.kill(serving.pid, signal.SIGCONT)
    assert engaged.status == 1  # it stands still, and is not killed for one of its agents
    left = f"process {serving.pid}: it does not answer; the process is not killed for a part"
    assert f"NOT STOPPED: {left}" in engaged.out
    assert f"NOT STOPPED when it was pulled: {left}" in here("kill-switch", "status").out
    [over_http] = serving("kill-switch", "status", "--json").json["not_stopped"]
    assert left == f"{over_http['what']}: {over_http['why']}"[: len(left)]
    assert f"1 process asked · NOT STOPPED: {left}" in " ".join(here("log", "show").out.split())
    again = here("kill-switch", "engage", "--agent", "hangs", "--json").json  # it has come round
    assert again["not_stopped"] == []
    assert here("kill-switch", "status", "--json").json["not_stopped"] == []
    assert here("log", "verify").status == 0


def test_a_flag_made_by_hand_is_in_the_stop_log_when_somebody_opens_the_store(
    tmp_path: Path,
) -> None:
    here = Terminal(tmp_path)
    here("run", f"{WORLD}:quick", '"x"')
    Path(f"{here.store}.kill-switch").touch()
    here("kill-switch", "release", "--reason", "a mistake")
    said = here("log", "show").out
    assert "engaged by whoever made its file" in " ".join(said.split())
    assert "a mistake" in said


def test_a_store_that_says_nothing_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A server that takes the connection and hangs: what was stopped is said all the same."""
    is_over = threading.Event()

    def hangs(*_: object) -> None:
        is_over.wait(60)

    store = tmp_path / "runs.db"
    SqliteStore(store).close()
    monkeypatch.setattr(kill_switch, "_RECORDED_S", 0.05)
    monkeypatch.setattr(kill_switch_records, "hold", hangs)
    try:
        status = main(["kill-switch", "engage", "--store", str(store)])
    finally:
        is_over.set()
    said = capsys.readouterr().out
    assert status == 1
    assert "Engaged for everything" in said
    assert "Not recorded: the store has said nothing for 0.05 s." in said
