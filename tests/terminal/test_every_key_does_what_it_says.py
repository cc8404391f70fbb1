"""In a real terminal, each key in each state: the journal has what was asked, the bar shows it."""

import json
import os
from pathlib import Path

import pytest

from pullcord.core.events import Answered, CancelRequested, PauseRequested, Redirected, Resumed
from pullcord.core.run import Run
from pullcord.core.states import RunState
from tests.terminal.records import events
from tests.terminal.tty import ENTER, ESC, StoreWithTerminals, agent


@pytest.fixture
def desk(tmp_path: Path) -> StoreWithTerminals:
    return StoreWithTerminals(tmp_path)


def has_begun(run: Run) -> bool:
    return bool(run.open_steps())


def test_running_p_pauses_and_p_resumes(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("planned"), "--run-id", "r1") as at:
        at.shows("● Running · step 1 of 2 · one", "p Pause", "resume keeps", "c Cancel")
        at.press("p")
        at.shows("◐ Pausing · letting one finish", "p Cut now")
        desk.open_gate("one")
        at.shows("‖ Paused by you", "p Resume", "goes on where")
        [asked] = events(desk, PauseRequested)
        assert isinstance(asked, PauseRequested)
        assert (asked.by, asked.via) == ("ana", "terminal")
        at.press("p")
        at.shows("● Running · step 2 of 2 · two")
        [resumed] = events(desk, Resumed)
        assert isinstance(resumed, Resumed)
        assert resumed.via == "terminal"
        desk.open_gate("two")
        assert at.ended() == 0
        assert "✓ Completed" in at.vt.text
        assert "pullcord continue r1" in at.vt.text
        assert at.is_as_it_was


def test_pausing_p_again_cuts_nothing_that_may_not_be_done_twice(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("stubborn"), "--run-id", "r1") as at:
        at.shows("● Running · charge")
        at.press("p")
        at.shows("◐ Pausing", "p Cut now", "charge may")
        at.press("p")
        at.shows("Cut now: charge may not be done twice")


def test_r_redirects_and_shows_the_difference_while_it_is_written(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("planned"), "--run-id", "r1") as at:
        at.shows("● Running · step 1 of 2")
        at.press("r")
        at.shows("↪ ▏", "- next  two", "+ next  two", "Enter sends · Esc closes")
        at.press("two, EU onlz", "\x7f", "y")
        at.shows("↪ two, EU only▏", "- next  two", "+ next  two, EU only")
        assert not events(desk, Redirected)
        at.press(ENTER)
        desk.until(lambda run: bool(run.instructions))
        at.shows("p Pause")
        [told] = events(desk, Redirected)
        assert isinstance(told, Redirected)
        assert (told.instruction, told.via) == ("two, EU only", "terminal")


def test_esc_closes_what_is_open_and_only_then_pauses(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("planned"), "--run-id", "r1") as at:
        at.shows("● Running · step 1 of 2")
        at.press("r", "x")
        at.shows("↪ x▏")
        at.press(ESC)
        at.shows("p Pause", "● Running")
        assert not events(desk, PauseRequested)
        at.press(ESC)
        desk.until(lambda run: run.pause is not None)
        at.shows("◐ Pausing")
        at.press(ESC)
        at.shows("Pausing already; p cuts what it waits for.")
        assert len(events(desk, PauseRequested)) == 1


def test_c_asks_for_a_second_press_and_any_other_key_lets_go(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("planned"), "--run-id", "r1") as at:
        at.shows("● Running · step 1 of 2")
        at.press("c")
        at.shows("c again within 3 s: Cancel", "saves partial work · cannot undo 1: one")
        at.press("x")
        at.shows("p Pause")
        at.press("c")
        at.shows("c again within")
        assert not events(desk, CancelRequested)
        at.press("c")
        assert at.ended() == 3
        [asked] = events(desk, CancelRequested)
        assert isinstance(asked, CancelRequested)
        assert (asked.by, asked.via) == ("ana", "terminal")
        assert "■ Cancelled by ana" in at.vt.text
        assert "not attempted" in at.vt.text


def test_a_answers_a_question_in_place(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("asks"), "--run-id", "r1") as at:
        at.shows("? Waiting for you · ship it?", "a Review")
        at.press("a", '{"not": json', ENTER)
        at.shows("is not JSON", "ship it?")
        at.press("\x15", "on Monday", ENTER)
        assert at.ended() == 0
        assert "on Monday" in at.vt.text
        [answered] = events(desk, Answered)
        assert isinstance(answered, Answered)
        assert answered.via == "terminal"


def test_a_shows_the_true_call_and_y_allows_it(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("pays"), "--run-id", "r1") as at:
        at.shows("? Waiting for you · approve pay")
        at.press("a")
        shown = at.shows("May it do this: pay", "eur = 5", 'to = "bo"', "y allow this call")
        card = shown[shown.index("May it do this") :]
        assert card.index('to = "bo"') < card.index("it says: “May pay be called?”")
        at.press_until("y", "paid 5 to bo")  # it counts only when it could be read
        assert at.ended() == 0
        assert "paid 5 to bo" in at.vt.text


def test_n_denies_with_a_reason_that_the_agent_is_told(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("pays"), "--run-id", "r1") as at:
        at.shows("approve pay")
        at.press("a")
        at.shows("May it do this: pay")
        at.press_until("n", "Deny, because")
        at.press("\x15", "too much", ENTER)
        assert at.ended() == 0
        assert "too much" in at.vt.text[at.vt.text.index("told: ") :]


def test_e_changes_the_arguments_in_a_line_and_it_is_asked_about_anew(
    desk: StoreWithTerminals,
) -> None:
    with desk.tty("run", agent("pays"), "--run-id", "r1") as at:
        at.shows("approve pay")
        at.press("a")
        at.shows("May it do this: pay")
        at.press_until("e", "JSON: ")
        at.press("\x15", '{"eur": 1, "to": "bo"}', ENTER)
        desk.until(lambda run: len(run.questions) == 2)
        at.shows(
            "? Waiting for you · approve pay",
            "ana changed the arguments of pay",
            "Changed, and not called yet: a",
        )
        at.press("a")
        at.shows("eur = 1")


def test_e_opens_the_editor_where_there_is_one(desk: StoreWithTerminals, tmp_path: Path) -> None:
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i s/5/7/ "$1"\n')
    editor.chmod(0o755)
    with desk.tty("run", agent("pays"), "--run-id", "r1", EDITOR=str(editor)) as at:
        at.shows("approve pay")
        at.press("a")
        at.shows("May it do this: pay")
        at.press_until("e", "ana changed the arguments of pay")
        at.shows("approve pay", "p Pause")
        at.press("a")
        at.shows("eur = 7")


def test_a_call_that_does_not_fit_cannot_be_allowed_before_its_end_was_seen(
    desk: StoreWithTerminals,
) -> None:
    with desk.tty("run", agent("pays_a_lot"), "--run-id", "r1") as at:
        at.shows("approve pay")
        at.press("a")
        at.shows("May it do this: pay", "Space reads on; then y and n", "more lines")
        at.press("y")
        at.press_until(" ", "y allow this call")
        assert desk.until(lambda _: True).state is RunState.WAITING


def test_plus_raises_a_limit_that_was_reached_and_says_to_what(desk: StoreWithTerminals) -> None:
    words = ("run", agent("counts"), "--run-id", "r1", "--limit", "steps=2")
    with desk.tty(*words) as at:
        at.shows("‖ Paused by its limits", "2/2 steps", "+ Raise the limit", "raise the limit")
        at.press("p")
        at.shows("Resume: raise the limit first: it would stop again at once.")
        at.press("+")
        at.shows("+ again within 3 s: Raise the limit", "steps 2 → 4 (2 used)")
        at.press("+")
        assert at.ended() == 0
        assert "4 of 4 steps" in at.vt.text


def test_q_twice_gives_the_run_back_and_says_how_to_go_on(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("asks"), "--run-id", "r1") as at:
        at.shows("? Waiting for you")
        at.press("q")
        at.shows("q again within 3 s: Leave", "it is kept as it is")
        at.press("q")
        assert at.ended() == 130
        assert "Go on with: pullcord resume r1" in at.vt.text
        assert "pullcord answer r1 ship-it" in at.vt.text
        assert at.is_as_it_was
    assert desk.reached(RunState.WAITING).pause is None


def test_keys_that_cannot_be_pressed_say_why(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("planned"), "--run-id", "r1") as at:
        at.shows("● Running · step 1 of 2")
        at.press("a")
        at.shows("Nothing waits for your word.")
        at.press("+")
        at.shows("Raise: no limit was reached.")
        at.press("?")
        at.shows("Esc    closes what is open, or else pauses")
        at.press("z", "\x1b[A", "\x1b[200~ccppqq\x1b[201~", "1")
        at.press("r")
        at.shows("↪ ▏", "● Running")
    assert desk.until(lambda _: True).cancel is None


def test_cancelling_c_twice_stops_now(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("stubborn"), "--run-id", "r1") as at:
        at.shows("● Running · charge")
        at.press("c", "c")
        at.shows("◌ Cancelling · stopping charge", "c Stop now")
        at.press("c")
        at.shows("c again within", "Stop now")
        at.press("c")
        desk.until(lambda run: run.cancel is not None and run.cancel.hurried_seq > 0)
        desk.open_gate("charge")
        assert at.ended() == 3


def test_a_pause_pressed_in_another_process_shows_here(desk: StoreWithTerminals) -> None:
    with desk.tty("run", agent("planned"), "--run-id", "r1") as at:
        at.shows("● Running · step 1 of 2")
        desk("pause", "r1", "--by", "bo", "--reason", "check the join first")
        at.shows("◐ Pausing · asked by bo · “check the join first”")
        desk.open_gate("one")
        at.shows("‖ Paused by bo · “check the join first”", "p Resume")
        desk("resume", "r1")
        at.shows("● Running · step 2 of 2")


def test_the_text_streams_above_and_a_piped_stdout_has_only_what_is_said(
    desk: StoreWithTerminals, tmp_path: Path
) -> None:
    with desk.tty("run", agent("speaks"), "--run-id", "r1", rows=20) as at:
        at.shows("first words", "● Running")
        desk.open_gate("more")
        at.shows("line 99", "without an end")
        assert "● Running" in at.vt.lines[-4]
        desk.open_gate("end")
        assert at.ended() == 0
    out = os.open(tmp_path / "out", os.O_CREAT | os.O_WRONLY)
    with desk.tty("run", agent("asks"), "--run-id", "r2", stdout=out) as at:
        at.shows("? Waiting for you", "a Review")
        at.press("a", "yes", ENTER)
        assert at.ended() == 0
    os.close(out)
    assert (tmp_path / "out").read_text() == "yes\n"
    said = desk("receipt", "r1", "--json")
    assert json.loads(said.out)["state"] == "completed"
