"""A control must feel instant: what a control verb may import, listed. It needs no event loop."""

import json
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.cli.serving import Serving, serve
from tests.cli.terminal import Terminal, agent

MAY_LOAD = {
    "pullcord",
    "pullcord.cli",
    "pullcord.cli.as_json",
    "pullcord.cli.control",
    "pullcord.cli.cord",
    "pullcord.cli.given",
    "pullcord.cli.identity",
    "pullcord.cli.main",
    "pullcord.cli.naming",
    "pullcord.cli.parser",
    "pullcord.cli.reach",
    "pullcord.cli.secret_names",
    "pullcord.cli.settings",
    "pullcord.cli.store",
    "pullcord.cli.streams",
    "pullcord.cli.words",
    "pullcord.core",
    "pullcord.core.acks",
    "pullcord.core.commands",
    "pullcord.core.calendar",
    "pullcord.core.decide",
    "pullcord.core.forget",
    "pullcord.core.conditions",
    "pullcord.core.events",
    "pullcord.core.fold",
    "pullcord.core.judging",
    "pullcord.core.likeness",
    "pullcord.core.limits",
    "pullcord.core.receipts",
    "pullcord.core.resting",
    "pullcord.core.run",
    "pullcord.core.runaway",
    "pullcord.core.states",
    "pullcord.core.stops",
    "pullcord.core.trail",
    "pullcord.core.undo",
    "pullcord.core.values",
    "pullcord.core.visible",
    "pullcord.errors",
    "pullcord.journal",
    "pullcord.journal.anchor",
    "pullcord.journal.chain",
    "pullcord.journal.clock",
    "pullcord.journal.families",
    "pullcord.journal.forgetting",
    "pullcord.journal.keys",
    "pullcord.journal.leases",
    "pullcord.journal.ledger",
    "pullcord.journal.limiting",
    "pullcord.journal.live",
    "pullcord.journal.holding",
    "pullcord.killswitch",
    "pullcord.lazy_import",
    "pullcord.killswitch.flags",
    "pullcord.killswitch.pulled",
    "pullcord.process",
    "pullcord.regular_file",
    "pullcord.takeover",
    "pullcord.journal.opening",
    "pullcord.journal.place",
    "pullcord.journal.reading",
    "pullcord.journal.schema",
    "pullcord.journal.steady",
    "pullcord.journal.stoplog",
    "pullcord.journal.snapshots",
    "pullcord.journal.sqlite",
    "pullcord.journal.sqlite_file",
    "pullcord.journal.sqlite_rows",
    "pullcord.journal.stopping",
    "pullcord.journal.store",
    "pullcord.journal.turnstile",
    "pullcord.journal.wake",
}
MAY_LOAD_FOR_A_SERVER = {
    "pullcord",
    "pullcord.cli",
    "pullcord.cli.address",
    "pullcord.cli.answers",
    "pullcord.cli.as_json",
    "pullcord.cli.client",
    "pullcord.cli.control",
    "pullcord.cli.cord",
    "pullcord.cli.given",
    "pullcord.cli.identity",
    "pullcord.cli.main",
    "pullcord.cli.naming",
    "pullcord.cli.parser",
    "pullcord.cli.reach",
    "pullcord.cli.remote",
    "pullcord.cli.secret_names",
    "pullcord.cli.settings",
    "pullcord.cli.streams",
    "pullcord.core",
    "pullcord.core.acks",
    "pullcord.core.commands",
    "pullcord.core.states",
    "pullcord.core.values",
    "pullcord.core.visible",
    "pullcord.errors",
    "pullcord.lazy_import",
}
MUST_NOT_LOAD = {
    "asyncio",
    "concurrent",
    "dataclasses",
    "email",
    "http",
    "logging",
    "psycopg",
    "secrets",
    "shutil",
    "ssl",
    "stringprep",
    "tempfile",
    "tomllib",
}
PROBE = """
import json, sys
from pullcord.cli.main import main
status = main(sys.argv[1:])
print(json.dumps([status, sorted(sys.modules)]), file=sys.stderr)
"""


@pytest.fixture
def serving(tmp_path: Path) -> Generator[Serving]:
    with serve(tmp_path) as made:
        made.here("run", agent("quick"), "--run-id", "r1")
        yield made


@pytest.mark.parametrize(
    "words",
    [("pause", "r1"), ("resume", "r1", "--detach"), ("redirect", "r1", "x"), ("cancel", "r1")],
    ids=lambda words: words[0],
)
def test_a_control_verb_loads_only_what_is_listed(tmp_path: Path, words: tuple[str, ...]) -> None:
    pullcord = Terminal(tmp_path)
    pullcord("run", agent("quick"), "--run-id", "r1")
    pullcord("continue", "r1", "go on", "--detach")
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words, "--store", str(pullcord.store)],
        capture_output=True,
        text=True,
        check=True,
    )
    _, loaded = json.loads(done.stderr.splitlines()[-1])
    ours = {name for name in loaded if name.split(".")[0] == "pullcord"}
    assert ours <= MAY_LOAD, ours - MAY_LOAD
    assert not (MUST_NOT_LOAD | {"socket"}) & {name.split(".")[0] for name in loaded}


@pytest.mark.parametrize(
    "words",
    [("pause", "r1"), ("resume", "r1"), ("cancel", "r1"), ("answer", "r1", "x", "y")],
    ids=lambda words: words[0],
)
def test_over_a_server_it_loads_less_still(serving: Serving, words: tuple[str, ...]) -> None:
    """No store, no fold, and no library for HTTP."""
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *words],
        capture_output=True,
        text=True,
        check=True,
        env=serving.env,
    )
    status, loaded = json.loads(done.stderr.splitlines()[-1])
    assert status in (0, 3), done.stderr
    ours = {name for name in loaded if name.split(".")[0] == "pullcord"}
    assert ours <= MAY_LOAD_FOR_A_SERVER, ours - MAY_LOAD_FOR_A_SERVER
    assert not (MUST_NOT_LOAD | {"apsw", "urllib"}) & {name.split(".")[0] for name in loaded}


def test_whoever_is_brief_collects_nothing_and_whoever_drives_does(tmp_path: Path) -> None:
    pullcord = Terminal(tmp_path)
    assert pullcord("run", agent("collects"), "--run-id", "r1").out == "true\n"
    made = pullcord("continue", "r1", "go on", "--detach", "--json").json["run"]
    assert pullcord("resume", made).out == "true\n"  # a control verb, until it drives


def test_a_command_ends_with_its_status_and_all_that_it_has_said(tmp_path: Path) -> None:
    """As it is installed: it does not wait for the interpreter to be taken down in its order."""
    command = [Path(sys.executable).with_name("pullcord"), "show", "r1", "--json"]
    done = subprocess.run(
        [*command, "--store", tmp_path / "none.db"], capture_output=True, text=True
    )
    assert done.returncode == 2
    assert "There is no store" in json.loads(done.stdout)["message"]
