"""Flags beat the environment, that beats files, and the nearest file beats the one at home."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from pullcord.cli.runtime_options import timing_of
from pullcord.runtime.services import Timing
from tests.cli.strange_servers import answer, strange
from tests.cli.terminal import Said, Terminal, agent

RUNS = answer("200 OK", "application/json", '{"runs":[]}')


@pytest.fixture
def pullcord(tmp_path: Path) -> Terminal:
    made = Terminal(tmp_path)
    made.folder = tmp_path / "project" / "deep"
    made.folder.mkdir(parents=True)
    home = tmp_path / "home"
    (home / ".config" / "pullcord").mkdir(parents=True)
    made.env |= {"HOME": str(home), "PULLCORD_TOKEN": "t"}
    for name in ("PULLCORD_STORE", "PULLCORD_USER"):
        del made.env[name]
    return made


def near(pullcord: Terminal, text: str) -> Path:
    assert pullcord.folder
    path = pullcord.folder.parent / "pullcord.toml"
    path.write_text(text)
    return path


def home(pullcord: Terminal, text: str) -> Path:
    path = Path(pullcord.env["HOME"]) / ".config" / "pullcord" / "pullcord.toml"
    path.write_text(text)
    return path


def setting(said: Said, key: str) -> str:
    found = [f["found"] for f in json.loads(said.out) if f["what"] == "setting"]
    return next(text for text in found if text.startswith(f"{key} = "))


def test_each_level_beats_the_one_below_and_doctor_says_which(pullcord: Terminal) -> None:
    def store(*words: str) -> str:
        return setting(pullcord("doctor", "--json", *words), "store")

    assert store() == "store = pullcord.db (the default)"
    at_home = home(pullcord, 'store = "home.db"\nby = "ana"\n')
    assert store() == f"store = {at_home.parent}/home.db ({at_home})"
    nearest = near(pullcord, 'store = "here.db"\n')
    assert store() == f"store = {nearest.parent}/here.db ({nearest})"
    pullcord.env["PULLCORD_STORE"] = "env.db"
    assert store() == "store = env.db (PULLCORD_STORE)"
    assert store("--store", "flag.db") == "store = flag.db (--store)"
    assert setting(pullcord("doctor", "--json"), "by") == f"by = ana ({at_home})"
    pullcord.env["PULLCORD_USER"] = "bo"
    assert setting(pullcord("doctor", "--json"), "by") == "by = bo (PULLCORD_USER)"


def test_a_run_is_limited_and_signed_as_the_file_says(pullcord: Terminal) -> None:
    caps = "[limits]\nsteps = 7\nusd = 1\n"
    near(pullcord, f'store = "a.db"\nby = "bo"\non_exhausted = "stop"\n{caps}')
    pullcord("run", agent("quick"), "--run-id", "r1", "--limit", "usd=5")
    shown = pullcord("show", "r1", "--json", "--records").json
    assert {meter["cap"]: meter["of"] for meter in shown["meters"]} == {"steps": 7, "usd": 5}
    assert shown["records"][0]["event"]["by"] == "bo"
    assert shown["run_state"]["limits"]["then"] == "stop"


def test_the_first_level_that_names_a_place_decides(pullcord: Terminal) -> None:
    with strange(RUNS) as server:
        near(pullcord, f'server = "{server.url}"\n')
        assert pullcord("ps").out.startswith("No runs")
        assert len(server.asked) == 1
        assert pullcord("ps", "--store", "x.db").status == 2  # there is no such store
        pullcord.env["PULLCORD_STORE"] = "y.db"
        assert "There is no store at y.db" in pullcord("ps").err
        pullcord.env["PULLCORD_SERVER"] = server.url
        assert pullcord("ps").status == 0
        assert len(server.asked) == 2


def test_a_file_of_the_folder_does_not_decide_where_a_token_goes(pullcord: Terminal) -> None:
    near(pullcord, 'server = "https://evil.example"\n')
    said = pullcord("ps")
    assert (said.status, "does not decide where your token goes" in said.err) == (2, True)
    near(pullcord, 'server = "https://127.0.0.1.evil.example:443/x"\n')
    assert "does not decide" in pullcord("ps").err


WRONG = {
    "lease_s = 0.5": "lease_s is a number of seconds from 1 to 3600",
    "lease_s = 'abc'": "lease_s is a number",
    "storage = 1": "there is no 'storage'; there are store, server, limits",
    'token = "abc"': "'token' looks like a secret",
    'api_key = "abc"': "'api_key' looks like a secret",
    "store = 1": "store is text",
    'store = ""': "store is text",
    'port = "8421"': "port is a number",
    "port = true": "port is a number",
    "port = 99999": "from 0 to 65535",
    'on_exhausted = "explode"': "on_exhausted is one of stop, wrap_up, pause_and_ask",
    "limits = 3": "limits is a table",
    "[limits]\nstepz = 3": "there is no limits.stepz; there are steps",
    '[limits]\nsteps = "3"': "limits.steps is a number",
    "[limits]\nsteps = -3": "limits.steps is a number",
    "[limits]\nsteps = 0.5": "limits.steps is a whole number",
    "store = ": "it cannot be read",
    "\x00\x01": "it cannot be read",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_meant_is_refused_by_name(pullcord: Terminal, text: str) -> None:
    path = near(pullcord, text)
    said = pullcord("ps")
    assert (said.status, WRONG[text] in said.err, str(path) in said.err) == (2, True, True), said
    assert "abc" not in said.err.replace(str(path), "")
    sick = pullcord("doctor")
    assert (sick.status, WRONG[text] in sick.out) == (1, True)


def test_bytes_that_are_no_text_are_refused_too(pullcord: Terminal) -> None:
    near(pullcord, "").write_bytes(b"store = '\xff\xfe'")
    assert (pullcord("ps").status, "Traceback" in pullcord("ps").err) == (2, False)


def test_serve_takes_its_port_from_the_file(pullcord: Terminal) -> None:
    near(pullcord, "port = 0\nstore = 's.db'\n")
    with pullcord.running("serve", "--json") as process:
        assert process.stdout
        said = json.loads(process.stdout.readline())
    assert said["store"].endswith("project/s.db")
    assert ":8421" not in said["url"]


def test_a_command_that_drives_runs_keeps_them_as_long_as_the_file_says() -> None:
    assert timing_of(SimpleNamespace(lease_s=7.0)).lease_s == 7.0
    assert timing_of(SimpleNamespace(lease_s=None)).lease_s == Timing().lease_s
