"""A key may be bound otherwise, in one table for the bar and for top; the screen shows it."""

from pathlib import Path

import pytest

from pullcord.core.events import CancelRequested, PauseRequested
from pullcord.terminal.keymap import DEFAULTS, Keymap
from tests.terminal.records import events
from tests.terminal.tty import CTRL_C, StoreWithTerminals, agent
from tests.tui.top import started

F5 = "\x1b[15~"
BOUND = """
[keys]
pause = "f5"
redirect = "w"
cancel = "x"
help = "h"
leave = "ä"
approve = "J"
down = "space"
read_on = "o"
"""


@pytest.fixture
def desk(tmp_path: Path) -> StoreWithTerminals:
    made = StoreWithTerminals(tmp_path)
    made.env["HOME"] = str(tmp_path / "home")
    made.folder = tmp_path / "project"
    made.folder.mkdir()
    return made


def own(desk: StoreWithTerminals, text: str) -> Path:
    """The file of the person who sits there."""
    path = Path(desk.env["HOME"]) / ".config" / "pullcord" / "pullcord.toml"
    path.parent.mkdir(parents=True)
    path.write_text(text)
    return path


def of_the_folder(desk: StoreWithTerminals, text: str) -> Path:
    assert desk.folder
    path = desk.folder / "pullcord.toml"
    path.write_text(text)
    return path


def test_the_bar_obeys_the_keys_that_are_bound_and_shows_them(desk: StoreWithTerminals) -> None:
    own(desk, BOUND)
    with desk.tty("run", agent("planned"), "--run-id", "r1") as at:
        at.shows("F5 Pause", "w Redirect", "x Cancel", "h help")
        at.press("h")
        at.shows("F5     pause and resume", "x x    cancel:", "ä ä    leave:", "Ctrl-C the same;")
        at.press("p", "c", "c", "q", "q", "r")  # none of them means anything
        at.press("w", "pcq")
        at.shows("↪ pcq▏")
        at.press("\x1b")
        at.shows("F5 Pause")
        assert not events(desk, PauseRequested)
        assert not events(desk, CancelRequested)
        at.press(F5)
        at.shows("◐ Pausing", "F5 Cut now")
        desk.open_gate("one")
        at.shows("‖ Paused by you", "F5 Resume")
        at.press("x")
        at.shows("x again within 3 s: Cancel")
        at.press("c")  # lets go
        at.shows("F5 Resume")
        at.press("ä", "ä")
        assert at.ended() == 130
    assert not events(desk, CancelRequested)


def test_a_call_is_allowed_by_the_key_that_is_bound(desk: StoreWithTerminals) -> None:
    own(desk, BOUND)
    with desk.tty("run", agent("pays"), "--run-id", "r1") as at:
        at.shows("? Waiting for you")
        at.press("a")
        at.shows("J allow this call · n deny · e change it")
        at.press_until("J", "✓ Completed")
        assert at.ended() == 0


def test_ctrl_c_means_the_same_whatever_is_bound(desk: StoreWithTerminals) -> None:
    own(desk, BOUND)
    with desk.tty("run", agent("planned"), "--run-id", "r1") as at:
        at.shows("● Running · step 1 of 2", "F5 Pause")
        at.press(CTRL_C)
        at.shows("◐ Pausing")
        at.press(CTRL_C)
        assert at.ended() == 3
    assert len(events(desk, PauseRequested)) == len(events(desk, CancelRequested)) == 1


def test_top_obeys_the_same_table(desk: StoreWithTerminals) -> None:
    own(desk, BOUND)
    with desk.tty("run", agent("asks"), "--run-id", "r1") as at:
        at.shows("? Waiting for you")
        with started(desk.store, HOME=desk.env["HOME"]) as top:
            top.until(lambda said: " F5 " in said and "h keys  ä leave" in said)
            top.press("ph")
            top.until(lambda said: "a second x within 3 s does it" in said)
            assert not events(desk, PauseRequested)
            top.press(f"h{F5}")
            top.until(lambda said: "Paused by you" in said and "Resume" in said)
            top.press("ä")
            assert top.end()[0] == 0
        at.shows("‖ Paused by you")
    [asked] = events(desk, PauseRequested)
    assert isinstance(asked, PauseRequested)
    assert asked.via == "top"


WRONG = {
    '[keys]\npaus = "x"': (2, "there is no keys.paus; there are pause, redirect, cancel"),
    "[keys]\n\npause = 1": (3, "keys.pause is a key in quotes, such as 'p'"),
    "[keys]\npause = ''": (2, "keys.pause is a key in quotes"),
    '[keys]\npause = "pp"': (2, "keys.pause is one character, space, or f1 to f12, not 'pp'"),
    '[keys]\npause = "f13"': (2, "not 'f13'"),
    '[keys]\npause = "\\u202e"': (2, r"not '\\u202e'"),
    '[keys]\npause = "Ctrl-C"': (2, "'Ctrl-C' cannot be bound: it pauses, twice it cancels"),
    '[keys]\ncancel = "escape"': (2, "'escape' cannot be bound: it closes what is open"),
    '[keys]\ncancel = "enter"': (2, "'enter' cannot be bound: it sends what was written"),
    'keys.deny = "1"': (1, "'1' cannot be bound: numbers turn to the views"),
    '[keys]\ndeny = "x"\ncancel = "p"': (3, "p cannot be both cancel and pause. Give one of them"),
    '[keys]\ndeny = "x"\ncancel = "x"': (2, "x cannot be both deny and cancel"),
    "keys = 3": (1, "keys is a table"),
}


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_be_bound_is_refused_with_its_line(desk: StoreWithTerminals, text: str) -> None:
    path = own(desk, text)
    line, why = WRONG[text]
    said = desk("ps")
    assert said.status == 2
    assert said.err.startswith(f"{path}:{line}: ")
    assert why in said.err
    assert said.err.endswith("Nothing was done. Correct the file, or take it away.\n")


def test_two_keys_may_change_places(desk: StoreWithTerminals) -> None:
    own(desk, '[keys]\npause = "c"\ncancel = "p"\n')
    with desk.tty("run", agent("planned"), "--run-id", "r1") as at:
        at.shows("c Pause", "p Cancel")
        at.press("p")
        at.shows("p again within 3 s: Cancel")


def test_a_file_that_comes_with_a_folder_gives_no_known_key_another_meaning(
    desk: StoreWithTerminals,
) -> None:
    """Who presses p without looking, wherever they are, must not approve with it."""
    path = of_the_folder(desk, '[keys]\npause = "y"\napprove = "p"\n')
    said = desk("ps")
    assert (said.status, said.err.startswith(f"{path}:2: y is approve")) == (2, True), said.err
    assert "or do it in your own file" in said.err
    of_the_folder(desk, '[keys]\npause = "f5"\nhelp = "F"\n')
    with desk.tty("run", agent("planned"), "--run-id", "r1") as at:
        at.shows("F5 Pause", "c Cancel", "F help")
        desk.open_gate("one")
        desk.open_gate("two")
        assert at.ended() == 0
    own(desk, '[keys]\nfilter = "f5"\n')
    assert "F5 is filter" in desk("ps").err  # it means something to this person


def test_the_nearer_file_wins_key_by_key_and_doctor_says_where_they_come_from(
    desk: StoreWithTerminals,
) -> None:
    mine = own(desk, '[keys]\npause = "f5"\ncancel = "f6"\n')
    theirs = of_the_folder(desk, '[keys]\npause = "f7"\n')
    found = [f["found"] for f in desk("doctor", "--json").json if f["what"] == "setting"]
    said = f"keys = {{'pause': 'f7', 'cancel': 'f6'}} ({theirs}, {mine})"
    assert said in found


def test_no_two_actions_have_one_key_as_they_come() -> None:
    assert len(set(DEFAULTS.values())) == len(DEFAULTS)
    bound = Keymap()
    assert [bound.action(key) for key in DEFAULTS.values()] == list(DEFAULTS)
