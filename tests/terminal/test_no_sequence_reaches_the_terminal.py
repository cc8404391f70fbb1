"""Whatever text there is, in every place where a person reads it: nothing of it acts or hides.

An independent terminal reads every byte that was sent. The only sequences in them are those that
the bar itself sends, whole, and none of them has room for anybody's text.
"""

from pathlib import Path

import pytest

from tests.terminal.payloads import LURE, PAYLOADS
from tests.terminal.tty import ENTER, StoreWithTerminals, Tty
from tests.terminal.vt import Vt

HOSTILE = Path(__file__).with_name("hostile.py")
EVERYTHING = "".join(PAYLOADS.values())


@pytest.fixture
def desk(tmp_path: Path) -> StoreWithTerminals:
    return StoreWithTerminals(tmp_path)


def clean(at: Tty) -> None:
    """Nothing was foreign, in anything that was sent."""
    for one in at.vt.foreign:
        where = at.raw.decode().index(one)
        print(repr(at.raw.decode()[max(where - 300, 0) : where + 100]))
    assert at.vt.foreign == []
    assert LURE in at.raw.decode()


def looked_at(desk: StoreWithTerminals, *words: str, lure: bool = False) -> None:
    with desk.tty(*words) as at:
        at.ended()
        assert at.vt.foreign == []
        assert not lure or LURE in at.raw.decode()


@pytest.mark.parametrize("name", PAYLOADS)
def test_the_terminal_that_judges_would_notice(name: str) -> None:
    vt = Vt()
    vt.feed(PAYLOADS[name].encode())
    vt.feed(b"@")  # ends what was left open
    harmless = ("a bar of its own", "many lines", "carriage return over it")
    ours = ("sgr red", "save and restore", "cursor up over the bar", "clear the line",
            "another scroll region", "hide the cursor")  # fmt: skip
    assert bool(vt.foreign) != (name in harmless + ours)


def test_text_that_streams_cut_at_every_place(desk: StoreWithTerminals) -> None:
    with desk.tty("run", f"{HOSTILE}:speaks", "--run-id", "r1") as at:
        at.shows("● Running")
        desk.until(lambda run: True in run.texts.values())  # all of it is said
        at.press("r", "\x1b[200~" + EVERYTHING.replace("\x1b[201~", "") + "\x1b[201~")
        at.shows("Enter sends")
        at.press("\x03")
        desk.open_gate("end")
        assert at.ended() == 0
        clean(at)
        shown = at.said.partition("completed")[0].replace("\r\n", "")  # without its own line ends
        times = sum(text.count(LURE) * (len(text) + 1) for text in PAYLOADS.values())
        assert shown.count(LURE) == times
        assert shown.count("approved") == len(PAYLOADS["many lines"]) + 1
        sent = set(at.vt.sequences)
        assert len(sent) < 80  # rows and columns of the bar, and colours
    for words in (("watch", "r1"), ("show", "r1", "--records"), ("show", "r1", "--json")):
        looked_at(desk, *words, lure=True)


def test_a_word_that_the_bar_was_drawn_into_is_whole(desk: StoreWithTerminals) -> None:
    with desk.tty("run", f"{HOSTILE}:speaks_in_halves", "--run-id", "r1") as at:
        at.shows("● Running", "appr")
        at.press("a")
        at.shows("Nothing waits")  # the bar was drawn
        desk.open_gate("half")
        at.shows("approved")
        assert at.said.count("approved") == 1


def test_tools_steps_plans_errors_reasons_names_and_questions(desk: StoreWithTerminals) -> None:
    name = EVERYTHING.replace("\n", " ")
    words = ("run", f"{HOSTILE}:works", "--run-id", "r1", "--limit", "steps=10000")
    with desk.tty(*words, "--by", name) as at:
        at.shows("? Waiting for you")
        at.press("a")
        at.shows("Enter sends · Esc closes")
        at.press("\x03")
        desk("pause", "r1", "--by", name, "--reason", EVERYTHING)
        at.shows("‖ Paused by")
        for look in (
            ("ps",), ("show", "r1"), ("show", "r1", "--records"), ("receipt", "r1"),
            ("attention",), ("ps", "--json"), ("show", "r1", "--json", "--records"),
            ("doctor",), ("pause", "r1"), ("redirect", "r1", EVERYTHING, "--by", name),
        ):  # fmt: skip
            looked_at(
                desk, *look, lure=look[0] in ("ps", "show", "receipt") and "--json" not in look
            )
        desk("resume", "r1", EVERYTHING, "--by", name, "--reason", EVERYTHING)
        at.shows("? Waiting for you")
        at.press("a", "yes", ENTER)
        assert at.ended() == 1  # it fails with all of it
        clean(at)
    for look in (("receipt", "r1"), ("show", "r1"), ("watch", "r1"), ("ps", "--all"), ("doctor",)):
        looked_at(desk, *look, lure=look[0] != "doctor" and look[0] != "ps")


def test_the_arguments_of_a_call_that_waits_for_approval(desk: StoreWithTerminals) -> None:
    with desk.tty("run", f"{HOSTILE}:pays", "--run-id", "r1", columns=70) as at:
        at.shows("? Waiting for you · approve pay")
        at.press("a")
        at.shows("May it do this: pay")
        at.press_until(" ", "y allow this call")
        looked_at(desk, "approvals", lure=True)
        looked_at(desk, "approvals", "--json")
        looked_at(desk, "show", "r1")
        at.press_until("e", "JSON: ")
        at.press("\x03")
        question = desk.until(lambda _: True).open_questions()[0]
        desk("deny", "r1", question, "--reason", EVERYTHING)
        at.ended()
        clean(at)
    looked_at(desk, "watch", "r1")


def test_what_any_code_prints(desk: StoreWithTerminals) -> None:
    with desk.tty("run", f"{HOSTILE.with_name('agents.py')}:prints", "--run-id", "r1") as at:
        at.shows("printed by \\x1b[31many code", "\\x1b]52;c;aGk=\\x07also by hand")
        at.shows("? Waiting for you")  # a key that comes before the question means nothing yet
        at.press("a", LURE, ENTER)
        assert at.ended() == 0
        clean(at)


def test_without_a_bar_it_is_the_same(desk: StoreWithTerminals) -> None:
    desk.open_gate("end")
    with desk.tty("run", f"{HOSTILE}:speaks", "--run-id", "r1", TERM="dumb") as at:
        assert at.ended() == 0
        clean(at)


def test_errors_of_the_command_itself(desk: StoreWithTerminals) -> None:
    looked_at(desk, "run", f"{EVERYTHING.replace(chr(0), '')}.py:x")
    desk("run", f"{HOSTILE.with_name('agents.py')}:counts", "--run-id", "r1")
    for look in (("show", EVERYTHING), ("redirect", "r1", EVERYTHING), ("raise", "r1", EVERYTHING)):
        looked_at(desk, *look)
