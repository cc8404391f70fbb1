"""Whoever reads what a command says, or does not: the command is carried out, and says how."""

import subprocess
import sys
from pathlib import Path

import pytest

from pullcord.core.states import RunState
from tests.cli.terminal import Said, Terminal, agent


@pytest.fixture
def pullcord(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


def sh(pullcord: Terminal, words: str, around: str) -> Said:
    """By a shell, which closes, fills or cuts off what the command would write to."""
    done = subprocess.run(
        ["sh", "-c", f'"$0" -m pullcord {words} {around}', sys.executable],
        env=pullcord.env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    return Said(done.returncode, done.stdout, done.stderr)


def waiting(pullcord: Terminal) -> None:
    pullcord("run", agent("quick"), "--run-id", "r0")
    pullcord("continue", "r0", "go on", "--detach", "--json")
    [living] = pullcord("ps", "--json").json
    pullcord.env["RUN"] = living["run"]


@pytest.mark.parametrize("around", [">&-", ">&- 2>&-", "<&- >&- 2>&-", ">/dev/full"])
def test_a_cancel_is_carried_out_although_nobody_can_be_told(
    pullcord: Terminal, around: str
) -> None:
    waiting(pullcord)
    said = sh(pullcord, 'cancel "$RUN"', around)
    assert pullcord("show", pullcord.env["RUN"], "--json").json["state"] == "cancelled"
    assert (said.status, "Traceback" in said.err) == (0, False)
    assert ("cannot be written to" in said.err) == (around == ">/dev/full")


def test_the_kill_switch_is_engaged_although_nobody_can_be_told(pullcord: Terminal) -> None:
    waiting(pullcord)
    said = sh(pullcord, "kill-switch engage", ">&-")
    assert (said.status, said.err) == (0, "")
    assert pullcord("kill-switch", "status", "--json").json["engaged"]


def test_a_command_that_is_refused_says_so_by_its_status_also_into_a_closed_pipe(
    pullcord: Terminal,
) -> None:
    pullcord("run", agent("quick"), "--run-id", "r1")
    assert sh(pullcord, "pause r1 --json", ">/dev/full").status == 3
    assert sh(pullcord, "pause r1", "2>/dev/full").status == 3


def test_a_closed_standard_input_has_nothing_in_it(pullcord: Terminal) -> None:
    waiting(pullcord)
    said = sh(pullcord, 'redirect "$RUN" -', "<&-")
    assert (said.status, "Traceback" in said.err) == (2, False)


@pytest.mark.parametrize("words", ["ps --all", "ps --all --json", "show r1"])
def test_what_only_tells_has_failed_if_it_cannot(pullcord: Terminal, words: str) -> None:
    pullcord("run", agent("quick"), "--run-id", "r1")
    said = sh(pullcord, words, ">/dev/full")
    assert said.status == 1
    assert said.err == "Standard output cannot be written to: No space left on device.\n"


@pytest.mark.parametrize("around", [">/dev/full", ">&-", "2>/dev/full", "2>&1 >/dev/full"])
def test_a_run_is_driven_to_its_end_although_nobody_can_be_told(
    pullcord: Terminal, around: str
) -> None:
    said = sh(pullcord, f"run {agent('quick')} --run-id r1", around)
    assert (said.status, "Traceback" in said.err) == (0, False)
    assert pullcord.reached(RunState.COMPLETED).state is RunState.COMPLETED


@pytest.mark.parametrize("manner", ["", "--json", "2>&1"])
def test_a_reader_who_has_had_enough_does_not_give_up_the_run(
    pullcord: Terminal, manner: str
) -> None:
    """As `| head -1` does, but for certain: nobody reads from the first byte on."""
    words = ["run", agent("quick"), "--run-id", "r1", *(["--json"] if manner == "--json" else [])]
    into = subprocess.STDOUT if manner == "2>&1" else subprocess.DEVNULL
    with subprocess.Popen(
        [sys.executable, "-m", "pullcord", *words],
        env=pullcord.env,
        stdout=subprocess.PIPE,
        stderr=into,
    ) as process:
        assert process.stdout
        process.stdout.close()
    assert process.returncode == 0
    assert pullcord.ended().state is RunState.COMPLETED
