"""Ctrl-C pauses, twice within 2 s cancels, a third leaves at once; the terminal is put back."""

import os
import signal
from pathlib import Path

import pytest

from pullcord.core.states import RunState
from tests.terminal.tty import CTRL_C, CTRL_Z, ESC, StoreWithTerminals, agent


@pytest.fixture
def desk(tmp_path: Path) -> StoreWithTerminals:
    return StoreWithTerminals(tmp_path)


def test_once_it_pauses_and_everything_is_kept(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("planned"), "--run-id", "r1") as at:
        at.shows("● Running · step 1 of 2")
        at.press(CTRL_C)
        run = desk.until(lambda run: run.pause is not None)
        assert (run.cancel, run.pause and run.pause.by) == (None, "ana")
        desk.open_gate("one")
        at.shows("‖ Paused by you")
        at.press("p")
        desk.open_gate("two")
        assert at.ended() == 0


def test_it_closes_what_is_open_and_that_does_not_count(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("planned"), "--run-id", "r1") as at:
        at.shows("● Running · step 1 of 2")
        at.press("r", "x")
        at.shows("↪ x▏")
        at.press(CTRL_C)
        at.shows("p Pause")
        assert desk.until(lambda _: True).pause is None
        at.press(CTRL_C)
        run = desk.until(lambda run: run.pause is not None)
        assert run.cancel is None


def test_twice_it_cancels(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("planned"), "--run-id", "r1") as at:
        at.shows("● Running · step 1 of 2")
        at.press(CTRL_C, CTRL_C)
        run = desk.ended()
        assert run.state is RunState.CANCELLED
        assert run.pause is not None  # the first was a pause
        assert at.ended() == 3
        assert "■ Cancelled by ana" in at.vt.text
        assert at.is_as_it_was


def test_a_third_leaves_at_once_and_the_next_owner_goes_on_cancelling(
    desk: StoreWithTerminals,
) -> None:
    with desk.tty("run", agent("stubborn"), "--run-id", "r1") as at:
        at.shows("● Running · charge")
        at.press(CTRL_C, CTRL_C)
        at.shows("◌ Cancelling")
        at.press(CTRL_C)
        assert at.ended() == 130  # although its step holds on
        assert "Do it here: pullcord cancel r1" in at.vt.text
        assert at.is_as_it_was
    assert desk.until(lambda _: True).state is RunState.CANCELLING
    with desk.tty("resume", "r1") as at:  # any next process ends it, without another press
        assert at.ended() == 3
        assert "it is cancelled" in at.vt.text
    with desk.tty("receipt", "r1") as at:
        assert at.ended() == 0
        assert "■ Cancelled" in at.vt.text
        assert "in doubt" in at.vt.text  # nobody knows whether it was charged


@pytest.mark.parametrize("key", [CTRL_C, ESC, "c", "q", "\x04"])
def test_a_key_that_is_held_down_is_one_press(desk: StoreWithTerminals, key: str) -> None:
    with desk.tty("run", agent("stubborn"), "--run-id", "r1") as at:
        at.shows("● Running · charge")
        at.hold(key, 20)
        if key != ESC:  # which closes, or pauses, however often
            at.shows("was held down")
        at.press("r", "still here")
        at.shows("↪ still here▏")
        run = desk.until(lambda _: True)
        assert (run.cancel, run.pause is not None) == (None, key in (CTRL_C, ESC))


def test_one_more_press_after_it_has_ended_does_not_say_that_it_can_go_on(
    desk: StoreWithTerminals,
) -> None:
    with desk.tty("run", agent("leaves_something_behind"), "--run-id", "r1") as at:
        at.shows("● Running")
        desk.open_gate("end")
        desk.ended()
        at.until(lambda _: at.is_as_it_was)
        at.process.send_signal(signal.SIGINT)
        assert at.ended() == 130
        assert "Left at once. It has ended." in at.vt.text


def test_with_the_event_loop_blocked_every_key_still_works(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("blocks"), "--run-id", "r1") as at:
        at.shows("before", "● Running")
        at.press("r", "hurry", "\r")
        desk.until(lambda run: bool(run.instructions))
        at.press("p")
        at.shows("◐ Pausing")
        at.resize(60, 20)
        at.until(lambda vt: vt.columns == 60 and "◐ Pausing" in vt.lines[-4])
        at.press(CTRL_C, CTRL_C)
        at.shows("◌ Cancelling")
        at.press(CTRL_C)
        assert at.ended() == 130
        assert at.is_as_it_was
    assert desk.until(lambda _: True).state is RunState.CANCELLING


def test_a_run_left_after_a_pause_is_kept(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("planned"), "--run-id", "r1") as at:
        at.shows("● Running · step 1 of 2")
        at.press(ESC)
        at.shows("◐ Pausing")
        desk.open_gate("one")
        at.shows("‖ Paused by you")
        at.press("q", "q")
        assert at.ended() == 130
        assert "pullcord resume r1" in at.vt.text
    assert desk.until(lambda _: True).state is RunState.PAUSED
    with desk.tty("resume", "r1") as at:
        at.shows("● Running · step 2 of 2")
        desk.open_gate("two")
        assert at.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_signal_gives_the_run_back_and_the_terminal_too(
    desk: StoreWithTerminals, number: int
) -> None:
    with desk.tty("run", agent("asks"), "--run-id", "r1") as at:
        at.shows("? Waiting for you")
        at.process.send_signal(number)
        assert at.ended() == 130
        assert "Go on with: pullcord resume r1" in at.vt.text
        assert at.is_as_it_was
    assert desk.until(lambda _: True).state is RunState.WAITING


def test_an_interrupt_from_elsewhere_counts_like_the_key(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("asks"), "--run-id", "r1") as at:
        at.shows("? Waiting for you")
        at.process.send_signal(signal.SIGINT)
        at.shows("‖ Paused by you")
    assert desk.until(lambda _: True).state is RunState.PAUSED


def test_ctrl_z_puts_the_terminal_back_and_going_on_takes_it_again(
    desk: StoreWithTerminals,
) -> None:
    with desk.tty_of("-m", "pullcord", "run", agent("asks"), "--run-id", "r1") as at:
        at.shows("? Waiting for you", "a Review")
        at.press(CTRL_Z)
        _, status = os.waitpid(at.process.pid, os.WUNTRACED)
        assert os.WIFSTOPPED(status)
        at.until(lambda vt: "a Review" not in vt.text and at.is_as_it_was)
        at.process.send_signal(signal.SIGCONT)
        at.shows("? Waiting for you", "a Review")
        assert not at.is_as_it_was
        at.press("a", "yes", "\r")
        assert at.ended() == 0
        assert at.is_as_it_was


def test_a_bar_that_breaks_leaves_a_usable_terminal_and_the_run_goes_on(
    desk: StoreWithTerminals,
) -> None:
    with desk.tty("run", agent("breaks_the_bar"), "--run-id", "r1") as at:
        at.shows("The bar has failed: planted. The run goes on.")
        assert at.is_as_it_was
        desk.open_gate("end")
        assert at.ended() == 0


def test_a_process_that_fails_to_start_its_agent_leaves_the_terminal_alone(
    desk: StoreWithTerminals,
) -> None:
    with desk.tty("run", agent("planned"), "--run-id", "r1", "--thread", "not a thread") as at:
        assert at.ended() == 2
        assert at.is_as_it_was or not at.vt.modes


def test_a_terminal_that_is_closed_gives_the_run_back(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("asks"), "--run-id", "r1") as at:
        at.shows("? Waiting for you")
        at.hang_up()
        at.process.wait()
    head = desk("ps", "--json").json[0]
    assert (head["state"], head["driven"]) == ("waiting", False)
