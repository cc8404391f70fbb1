"""P10 with the store in PostgreSQL: the switch works while there is no server, holds what it holds
when there is one again, and resumes nothing."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import pytest

from pullcord.core.stops import decode_entry
from pullcord.journal.open_store import opened
from pullcord.killswitch.flags import Scope
from tests.postgres.server import Server, serving
from tests.switch.store_with_processes import ROOT, StoreWithProcesses, store_with_processes


class Said(NamedTuple):
    """What the command has printed, and how long it took from its start to its end."""

    status: int
    report: dict[str, Any]
    took_s: float


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as started:
        yield started


@pytest.fixture
def home(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[StoreWithProcesses]:
    monkeypatch.setenv("PULLCORD_STATE", str(tmp_path / "state"))
    with store_with_processes(tmp_path, server.url("pullcord")) as opened_house:
        yield opened_house


def kill_switch(
    home: StoreWithProcesses, act: str, *, before: Path | None = None, store: str = ""
) -> Said:
    """The command itself, in a process of its own. `before`: a folder whose modules come first."""
    path = f"{before}:{ROOT / 'src'}" if before else str(ROOT / "src")
    began = time.monotonic()
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pullcord",
            "kill-switch",
            act,
            "--store",
            store or home.where,
            "--json",
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": path},
    )
    assert done.stdout, done.stderr
    return Said(done.returncode, json.loads(done.stdout), time.monotonic() - began)


def is_quiet(home: StoreWithProcesses, since_ns: int) -> bool:
    return not [what for what, at_ns in home.starts() if at_ns > since_ns]


def is_held(home: StoreWithProcesses) -> bool:
    return set(home.states().values()) == {"paused"}


@pytest.mark.parametrize(
    ("kind", "absent"),
    [
        ("killable", "killed"),
        ("embedded", "killed"),
        ("killable", "stopped"),
        ("embedded", "frozen"),
    ],
)
def test_the_switch_works_without_the_server(
    home: StoreWithProcesses,
    server: Server,
    kind: str,
    absent: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    process = home.opens("beats=2", "tools=3", "sleeps=1", "ignores=1", "threads=1", kind=kind)
    home.has_begun(beat=20, works=3, sleeps=1, ignores=1, threads=1)
    home.until(lambda: len(home.living()) == 3)
    {"killed": server.kill, "stopped": server.stop, "frozen": server.freezes}[absent]()

    said = kill_switch(home, "engage")
    acknowledged_ns = time.monotonic_ns()
    assert not home.living()
    with capsys.disabled():
        print(
            f"\n  {kind}, server {absent}: answered {said.report['took_ms']} ms after the flag, "
            f"the command took {said.took_s:.2f} s; every process tool was dead by then",
            end=" ",
        )
    assert (said.status, said.report["recorded"], said.report["asked"]) == (1, False, 1)
    assert "postgres" in said.report["why_not_recorded"]
    named = sorted(one["what"].split(" of ")[0] for one in said.report["not_stopped"])
    if kind == "killable":  # what it could not stop has ended with its process
        assert (named, said.report["killed"]) == ([], [process.pid])
    else:
        assert (named, said.report["killed"]) == (["step 'ignore'", "step 'wait_in_thread'"], [])

    in_vain = home.tries_to_open("waits=0", kind=kind)  # there is no server to open
    assert in_vain.wait() != 0
    assert is_quiet(home, acknowledged_ns)

    server.is_back()
    if kind == "killable":
        home.opens("waits=0", kind=kind)
    home.until(lambda: is_held(home))  # recorded by whoever drives runs here
    assert is_quiet(home, acknowledged_ns)

    for family in home.families:
        family.kill()
        family.wait()
    home.opens("waits=0", kind=kind)
    home.until(lambda: home.pulls().asked == 1)  # it is there, and has looked
    assert is_held(home)

    released = kill_switch(home, "release")
    assert (released.status, released.report["engaged"]) == (0, [])
    home.until(lambda: home.pulls(Scope("agent", "nobody")).asked == 1)  # it has looked again
    assert is_held(home)
    assert is_quiet(home, acknowledged_ns)
    store = opened(home.where)
    noted = store.read(lambda view: view.stops(after=0, limit=1000))
    store.close()
    kinds = {type(decode_entry(row.payload).act).__name__ for row in noted if row.payload}
    assert {"SwitchEngaged", "SwitchReleased"} <= kinds


def test_it_needs_no_driver_of_the_database_either(
    home: StoreWithProcesses, tmp_path: Path
) -> None:
    """Whatever keeps it from being loaded."""
    home.opens("beats=2", "tools=2")
    home.has_begun(beat=20, works=2)
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "psycopg.py").write_text("raise ImportError('broken')\n")
    said = kill_switch(home, "engage", before=broken)
    acknowledged_ns = time.monotonic_ns()
    assert not home.living()
    assert (said.status, said.report["asked"], said.report["not_stopped"]) == (1, 1, [])
    assert "pip install" in said.report["why_not_recorded"]
    home.until(lambda: is_held(home))
    assert is_quiet(home, acknowledged_ns)


def test_a_store_that_nobody_here_has_opened_is_not_said_to_be_stopped(
    home: StoreWithProcesses,
) -> None:
    """The same database may have another name: then it would be another switch."""
    home.opens("waits=1")
    named = subprocess.run(
        [sys.executable, "-m", "pullcord", "kill-switch", "engage", "--store", f"{home.where}_x"],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert named.returncode == 2
    assert "Nothing was stopped" in named.stderr
    assert home.store.parent.name in named.stderr


def test_who_has_opened_the_same_store_by_another_name_is_named(
    home: StoreWithProcesses, server: Server, tmp_path: Path
) -> None:
    """The other name was used here too, by whoever looked before pulling it."""
    process = home.opens("tools=1")
    home.has_begun(works=1)
    (tmp_path / "alias").symlink_to(server.socket)
    alias = home.where.replace(
        quote(str(server.socket), safe=""), quote(str(tmp_path / "alias"), safe="")
    )
    opened(alias, make=False).close()
    said = kill_switch(home, "engage", store=alias)
    assert home.living(), "it is another switch"
    assert said.status == 1
    [left] = said.report["not_stopped"]
    assert left["what"] == f"process {process.pid}"
    assert "by another name" in left["why"]
    assert kill_switch(home, "status", store=alias).report["not_stopped"] == [left]
    assert kill_switch(home, "engage").report["not_stopped"] == []
    assert not home.living()


def test_a_release_needs_the_server(home: StoreWithProcesses, server: Server) -> None:
    """It is written down before it is done."""
    home.opens("tools=1")
    home.has_begun(works=1)
    server.kill()
    kill_switch(home, "engage")
    refused = subprocess.run(
        [sys.executable, "-m", "pullcord", "kill-switch", "release", "--store", home.where],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )
    assert refused.returncode != 0
    assert home.flags.is_any_raised()
    server.start()
    home.until(lambda: is_held(home))
    assert kill_switch(home, "release").status == 0
    assert not home.flags.is_any_raised()
    assert is_held(home)
