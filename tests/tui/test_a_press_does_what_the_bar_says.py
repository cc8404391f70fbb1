"""Every key is a command of the core, signed and by way of this screen; none alone destroys."""

import asyncio
from string import printable

import pytest

from pullcord.core.commands import Redirect
from pullcord.core.events import (
    Answered,
    Asked,
    Blocked,
    CancelRequested,
    Hurried,
    ItemRewritten,
    ItemStarted,
    LimitsRaised,
    PauseRequested,
    QuestionAsked,
    Redirected,
    Resumed,
    StepStarted,
)
from pullcord.core.values import load as value_of
from pullcord.terminal.key_repeat import HELD_S
from tests.tui.sample_store import PLAN, SampleStore
from tests.tui.screen import Eyes, looking

CHANGED_S = 0.5  # longer than a key whose meaning has changed takes no press


async def pressed(eyes: Eyes, run: str) -> list[Asked]:
    """What somebody at this screen has asked of the run."""
    return [e for e in await eyes.events(run) if isinstance(e, Asked) and e.via == "top"]


async def test_p_pauses_and_says_who_and_by_which_way(sample: SampleStore) -> None:
    await sample.report("r1")
    async with looking(sample) as eyes:
        await eyes.press("p")
        asked = await eyes.recorded("r1", PauseRequested)
        assert (asked.by, asked.via, asked.source) == ("ana", "top", "person")
        await eyes.sees("◐ Pausing by you")


async def test_p_again_while_it_pauses_cuts_but_not_under_a_double_press(
    sample: SampleStore,
) -> None:
    await sample.working("r1", StepStarted(step="s1", name="fetch", effect="none"))
    async with looking(sample) as eyes:
        await eyes.press("p")
        await eyes.sees("Cut now")
        await eyes.press("p")  # the finger was aimed at Pause
        assert len(await pressed(eyes, "r1")) == 1
        eyes.now.advance(CHANGED_S)
        await eyes.press("p")
        assert (await eyes.recorded("r1", Hurried)).via == "top"


async def test_p_resumes_what_is_paused(sample: SampleStore) -> None:
    await sample.paused("r1")
    async with looking(sample) as eyes:
        await eyes.press("p")
        assert (await eyes.recorded("r1", Resumed)).by == "ana"
        await eyes.sees("\n○ Queued")


async def test_a_key_that_cannot_act_says_why_and_changes_nothing(sample: SampleStore) -> None:
    await sample.limited("r1")
    async with looking(sample) as eyes:
        await eyes.press("p")
        await eyes.sees("raise the limit first: it would stop again at once")
        assert not await pressed(eyes, "r1")


async def test_a_redirect_is_written_in_place_as_a_diff(sample: SampleStore) -> None:
    await sample.report("r1")
    async with looking(sample) as eyes:
        await eyes.press("r")
        await eyes.sees("- next  Write summary memo")
        await eyes.write("Memo for EU only")
        await eyes.sees("+ next  Memo for EU only")
        await eyes.press("enter")
        told = await eyes.recorded("r1", Redirected)
        assert (told.instruction, told.by, told.via) == ("Memo for EU only", "ana", "top")
        assert (await eyes.recorded("r1", ItemRewritten)).after == "Memo for EU only"
        await eyes.until(lambda: eyes.app.bar.ask is None)


async def test_a_redirect_drops_the_item_that_is_shown_when_it_is_sent(
    sample: SampleStore,
) -> None:
    """The run goes on while somebody writes: the field shows what it would rewrite by then."""
    await sample.working("r1", PLAN, ItemStarted(plan="p", item="a", text="Fetch customer list"))
    async with looking(sample) as eyes:
        await eyes.press("r")
        await eyes.sees("- next  Join against MRR table")
        await eyes.write("EU only")
        await sample.add("r1", ItemStarted(plan="p", item="b", text="Join against MRR table"))
        await eyes.sees("- next  Score churn risk")
        await eyes.sees("+ next  EU only")
        await eyes.press("enter")  # the finger was aimed at the other item
        await eyes.sees("The run has just moved on")
        assert not await pressed(eyes, "r1")
        eyes.now.advance(CHANGED_S)
        await eyes.press("enter")
        rewritten = await eyes.recorded("r1", ItemRewritten)
        assert (rewritten.before, rewritten.after) == ("Score churn risk", "EU only")
        await eyes.until(lambda: eyes.app.bar.ask is None)


async def test_a_redirect_that_no_item_is_left_for_says_that_it_is_told(
    sample: SampleStore,
) -> None:
    await sample.report("r1")
    async with looking(sample) as eyes:
        await eyes.press("r")
        await eyes.sees("- next  Write summary memo")
        await eyes.write("EU only")
        await sample.add("r1", ItemStarted(plan="p", item="d", text="Write summary memo"))
        await eyes.sees("The agent is told at once, and once.")
        await eyes.sees("+ told  EU only")


async def test_a_redirect_replaces_the_words_of_another_person_that_are_shown(
    sample: SampleStore,
) -> None:
    await sample.report("r1")
    async with looking(sample) as eyes:
        await eyes.press("r")
        await eyes.sees("- next  Write summary memo")
        await sample.journal.command("r1", Redirect(by="bo", instruction="US only"))
        await eyes.sees("- next  US only")
        eyes.now.advance(CHANGED_S)
        await eyes.write("EU only")
        seen = eyes.app.bar.panel
        await eyes.press("enter")
        told = await eyes.recorded("r1", ItemRewritten)
        assert (told.before, told.after) == ("US only", "EU only")
        assert seen
        assert seen.next
        assert seen.next.after == "US only"


async def test_esc_closes_what_is_open_keeps_what_was_written_and_stops_nothing(
    sample: SampleStore,
) -> None:
    await sample.report("r1")
    async with looking(sample) as eyes:
        for opened in ("r", "?", "/", "c", "5"):
            await eyes.press(opened)
            await eyes.press("escape", "escape", "escape")
        await eyes.press("r")
        await eyes.write("half a thou")
        await eyes.press("escape")
        assert "half a thou" not in eyes.text
        await eyes.press("r")
        assert "half a thou" in eyes.text
        await eyes.press("escape", "escape")
        assert not await pressed(eyes, "r1")


async def test_a_second_c_within_three_seconds_cancels(sample: SampleStore) -> None:
    await sample.report("r1")
    async with looking(sample) as eyes:
        await eyes.press("c")
        await eyes.sees("Cancel r1: saves partial work · undoes 1, cannot undo 1: score")
        eyes.now.advance(2.9)
        await eyes.press("c")
        asked = await eyes.recorded("r1", CancelRequested)
        assert (asked.by, asked.via, asked.reason, asked.now) == ("ana", "top", "", False)
        await eyes.sees("◌ Cancelling by you")


async def test_a_second_c_after_three_seconds_is_a_first_one(sample: SampleStore) -> None:
    await sample.report("r1")
    async with looking(sample) as eyes:
        await eyes.press("c")
        eyes.now.advance(3.1)
        await eyes.press("c")
        await eyes.sees("Cancel r1: saves partial work")
        await eyes.press("escape")
        assert not await pressed(eyes, "r1")


@pytest.mark.parametrize("times", [3, 4, 5, 9])
async def test_a_key_that_is_held_down_cancels_nothing(sample: SampleStore, times: int) -> None:
    await sample.report("r1")
    async with looking(sample) as eyes:
        eyes.hold("c", times)
        await eyes.sees("c was held down")
        assert not eyes.app.hand.armed
        await asyncio.sleep(2 * HELD_S)  # as long as a second press would take to count
        await eyes.press("escape")
        assert not await pressed(eyes, "r1")


@pytest.mark.parametrize("key", ["escape", "p", "x", "enter", "down", "space"])
async def test_any_other_key_lets_go_and_does_nothing_else(sample: SampleStore, key: str) -> None:
    await sample.report("r1")
    async with looking(sample) as eyes:
        await eyes.press("c")
        await eyes.sees("any other key lets go")
        await eyes.press(key)
        assert "any other key lets go" not in eyes.text
        await eyes.press("c")
        await eyes.sees("any other key lets go")
        assert not await pressed(eyes, "r1")


async def test_no_single_key_cancels_whatever_is_pressed_before(sample: SampleStore) -> None:
    await sample.report("r1")
    await sample.waiting("r2", subject="x")
    async with looking(sample) as eyes:
        keys = [*set(printable) - set("pqc\t\n\r\x0b\x0c"), "enter", "delete", "tab", "f1"]
        for before in ("", "a"):
            for key in keys:
                eyes.hit(*before, key, "escape", "escape", "escape")
            eyes.hit("c", "x", "c", "escape")
            await eyes.press("escape")
        for run in ("r1", "r2"):
            assert not [e for e in await eyes.events(run) if isinstance(e, CancelRequested)]
        assert eyes.app.is_running


@pytest.mark.parametrize(
    ("key", "reason"),
    [("1", "wrong path"), ("2", "too expensive"), ("3", "changed my mind"), ("4", "looks unsafe")],
)
async def test_a_number_says_why(sample: SampleStore, key: str, reason: str) -> None:
    await sample.report("r1")
    async with looking(sample) as eyes:
        await eyes.press("c", key)
        await eyes.sees(f"{reason} ✓")
        eyes.now.advance(2.9)
        await eyes.press("c")
        assert (await eyes.recorded("r1", CancelRequested)).reason == reason


async def test_five_lets_somebody_write_why(sample: SampleStore) -> None:
    await sample.report("r1")
    async with looking(sample) as eyes:
        await eyes.press("c", "5")
        await eyes.sees("Enter: cancel · saves partial work")
        await eyes.write("the board said no")
        await eyes.press("enter")
        assert (await eyes.recorded("r1", CancelRequested)).reason == "the board said no"


async def test_a_cancel_that_was_armed_for_one_run_never_meets_another(sample: SampleStore) -> None:
    await sample.report("r1")
    await sample.report("r2")
    async with looking(sample) as eyes:
        await eyes.look_at("r1")
        await eyes.press("c")
        eyes.app.select("r2")  # with the mouse, say
        await eyes.press("c")
        await eyes.sees("Cancel r2: saves partial work")
        await eyes.press("escape")
        assert not await pressed(eyes, "r1")
        assert not await pressed(eyes, "r2")


async def test_what_a_cancel_would_do_is_said_as_it_is_now(sample: SampleStore) -> None:
    """It stays armed while the run goes on: a busy run must be as easy to cancel as an idle one."""
    await sample.report("r1")
    async with looking(sample) as eyes:
        await eyes.press("c")
        await sample.add("r1", StepStarted(step="p1", name="pay"))
        await eyes.sees("Cancel r1: saves partial work · undoes 1, cannot undo 2: score, pay")
        await eyes.press("c")
        await eyes.recorded("r1", CancelRequested)


async def test_while_it_is_cancelled_two_more_presses_stop_it_now(sample: SampleStore) -> None:
    await sample.cancelling("r1")
    async with looking(sample) as eyes:
        await eyes.press("c")
        await eyes.sees("Stop now r1: kills the tool, may leave it half done")
        await eyes.press("c")
        assert (await eyes.recorded("r1", Hurried)).via == "top"


async def test_plus_raises_the_limit_that_has_stopped_it(sample: SampleStore) -> None:
    await sample.limited("r1")
    async with looking(sample) as eyes:
        await eyes.press("+")
        await eyes.sees("steps=2")
        await eyes.press("enter")
        raised = await eyes.recorded("r1", LimitsRaised)
        assert (raised.caps, raised.via) == ({"steps": 2}, "top")


async def test_a_limit_that_is_none_is_refused_and_what_was_written_stays(
    sample: SampleStore,
) -> None:
    await sample.limited("r1")
    async with looking(sample) as eyes:
        await eyes.press("+")
        await eyes.write(" more")
        await eyes.press("enter")
        await eyes.sees("'more' is not a limit")
        assert "steps=2 more" in eyes.text
        await eyes.press("escape")
        assert not await pressed(eyes, "r1")


async def test_a_stop_takes_hold_of_a_run_whose_process_is_gone(sample: SampleStore) -> None:
    await sample.orphan("r1")
    async with looking(sample) as eyes:
        await eyes.sees("No process drives it.")
        await eyes.press("p")
        await eyes.sees("‖ Paused by you")
        await eyes.press("c", "c")
        await eyes.sees("■ Cancelled by you")


async def test_what_is_written_for_one_run_is_never_sent_to_another(sample: SampleStore) -> None:
    await sample.report("r1")
    await sample.report("r2")
    async with looking(sample) as eyes:
        await eyes.look_at("r1")
        await eyes.press("r")
        await eyes.write("only EU")
        eyes.app.select("r2")  # with the mouse, say
        await eyes.press("enter", "r")
        assert "only EU" not in eyes.text
        await eyes.press("escape")
        await eyes.look_at("r1")
        await eyes.press("r")
        assert "only EU" in eyes.text  # it was kept where it belongs
        await eyes.press("escape")
        assert not await pressed(eyes, "r1")
        assert not await pressed(eyes, "r2")


async def test_leaving_stops_nothing_and_says_so(sample: SampleStore) -> None:
    await sample.report("r1")
    await sample.waiting("r2")
    async with looking(sample) as eyes:
        await eyes.press("q")
    assert eyes.app.return_value == "Nothing was stopped. 2 runs go on as before."
    assert not await pressed(eyes, "r1")


@pytest.mark.parametrize("key", ["ctrl+c", "ctrl+q"])
async def test_ctrl_c_leaves_too_also_while_somebody_writes(sample: SampleStore, key: str) -> None:
    await sample.report("r1")
    async with looking(sample) as eyes:
        await eyes.press("r", "x", key)
    assert eyes.app.return_value == "Nothing was stopped. 1 run goes on as before."
    assert not await pressed(eyes, "r1")


async def test_what_is_pasted_is_one_line_and_presses_no_key(sample: SampleStore) -> None:
    await sample.report("r1")
    async with looking(sample) as eyes:
        eyes.paste("c\nc\n")
        await eyes.press("r")
        eyes.paste("EU\nonly\x1b[2J")
        await eyes.sees("+ next  EU only\\x1b[2J")
        await eyes.press("escape")
        assert not await pressed(eyes, "r1")


async def test_an_item_of_a_run_that_waits_for_a_person_does_not_say_that_it_runs(
    sample: SampleStore,
) -> None:
    await sample.working("r1", PLAN, ItemStarted(plan="p", item="a", text="Fetch customer list"))
    async with looking(sample) as eyes:
        await eyes.sees(" 1 ● Fetch customer list")
        head = await sample.journal.head("r1")
        await sample.add("r1", QuestionAsked(question="q1", text="Which?"))
        await sample.add("r1", Blocked(seen_seq=head.seq + 1))
        await eyes.sees("? Waiting")
        await eyes.whole()
        assert " 1 ? Fetch customer list" in eyes.text


# --- approvals ------------------------------------------------------------------------------------


async def test_a_call_can_be_allowed_after_a_second_on_the_screen(sample: SampleStore) -> None:
    await sample.waiting("r1")
    async with looking(sample) as eyes:
        await eyes.press("a")
        await eyes.sees("read it first")
        await eyes.press("y")
        await eyes.sees("Read it first: a call can be approved after a second")
        assert not await pressed(eyes, "r1")
        eyes.now.advance(1.1)
        await eyes.press("y")
        answered = await eyes.recorded("r1", Answered)
        assert (answered.verdict, answered.by, answered.via) == ("approved", "ana", "top")


async def test_the_true_call_comes_first_and_the_agents_words_are_quoted(
    sample: SampleStore,
) -> None:
    await sample.waiting("r1")
    async with looking(sample) as eyes:
        await eyes.press("a")
        await eyes.sees("The agent says")
        lines = eyes.lines
        call = lines.index("send_email(")
        assert lines[call + 1 : call + 4] == [
            "    attach = [1,2]",
            '    subject = "Q3 churn"',
            '    to = "board@example.com"',
        ]
        says = next(n for n, line in enumerate(lines) if "│ “I only send" in line)
        assert call < says


async def test_a_call_that_is_longer_than_the_screen_is_read_to_its_end_first(
    sample: SampleStore,
) -> None:
    await sample.waiting("r1", body="harmless words " * 200, to="thief@example.com")
    async with looking(sample) as eyes:
        await eyes.press("a")
        await eyes.sees("\nsend_email(\n")
        eyes.now.advance(2)
        await eyes.press("y")
        await eyes.sees("read it to its end first")
        assert not await pressed(eyes, "r1")
        while "thief@example.com" not in eyes.text:
            await eyes.press("pagedown")
        await eyes.press("pagedown", "y")
        assert (await eyes.recorded("r1", Answered)).verdict == "approved"


async def test_another_call_in_the_place_of_one_that_was_read_is_read_anew(
    sample: SampleStore,
) -> None:
    many = {f"more{n:02}": "harmless" for n in range(40)}
    await sample.waiting("r1", **many)
    async with looking(sample) as eyes:
        await eyes.press("a")
        await eyes.sees("\nsend_email(\n")
        while "more39" not in eyes.text:
            await eyes.press("pagedown")
        await sample.asks_next("r1", "wire_money", aaa="thief@example.com", **many)
        await eyes.sees("\nwire_money(\n")
        assert "thief@example.com" in eyes.text
        eyes.now.advance(2)
        await eyes.press("y")
        await eyes.sees("read it to its end first")
        assert not await pressed(eyes, "r1")
        while "more39" not in eyes.text:
            await eyes.press("pagedown")
        await eyes.press("pagedown", "y")
        await eyes.until(lambda: eyes.app.bar.panel and not eyes.app.bar.panel.wants)
        assert (await eyes.recorded("r1", Answered)).verdict == "approved"


async def test_lines_that_were_jumped_over_were_not_read(sample: SampleStore) -> None:
    await sample.waiting("r1", **{f"more{n:02}": "harmless" for n in range(80)})
    async with looking(sample) as eyes:
        await eyes.press("a")
        await eyes.sees("\nsend_email(\n")
        eyes.app.pane.scroll(100)  # with the mouse, say
        await eyes.sees("more79")
        eyes.now.advance(2)
        await eyes.press("y")
        await eyes.sees("read it to its end first")
        assert not await pressed(eyes, "r1")


async def test_a_call_that_is_folded_anew_is_read_anew(sample: SampleStore) -> None:
    await sample.waiting("r1", body="harmless words " * 40, to="thief@example.com")
    async with looking(sample, size=(80, 40)) as eyes:
        await eyes.press("a")
        await eyes.sees("thief@example.com")
        await eyes.resize(60, 14)
        await eyes.until(lambda: "thief@example.com" not in eyes.text)
        eyes.now.advance(2)
        await eyes.press("y")
        await eyes.sees("read it to its end first")
        assert not await pressed(eyes, "r1")


async def test_no_name_in_a_call_is_cut(sample: SampleStore) -> None:
    name, tool = f"to_{'x' * 200}_thief", f"send_{'y' * 200}_money"
    await sample.waiting("r1")
    await sample.asks_next("r1", tool, **{name: 1})
    async with looking(sample) as eyes:
        await eyes.press("a")
        await eyes.sees("The agent says")
        whole = "".join(line.strip() for line in eyes.lines)
        assert f"{tool}({name} = 1)" in whole


async def test_newlines_in_an_argument_push_nothing_out_of_view(sample: SampleStore) -> None:
    await sample.waiting("r1", a="\n" * 40, to="board@example.com")
    async with looking(sample) as eyes:
        await eyes.press("a")
        await eyes.sees("\nsend_email(\n")
        assert r'a = "\n\n\n' in eyes.text
        assert "to = " in eyes.text


async def test_n_denies_and_the_agent_is_told_why(sample: SampleStore) -> None:
    await sample.waiting("r1")
    async with looking(sample) as eyes:
        await eyes.press("a")
        await eyes.sees("\nsend_email(\n")
        await eyes.press("n")
        await eyes.sees("Enter denies send_email. The agent is told why")
        await eyes.write("not before Monday")
        await eyes.press("enter")
        answered = await eyes.recorded("r1", Answered)
        assert (answered.verdict, answered.reason) == ("denied", "not before Monday")


async def test_e_puts_other_arguments_in_the_place_of_its_own(sample: SampleStore) -> None:
    await sample.waiting("r1", eur=500)
    async with looking(sample) as eyes:
        await eyes.press("a")
        await eyes.sees("\nsend_email(\n")
        await eyes.press("e")
        await eyes.sees('{"eur":500}')
        await eyes.press("backspace", "backspace", "backspace", "}", "enter")
        answered = await eyes.recorded("r1", Answered)
        assert (answered.verdict, value_of(answered.value)) == ("edited", {"eur": 5})


async def test_y_means_nothing_where_no_call_is_on_the_screen(sample: SampleStore) -> None:
    await sample.waiting("r1")
    async with looking(sample) as eyes:
        eyes.now.advance(10)
        await eyes.press("y", "n", "e")
        assert eyes.app.bar.ask is None
        assert not await pressed(eyes, "r1")


async def test_a_shows_the_run_that_waits_wherever_it_is(sample: SampleStore) -> None:
    await sample.waiting("r1")
    await sample.report("r2")
    async with looking(sample) as eyes:
        await eyes.look_at("r2")
        await eyes.press("a")
        await eyes.sees("\nsend_email(\n")
        assert eyes.app.roster.kept == "r1"


async def test_a_question_is_answered_in_place(sample: SampleStore) -> None:
    asked = QuestionAsked(question="q1", text="Which year?")
    await sample.working("r1", asked)
    async with looking(sample) as eyes:
        await eyes.press("a")
        await eyes.sees("│ Which year?")
        await eyes.until(lambda: eyes.app.bar.ask)
        await eyes.write("2026")
        await eyes.press("enter")
        assert value_of((await eyes.recorded("r1", Answered)).value) == 2026


async def test_a_step_in_doubt_says_in_its_line_which_answers_there_are(
    sample: SampleStore,
) -> None:
    said = "Nobody knows whether step 'write_file' happened: it began, and was cut off before it "
    text = f"{said}could say. It happened (happened), run it (run), or go on without it (skip)?"
    begun = StepStarted(step="s1", name="write_file")
    await sample.working(
        "r1", begun, QuestionAsked(question="q1", kind="doubt", text=text, step="s1")
    )
    async with looking(sample, size=(100, 30)) as eyes:
        await eyes.press("a")
        await eyes.sees("\nhappened, run or skip >")
        await eyes.write("sk")
        assert "\nhappened, run or skip > sk\n" in eyes.text


async def test_a_again_answers_a_question_whose_line_was_closed(sample: SampleStore) -> None:
    await sample.working("r1", QuestionAsked(question="q1", text="Which year?"))
    async with looking(sample) as eyes:
        await eyes.press("a")
        await eyes.until(lambda: eyes.app.bar.ask)
        await eyes.press("escape")
        assert eyes.app.bar.ask is None
        await eyes.press("e")
        assert eyes.app.bar.ask
        await eyes.press("escape", "a")
        await eyes.until(lambda: eyes.app.bar.ask)


async def test_a_opens_no_line_over_one_that_somebody_writes_in(sample: SampleStore) -> None:
    await sample.working("r1", QuestionAsked(question="q1", text="Which year?"))
    async with looking(sample) as eyes:
        eyes.hit("a", "r")
        await eyes.sees("│ Which year?")
        await eyes.whole()
        assert eyes.app.bar.ask
        assert eyes.app.bar.ask.name == "redirect"
