"""Narrow, low, resized, colourless, dumb, piped, in the background: each gets what it can show."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pullcord.core.states import RunState
from tests.terminal.tty import CTRL_C, StoreWithTerminals, agent


@pytest.fixture
def desk(tmp_path: Path) -> StoreWithTerminals:
    return StoreWithTerminals(tmp_path)


def test_in_sixty_columns_everything_that_matters_is_there(desk: StoreWithTerminals) -> None:
    limits = ("--limit", "steps=40", "--limit", "usd=2")
    with desk.tty("run", agent("planned"), "--run-id", "r1", *limits, columns=60) as at:
        at.shows("● Running · step 1 of 2", "1/40 steps  $0.00/$2.00  00:0")
        shown = at.shows("p Pause", "r Redirect", "c Cancel", "saves partial work")
        assert max(map(len, shown.splitlines())) <= 60


def test_a_resize_moves_the_bar_to_the_new_foot_and_leaves_nothing_behind(
    desk: StoreWithTerminals,
) -> None:
    with desk.tty("run", agent("speaks"), "--run-id", "r1", columns=80, rows=24) as at:
        desk.open_gate("more")
        at.shows("without an end", "● Running")
        for columns, rows in ((60, 16), (120, 40), (40, 13), (80, 24)):
            at.resize(columns, rows)
            shown = at.until(
                lambda vt, n=columns: (
                    vt.lines[-5].startswith("─ r1 · speaks ─")
                    and vt.lines[-5].endswith("? help ─")
                    and len(vt.lines[-5]) == n
                    and "● Running" in vt.lines[-4]
                    and vt.lines[-3].startswith("p Pause")
                )
            )
            assert shown.count("● Running") == 1
            assert "without an end" in shown


def test_a_low_terminal_keeps_the_state_and_the_keys(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("planned"), "--run-id", "r1", rows=6) as at:
        at.until(lambda vt: "● Running · step 1 of 2" in vt.text and "p Pause" in vt.text)
        at.press("r", "x")
        at.shows("↪ x▏")


def test_without_colour_there_is_none(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("asks"), "--run-id", "r1", NO_COLOR="1") as at:
        at.shows("? Waiting for you", "a Review")
        at.press(CTRL_C, CTRL_C)
        assert at.ended() == 3
        assert not [one for one in at.vt.sequences if one.endswith("m")]
    with desk.tty("run", agent("asks"), "--run-id", "r2") as at:
        at.shows("? Waiting for you", "a Review")
        assert [one for one in at.vt.sequences if one.endswith("m")]


def test_a_dumb_terminal_gets_plain_lines_and_ctrl_c_gives_the_run_back(
    desk: StoreWithTerminals,
) -> None:
    with desk.tty("run", agent("asks"), "--run-id", "r1", TERM="dumb") as at:
        at.shows("? ship it?", "pullcord answer r1 ship-it")
        assert "a Review" not in at.vt.text
        at.press(CTRL_C)
        assert at.ended() == 130
        assert "Go on with: pullcord resume r1" in at.vt.text
        assert b"\x1b[?" not in at.raw


def test_json_is_never_disturbed_by_a_bar(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("counts"), "--run-id", "r1", "--json", columns=300) as at:
        assert at.ended() == 0
        assert '"type":"completed"' in at.raw.decode()
        assert b"\x1b" not in at.raw


def test_without_a_keyboard_lines_are_plain_and_ctrl_c_leaves_the_run_resumable(
    desk: StoreWithTerminals,
) -> None:
    with desk.running("run", agent("asks"), "--run-id", "r1") as process:
        desk.reached(RunState.WAITING)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Go on with: pullcord resume r1" in err
    assert "\x1b" not in out + err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_without_a_bar_a_signal_gives_the_run_back(desk: StoreWithTerminals, number: int) -> None:
    with desk.running("run", agent("asks"), "--run-id", "r1") as process:
        desk.reached(RunState.WAITING)
        process.send_signal(number)
        _, err = process.communicate()
    assert process.returncode == 130
    assert "Go on with: pullcord resume r1" in err
    assert desk("ps", "--json").json[0]["driven"] is False


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_without_a_bar_code_that_holds_the_loop_does_not_keep_the_process(
    desk: StoreWithTerminals, number: int
) -> None:
    with desk.running("run", agent("blocks"), "--run-id", "r1") as process:
        says_that_it_gives_it_back(desk, process, number)
        time.sleep(0.4)  # else it would be a key that is held down
        process.send_signal(number)
        _, err = process.communicate()
    assert process.returncode == 130
    assert "Left at once. It is kept as it is. Go on with: pullcord resume r1" in err


def test_without_a_bar_ctrl_c_that_is_held_down_counts_once(desk: StoreWithTerminals) -> None:
    with desk.running("run", agent("blocks"), "--run-id", "r1") as process:
        says_that_it_gives_it_back(desk, process, signal.SIGINT)
        time.sleep(0.4)
        for _ in range(10):  # no pause between them: on a busy machine that would become a second
            process.send_signal(signal.SIGINT)
        desk.open_gate("loop")
        _, err = process.communicate()
    assert "Left at once" not in err


def says_that_it_gives_it_back(
    desk: StoreWithTerminals, process: "subprocess.Popen[str]", number: int
) -> None:
    """Although its loop is held, so that nothing else is said."""
    while not (desk.gates / "held").exists():
        os.sched_yield()
    process.send_signal(number)
    assert process.stderr
    while "Giving r1 back." not in process.stderr.readline():
        assert process.poll() is None


def test_a_hangup_that_is_to_be_ignored_is_ignored(desk: StoreWithTerminals) -> None:
    """As nohup has it."""
    words = [sys.executable, "-m", "pullcord", "run", agent("asks"), "--run-id", "r1"]
    with subprocess.Popen(["sh", "-c", 'trap "" HUP; exec "$0" "$@"', *words], env=desk.env) as one:
        run = desk.reached(RunState.WAITING)
        one.send_signal(signal.SIGHUP)
        desk("answer", "r1", run.open_questions()[0], "yes")
    assert one.returncode == 0


def test_in_the_background_nothing_touches_the_terminal(
    desk: StoreWithTerminals, tmp_path: Path
) -> None:
    """A shell starts it with &: taking the keyboard would stop it."""
    starter = tmp_path / "starter.py"
    starter.write_text(
        "import os, subprocess, sys\n"
        "subprocess.run([sys.executable, '-m', 'pullcord', *sys.argv[1:]], process_group=0)\n"
    )
    with desk.tty_of(str(starter), "run", agent("asks"), "--run-id", "r1") as at:
        at.shows("pullcord answer r1 ship-it")
        assert "a Review" not in at.vt.text
        run = desk.reached(RunState.WAITING)
        desk("answer", "r1", run.open_questions()[0], "yes")
        at.ended()
        assert b"\x1b[?25l" not in at.raw


def test_a_row_that_is_exactly_full_loses_nothing_to_the_bar(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("fills_rows"), "--run-id", "r1", columns=40) as at:
        at.shows("● Running")
        for number in range(4):
            desk.open_gate(f"row-{number}")
            at.shows("\n".join(f"{n}" * 40 for n in range(number + 1)))
            at.press("a")
            at.shows("Nothing waits")  # the bar was drawn once more
        desk.open_gate("end")
        assert at.ended() == 0


def test_the_bar_is_made_of_few_bytes(desk: StoreWithTerminals) -> None:
    """What has not changed is not sent again."""
    with desk.tty("run", agent("speaks"), "--run-id", "r1") as at:
        at.shows("first words", "● Running")
        desk.open_gate("more")
        at.shows("without an end")
        drawn = re.findall(rb"Redirect.*?\x1b8", at.raw, re.DOTALL)  # up to the end of the bar
        assert len(drawn) == len(set(drawn))
        assert len(drawn) <= 2  # when the agent is told is another time in a step


def test_the_terminal_is_found_by_itself() -> None:
    """No part of the bar is loaded by a command that has no bar."""
    probe = (
        "import sys, pullcord.cli.commands.show, pullcord.cli.commands.control; "
        "print(sorted(sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, check=True, env=os.environ
    )
    assert "pullcord.cli.live.run_view" not in done.stdout
    assert "termios" not in done.stdout
