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
    "pullcord.cli.arguments",
    "pullcord.cli.as_json",
    "pullcord.cli.commands",
    "pullcord.cli.commands.control",
    "pullcord.cli.local_runs",
    "pullcord.cli.main",
    "pullcord.cli.parser",
    "pullcord.cli.reach",
    "pullcord.cli.render",
    "pullcord.cli.render.run_text",
    "pullcord.cli.settings",
    "pullcord.cli.standard_streams",
    "pullcord.cli.verbs",
    "pullcord.client",
    "pullcord.client.run_access",
    "pullcord.client.secret_names",
    "pullcord.core",
    "pullcord.core.acks",
    "pullcord.core.action_trail",
    "pullcord.core.commands",
    "pullcord.core.conditions",
    "pullcord.core.decide",
    "pullcord.core.events",
    "pullcord.core.fold",
    "pullcord.core.forget",
    "pullcord.core.judging",
    "pullcord.core.likeness",
    "pullcord.core.limits",
    "pullcord.core.loopback",
    "pullcord.core.receipts",
    "pullcord.core.resting",
    "pullcord.core.run",
    "pullcord.core.run_ids",
    "pullcord.core.runaway",
    "pullcord.core.states",
    "pullcord.core.stops",
    "pullcord.core.text",
    "pullcord.core.text.visible",
    "pullcord.core.undo",
    "pullcord.core.values",
    "pullcord.errors",
    "pullcord.journal",
    "pullcord.journal.chain",
    "pullcord.journal.clock",
    "pullcord.journal.evidence",
    "pullcord.journal.evidence.anchor",
    "pullcord.journal.evidence.stoplog",
    "pullcord.journal.monotonic",
    "pullcord.journal.open_store",
    "pullcord.journal.rules",
    "pullcord.journal.rules.idempotency",
    "pullcord.journal.rules.leases",
    "pullcord.journal.rules.ledger",
    "pullcord.journal.rules.limit_checks",
    "pullcord.journal.rules.live_text",
    "pullcord.journal.rules.switch_pauses",
    "pullcord.journal.rules.undriven_stops",
    "pullcord.journal.sqlite",
    "pullcord.journal.sqlite.backend",
    "pullcord.journal.sqlite.file",
    "pullcord.journal.sqlite.rows",
    "pullcord.journal.sqlite.schema",
    "pullcord.journal.sqlite.turnstile",
    "pullcord.journal.sqlite.wake_pipe",
    "pullcord.journal.one_commit",
    "pullcord.journal.store",
    "pullcord.journal.store_location",
    "pullcord.journal.stored_runs",
    "pullcord.journal.stored_runs.families",
    "pullcord.journal.stored_runs.forgotten",
    "pullcord.journal.stored_runs.run_records",
    "pullcord.journal.stored_runs.snapshots",
    "pullcord.killswitch",
    "pullcord.killswitch.flags",
    "pullcord.killswitch.pulled",
    "pullcord.lazy_import",
    "pullcord.process",
    "pullcord.regular_file",
    "pullcord.takeover",
}
MAY_LOAD_FOR_A_SERVER = {
    "pullcord",
    "pullcord.cli",
    "pullcord.cli.arguments",
    "pullcord.cli.as_json",
    "pullcord.cli.commands",
    "pullcord.cli.commands.control",
    "pullcord.cli.main",
    "pullcord.cli.parser",
    "pullcord.cli.reach",
    "pullcord.cli.settings",
    "pullcord.cli.standard_streams",
    "pullcord.cli.verbs",
    "pullcord.client",
    "pullcord.client.answers",
    "pullcord.client.http",
    "pullcord.client.run_access",
    "pullcord.client.secret_names",
    "pullcord.client.server_address",
    "pullcord.client.server_runs",
    "pullcord.core",
    "pullcord.core.acks",
    "pullcord.core.commands",
    "pullcord.core.loopback",
    "pullcord.core.run_ids",
    "pullcord.core.states",
    "pullcord.core.text",
    "pullcord.core.text.visible",
    "pullcord.core.values",
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
