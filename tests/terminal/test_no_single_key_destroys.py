"""For every history a run can have: what each key sends, and what the bar shows."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from pullcord.cli.live.bar import BODY_ROWS
from pullcord.cli.live.card import ARMED_AFTER_S
from pullcord.cli.live.footer import AGAIN_S
from pullcord.cli.live.key_reader import Key
from pullcord.cli.live.local_run import RunSeen
from pullcord.cli.live.session import TWICE_S, KeySession
from pullcord.cli.render.run_text import paint
from pullcord.cli.render.text_width import LEAST_COLUMNS, width
from pullcord.core.commands import Approve, Cancel, Command, Edit, Pause, Redirect, Resume
from pullcord.core.decide import decide
from pullcord.core.events import (
    CancelRequested,
    Claimed,
    ItemStarted,
    PauseRequested,
    PlanItem,
    Planned,
    Record,
    StepFinished,
    StepStarted,
)
from pullcord.core.fold import replay
from pullcord.core.run import Run
from pullcord.core.show.panel import panel
from pullcord.core.states import RunState
from pullcord.core.values import NULL
from pullcord.journal.views.inbox import Card, Open
from pullcord.terminal.key_repeat import HELD_S
from pullcord.terminal.keymap import Keymap
from tests.core.histories import after, histories
from tests.terminal.payloads import PAYLOADS
from tests.terminal.vt import acts_or_hides

PRESSES = [
    *(Key("char", char) for char in "prca+?qyne 1"),
    *(Key(name) for name in ("esc", "enter", "ctrl-d", "up", "page-down", "backspace")),
    Key("paste", "cccc\nyyyy"),
]
CARD = Card(
    run="r1",
    agent="a",
    question="pay-1",
    tool="pay",
    args={"eur": 5},
    effect="once",
    can_be_undone=False,
    text="May it?",
    call="digest",
    expires_in_ms=10**15,
)


class Hands:
    """A run that stands still, and everything that was asked of it."""

    def __init__(self, run: Run, cards: list[Card] | None = None) -> None:
        self.run, self.cards = run, cards or []
        self.questions: list[Open] = []
        self.asked: list[Command] = []

    def look(self) -> RunSeen:
        run = self.run
        used = run.used_at(run.steady_ms)
        shown = panel(run, used, now_ms=run.steady_ms, wall_ms=run.at_ms + 3000, driven=True)
        return RunSeen(shown, self.cards, self.questions)

    def ask(self, run_id: str, command: Command) -> "Hands":
        self.asked.append(command)
        return self

    holds, message = True, ""


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def at_a_terminal(
    writer: Hands, clock: Callable[[], float] | None = None, bound: Keymap | None = None
) -> KeySession:
    told: list[str] = []
    return KeySession(
        writer,
        me="ana",
        bound=bound or Keymap(),
        clock=clock or Clock(),
        tell=told.append,
        edit=lambda _: None,
    )


def press(session: KeySession, clock: Clock, key: Key) -> None:
    """Press it and let go of it."""
    session.press(key)
    clock.now += HELD_S
    session.refresh_if_due()


def running() -> Run:
    plan = Planned(plan="p", items=(PlanItem("a", "Fetch"), PlanItem("b", "Score")))
    began = ItemStarted(plan="p", item="a", text="Fetch")
    return after(Claimed(owner="o", epoch=1), plan, began)


@given(histories(), st.sampled_from(PRESSES))
def test_no_single_key_cancels_approves_or_raises(records: list[Record], key: Key) -> None:
    writer = Hands(replay("r1", records), [CARD])
    at_a_terminal(writer).press(key)
    assert all(isinstance(one, Pause | Resume) for one in writer.asked)


@given(histories(), st.sampled_from([Key("ctrl-c"), Key("esc")]))
def test_the_first_stop_key_pauses_or_does_nothing(records: list[Record], key: Key) -> None:
    writer = Hands(replay("r1", records))
    session = at_a_terminal(writer)
    session.press(key)
    assert [type(one) for one in writer.asked] in ([], [Pause])
    assert session.leaves == ""


@given(
    st.sampled_from([*PRESSES, Key("ctrl-c")]),
    st.integers(0, 40),
    st.floats(0.2, 0.6),
    st.floats(0.01, 0.09),
)
def test_a_key_that_is_held_down_cancels_and_leaves_nothing(
    key: Key, times: int, first_s: float, every_s: float
) -> None:
    """However long, and wherever in its repeating it is let go of."""
    writer, clock = Hands(running(), [CARD]), Clock()
    session = at_a_terminal(writer, clock)
    session.press(key)
    clock.now += first_s
    for _ in range(times):
        session.refresh_if_due()
        session.press(key)
        session.bar(80, 24)
        clock.now += every_s
    if times != 1:  # else it was pressed twice
        clock.now += HELD_S
        session.refresh_if_due()
        assert not [one for one in writer.asked if not isinstance(one, Pause | Resume)]
        assert session.leaves == ""


@pytest.mark.parametrize("apart_s", [0.1, 0.15, 0.5, 1.9])
def test_two_quick_presses_are_two(apart_s: float) -> None:
    writer, clock = Hands(running()), Clock()
    session = at_a_terminal(writer, clock)
    session.press(Key("ctrl-c"))
    clock.now += apart_s
    press(session, clock, Key("ctrl-c"))
    assert [type(one) for one in writer.asked] == [Pause, Cancel]


@given(histories(), st.lists(st.sampled_from([*PRESSES, Key("ctrl-c")]), max_size=8))
def test_what_is_sent_would_be_carried_out(records: list[Record], keys: list[Key]) -> None:
    """No key asks for what the run as it is would refuse."""
    run = replay("r1", records)
    writer = Hands(run)
    clock = Clock()
    session = at_a_terminal(writer, clock)
    for key in keys:
        press(session, clock, key)
    for command in writer.asked:
        if isinstance(command, Pause | Resume | Redirect) and not run.ended:
            assert decide(run, command).verdict in ("applied", "already"), command
        assert (command.by, command.via) == ("ana", "terminal")


def test_the_second_ctrl_c_cancels_only_within_two_seconds() -> None:
    for waits_s, sent in ((TWICE_S, [Pause, Cancel]), (TWICE_S + 0.01, [Pause, Pause])):
        writer, clock = Hands(running()), Clock()
        session = at_a_terminal(writer, clock)
        session.press(Key("ctrl-c"))
        clock.now += waits_s
        press(session, clock, Key("ctrl-c"))
        assert [type(one) for one in writer.asked] == sent


def test_a_third_leaves_once_it_is_being_cancelled() -> None:
    writer, clock = Hands(running()), Clock()
    session = at_a_terminal(writer, clock)
    press(session, clock, Key("ctrl-c"))
    press(session, clock, Key("ctrl-c"))
    writer.run = after(Claimed(owner="o", epoch=1), CancelRequested(by="ana"))
    clock.now += 60  # however long it takes
    press(session, clock, Key("ctrl-c"))
    assert session.leaves == "at once"


def test_a_cancel_from_elsewhere_is_left_only_by_two_presses() -> None:
    writer = Hands(after(Claimed(owner="o", epoch=1), CancelRequested(by="bo")))
    clock = Clock()
    session = at_a_terminal(writer, clock)
    press(session, clock, Key("ctrl-c"))
    assert (session.leaves, writer.asked) == ("", [])
    press(session, clock, Key("ctrl-c"))
    assert (session.leaves, writer.asked) == ("at once", [])


def test_the_second_press_of_c_counts_for_three_seconds() -> None:
    for waits_s, count in ((AGAIN_S - 0.01, 1), (AGAIN_S, 0)):
        writer, clock = Hands(running()), Clock()
        session = at_a_terminal(writer, clock)
        session.press(Key("char", "c"))
        clock.now += waits_s
        press(session, clock, Key("char", "c"))
        assert len([one for one in writer.asked if isinstance(one, Cancel)]) == count


def test_a_card_can_be_allowed_only_after_a_second_and_only_as_it_was_shown() -> None:
    writer, clock = Hands(running(), [CARD]), Clock()
    session = at_a_terminal(writer, clock)
    session.press(Key("char", "a"))
    session.bar(80, 24)
    session.press(Key("char", "y"))
    clock.now += ARMED_AFTER_S - 0.01
    session.press(Key("char", "y"))
    assert writer.asked == []
    writer.cards = [replace(CARD, call="another", args={"eur": 500})]
    clock.now += 1
    session.press(Key("char", "y"))  # it is not the call that was read
    assert writer.asked == []
    session.press(Key("char", "a"))
    session.bar(80, 24)
    clock.now += ARMED_AFTER_S
    session.press(Key("char", "y"))
    [allowed] = writer.asked
    assert isinstance(allowed, Approve)
    assert allowed.call == "another"


def test_a_card_that_was_never_drawn_cannot_be_allowed() -> None:
    writer, clock = Hands(running(), [CARD]), Clock()
    session = at_a_terminal(writer, clock)
    session.press(Key("char", "a"))
    clock.now += 10
    session.press(Key("char", "y"))
    assert writer.asked == []


@given(
    st.integers(3, 30),
    st.integers(20, 90),
    st.integers(0, 14),
    st.lists(st.sampled_from([" ", "up", "down", "page-up", "page-down", "draw"]), max_size=12),
)
def test_only_what_was_on_the_screen_as_a_whole_can_be_allowed(
    of_rows: int, columns: int, many: int, moves: list[str]
) -> None:
    paint(is_terminal=False)
    tool = "send_money_to_the_customer_or_perhaps_to_a_stranger"
    card = replace(CARD, tool=tool, args={f"a{at:02}": f"<{at:02}>" for at in range(many)})
    whole = at_a_terminal(Hands(running(), [card]))
    whole.press(Key("char", "a"))
    wanted = whole.bar(columns, 200)[2:-1]
    writer, clock, shown = Hands(running(), [card]), Clock(), set[str]()
    session = at_a_terminal(writer, clock)
    session.press(Key("char", "a"))
    for move in [*moves, "draw", *[" ", "draw"] * 40]:
        if move == "draw":
            shown |= set(session.bar(columns, of_rows))
        else:
            session.press(Key("char", " ") if move == " " else Key(move))
        clock.now += ARMED_AFTER_S
        session.press(Key("char", "y"))
        if writer.asked:
            assert shown >= set(wanted)
            assert tool in "".join(row.strip() for row in wanted)
            return
    assert of_rows < 5 or columns <= LEAST_COLUMNS  # else it can be read, and allowed
    assert "Too small to show the call" in "\n".join(session.bar(60, 4))


def test_a_card_that_is_folded_anew_is_read_anew() -> None:
    card = replace(CARD, args={f"a{at:02}": at for at in range(30)})
    writer, clock = Hands(running(), [card]), Clock()
    session = at_a_terminal(writer, clock)
    session.press(Key("char", "a"))
    session.bar(80, 60)
    session.bar(40, 12)
    clock.now += ARMED_AFTER_S
    session.press(Key("char", "y"))
    assert writer.asked == []


def test_holding_a_key_down_allows_nothing_that_was_not_read() -> None:
    writer, clock = Hands(running(), [replace(CARD, question=f"q{n}") for n in range(5)]), Clock()
    session = at_a_terminal(writer, clock)
    for _ in range(100):
        session.press(Key("char", "a"))
        session.bar(80, 24)
        session.press(Key("char", "y"))
        clock.now += 0.005
    assert writer.asked == []


DOUBT = Open(
    run="r1",
    agent="a",
    question="doubt-write-1",
    kind="doubt",
    text="Nobody knows whether step 'write_file' happened: it began, and was cut off before it "
    "could say. It happened (happened), run it (run), or go on without it (skip)?",
    details=None,
    step="write-1",
)


@pytest.mark.parametrize("columns", [24, 36, 80, 100, 200])
@pytest.mark.parametrize(
    ("asked", "answers"),
    [
        (DOUBT, "happened, run or skip"),
        (replace(DOUBT, kind="question", details={"choices": ["now", "later"]}), "now or later"),
    ],
)
def test_a_question_that_takes_only_some_answers_says_which_however_long_it_is(
    columns: int, asked: Open, answers: str
) -> None:
    paint(is_terminal=False)
    writer = Hands(running())
    writer.questions = [asked]
    session = at_a_terminal(writer)
    session.press(Key("char", "a"))
    session.press(Key("paste", "skip"))
    shown = session.bar(columns, 24)
    assert [row for row in shown if answers in row], shown
    assert [row for row in shown if "skip▏" in row], shown
    assert columns < 40 or f"? {answers}: skip▏" in shown
    assert all(width(row) <= columns for row in shown)


def test_a_word_on_a_call_that_is_not_shown_says_which_key_shows_it() -> None:
    paint(is_terminal=False)
    for key in "yne":
        session = at_a_terminal(Hands(running(), [CARD]))
        session.press(Key("char", key))
        assert f"Press a first: it shows what waits for your word. Then {key} counts." in "".join(
            session.bar(200, 24)
        )
    session = at_a_terminal(Hands(running()))
    session.press(Key("char", "y"))
    assert "Nothing waits for your word." in "".join(session.bar(80, 24))


def test_after_the_arguments_were_changed_it_says_what_to_press() -> None:
    paint(is_terminal=False)
    writer, clock = Hands(running(), [CARD]), Clock()
    session = at_a_terminal(writer, clock, Keymap({"review": "v"}))
    session.press(Key("char", "v"))
    session.bar(80, 24)
    clock.now += ARMED_AFTER_S
    session.press(Key("char", "e"))
    session.press(Key("enter"))
    [changed] = writer.asked
    assert isinstance(changed, Edit)
    assert "v shows the call as it is now" in " ".join(session.bar(200, 24))


def test_what_expires_in_days_says_so_in_days() -> None:
    paint(is_terminal=False)
    week = 7 * 24 * 3_600_000
    session = at_a_terminal(Hands(running(), [replace(CARD, expires_in_ms=week - 5000)]))
    session.press(Key("char", "a"))
    assert "expires in 6 days" in session.bar(80, 24)[0]


def test_a_resume_is_refused_if_somebody_else_has_controlled_the_run_meanwhile() -> None:
    paused = after(PauseRequested(by="bo"))
    assert paused.state is RunState.PAUSED
    writer = Hands(paused)
    at_a_terminal(writer).press(Key("char", "p"))
    [resumed] = writer.asked
    assert resumed.seen_seq == paused.seq


def test_while_a_model_is_answering_a_pause_counts_down() -> None:
    asked = StepStarted(step="model-1", name="ask", attempt=1, model="m", effect="none")
    run = after(Claimed(owner="o", epoch=1), asked, PauseRequested(by="ana"))
    shown = "\n".join(at_a_terminal(Hands(run)).bar(80, 24))
    assert "◐ Pausing · letting the answer finish, 7 s" in shown
    assert "p Cut now" in shown
    assert "cuts the answer" in shown


@given(histories(), st.integers(20, 200), st.integers(3, 60), st.sampled_from(PRESSES))
def test_the_bar_fits_whatever_the_run_and_the_terminal(
    records: list[Record], columns: int, of_rows: int, key: Key
) -> None:
    paint(is_terminal=False)
    session = at_a_terminal(Hands(replay("r1", records), [CARD]))
    session.press(key)
    shown = session.bar(columns, of_rows)
    assert all(width(row) <= columns for row in shown)
    assert len(shown) <= max(of_rows - 1, 2)
    if session.bar(columns, 24) and key.text != "a":
        assert len(session.bar(columns, 24)) == BODY_ROWS + 2  # it keeps its height


@pytest.mark.parametrize("name", PAYLOADS)
@pytest.mark.parametrize("columns", [40, 80, 200])
def test_no_payload_gets_into_a_bar(name: str, columns: int) -> None:
    paint(is_terminal=False)
    bad = PAYLOADS[name]
    started = StepStarted(step="s", name=bad, attempt=1)
    done = StepFinished(step="s", result=NULL)
    runs = [
        after(Claimed(owner="o", epoch=1), started, done),  # it is named as what cannot be undone
        after(Claimed(owner="o", epoch=1), started),
        after(Claimed(owner="o", epoch=1), started, PauseRequested(by=bad, reason=bad)),
        after(Claimed(owner="o", epoch=1), started, CancelRequested(by=bad, reason=bad)),
    ]
    card = replace(CARD, tool=bad, args={bad: bad}, text=bad, effect=bad)
    for run in runs:
        writer = Hands(run, [card])
        writer.questions = [replace(DOUBT, agent=bad, kind="question", text=bad)]
        for keys in ((), ("r",), ("a",), ("c",), ("?",)):
            session = at_a_terminal(writer)
            for key in keys:
                session.press(Key("char", key))
                session.press(Key("paste", bad))
            for row in session.bar(columns, 40):
                assert not [c for c in row if acts_or_hides(c) or c in "\r\n\t"], row
