"""Each command does what its help says, in words a person can act on, with its exit status."""

import json
import signal
from pathlib import Path

import pytest

from pullcord.core.states import RunState
from tests.cli.terminal import AGENTS, Terminal, agent


@pytest.fixture
def pullcord(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


def test_run_prints_what_the_agent_says_and_returns(pullcord: Terminal) -> None:
    said = pullcord("run", agent("quick"), '{"month": "May"}', "--run-id", "r1")
    assert said.status == 0
    assert said.out.splitlines() == ["hello", '[{"month": "May"}, "once"]']
    assert "r1 started. To stop it: pullcord cancel r1" in said.err
    assert pullcord("run", agent("quick"), "-", given="from stdin").out.endswith(
        '["from stdin", "once"]\n'
    )


def test_run_as_json_is_one_event_a_line_that_can_be_resumed(pullcord: Terminal) -> None:
    said = pullcord("run", agent("quick"), "--run-id", "r1", "--json")
    events = [json.loads(line) for line in said.out.splitlines()]
    assert [event["event"]["type"] for event in events][-1] == "completed"
    rest = pullcord("watch", "r1", "--json", "--after", events[2]["id"])
    assert rest.out.splitlines() == said.out.splitlines()[3:]


def test_a_failed_run_is_status_1_and_a_fork_tries_again(pullcord: Terminal) -> None:
    said = pullcord("run", agent("fails"), "--run-id", "r1")
    assert (said.status, "no such month" in said.err) == (1, True)
    again = pullcord("fork", "r1")
    assert again.status == 1
    assert pullcord.effects() == ["once"]  # what had finished was not repeated


def test_ps_and_show_say_what_is_going_on_and_what_can_be_done(pullcord: Terminal) -> None:
    with pullcord.running("run", agent("planned"), "--run-id", "r1"):
        pullcord.reached(RunState.WAITING)
        assert "? Waiting    r1" in pullcord("ps").out
        shown = pullcord("show", "r1").out
        for words in ("✓ 1 one", "✓ two", "? ship it?", "pullcord answer r1 ship-it", "cancel r1"):
            assert words in shown
        assert pullcord("ps", "--json").json[0]["state"] == "waiting"
        assert pullcord("show", "r1", "--json", "--records").json["records"][0]["seq"] == 1


def test_pause_redirect_answer_and_resume_reach_another_process(pullcord: Terminal) -> None:
    with pullcord.running("run", agent("asks_first"), "--run-id", "r1") as process:
        run = pullcord.reached(RunState.WAITING)
        question = run.open_questions()[0]
        paused = pullcord("pause", "r1", "--reason", "let me look", "--wait")
        assert (paused.status, "Paused by ana · “let me look”" in paused.out) == (0, True)
        assert "is paused already" in pullcord("pause", "r1").out
        assert pullcord("answer", "r1", question, "yes").status == 0
        assert pullcord("resume", "r1", "two, but in German").status == 0
        out, _ = process.communicate(timeout=60)
    assert json.loads(out) == ["yes", "two, but in German", "two"]
    assert process.returncode == 0


def test_a_redirect_of_a_plan_is_shown_as_a_diff(pullcord: Terminal) -> None:
    with pullcord.running("run", agent("hangs_between"), "--run-id", "r1"):
        pullcord.until(lambda run: bool(run.open_steps()))
        said = pullcord("redirect", "r1", "score EU only")
    assert said.out == "- next  two\n+ next  score EU only\n"


def test_cancel_with_wait_prints_the_receipt(pullcord: Terminal) -> None:
    with pullcord.running("run", agent("talks"), "--run-id", "r1") as process:
        pullcord.until_it_speaks()
        said = pullcord("cancel", "r1", "--reason", "wrong path", "--wait")
        process.communicate(timeout=60)
    assert said.status == 0
    assert "■ Cancelled by ana · “wrong path”" in said.out
    assert (
        "partial text   1 part was cut: “half a \\x1b[31msentence”" in said.out
    )  # nothing moves the cursor
    assert process.returncode == 3
    late = pullcord("pause", "r1")
    assert (late.status, "pullcord fork r1" in late.err) == (3, True)


def test_a_cancel_says_that_what_can_be_undone_is_taken_back(pullcord: Terminal) -> None:
    with pullcord.running("run", agent("drafts"), "--run-id", "r1") as process:
        pullcord.reached(RunState.WAITING)
        pullcord("pause", "r1", "--wait")
        said = pullcord("cancel", "r1").out  # by then it may be undone, or not yet
        process.communicate(timeout=60)
    assert said.endswith("What can be undone is taken back, and the rest is kept.\n")
    assert pullcord.effects() == ["a draft", "took a draft back"]


def test_a_cancel_that_nobody_carries_out_says_how_to_have_it_done(pullcord: Terminal) -> None:
    for name in ("r1", "r2"):
        with pullcord.running("run", agent("drafts"), "--run-id", name) as process:
            pullcord.reached(RunState.WAITING, run_id=name)
            pullcord("pause", name, "--wait")
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
    said = pullcord("cancel", "r1", "--no-undo").out
    assert said == "Cancelled r1. What it had finished is kept.\n"
    said = pullcord("cancel", "r2").out
    assert said.startswith("Cancelling r2.")
    assert "If none that knows its agent is open, undo it here: pullcord undo r2\n" in said
    pullcord("undo", "r2")
    assert pullcord.effects() == ["a draft", "a draft", "took a draft back"]


def test_a_file_alone_is_told_which_agents_it_has(pullcord: Terminal, tmp_path: Path) -> None:
    pullcord.folder = tmp_path
    (tmp_path / "mine.py").write_text(
        "import pydantic_ai\n"
        "raise RuntimeError('it was carried out')\n"
        "async def mine(ctx): ...\n"
        "async def helper(text): ...\n"
        "asker: object = pydantic_ai.Agent[None, str]('test')\n"
        "other = 5\n"
    )
    for target in ("mine.py", "mine.py:"):
        said = pullcord("run", target)
        assert (said.status, said.out) == (2, "")
        assert "'mine.py' is a file, and does not say which agent" in said.err
        assert "Name one of them: mine.py:mine, mine.py:asker" in said.err
        assert str(tmp_path) not in said.err
    (tmp_path / "broken.py").write_text("async def (")
    assert "pullcord run broken.py:churn" in pullcord("run", "broken.py").err
    said = pullcord("run", "none.py")
    assert "and none.py is not a file" in said.err


def test_what_expires_in_days_is_said_in_days(pullcord: Terminal) -> None:
    world = AGENTS.with_name("world.py")
    with pullcord.running("run", f"{world}:pays", "--run-id", "r1"):
        pullcord.reached(RunState.WAITING)
        assert "expires in 6 days" in pullcord("approvals").out


def test_ctrl_c_gives_the_run_back_and_resume_goes_on_here(pullcord: Terminal) -> None:
    with pullcord.running("run", agent("planned"), "--run-id", "r1") as process:
        run = pullcord.reached(RunState.WAITING)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Go on with: pullcord resume r1" in err
    assert pullcord("answer", "r1", run.open_questions()[0], "yes").status == 0
    assert "nobody drives it" in pullcord("ps").out
    said = pullcord("resume", "r1")
    assert (said.status, said.out) == (0, '["one", "two", "yes"]\n')
    assert pullcord.effects() == ["one", "two"]


def test_after_kill_dash_nine_a_step_in_doubt_is_asked_about(pullcord: Terminal) -> None:
    with pullcord.running("run", agent("hangs"), "--run-id", "r1") as process:
        pullcord.until(lambda _: bool(pullcord.effects()))
        process.kill()
        process.communicate()
    sick = pullcord("doctor")
    assert (sick.status, "No process drives it. Drive it here: pullcord resume r1" in sick.out) == (
        1,
        True,
    )
    with pullcord.running("resume", "r1") as process:
        run = pullcord.reached(RunState.WAITING)
        question = run.open_questions()[0]
        wrong = pullcord("answer", "r1", question, "perhaps")
        assert (wrong.status, "happened, run or skip" in wrong.err) == (3, True)
        pullcord("answer", "r1", question, '{"happened": "it did"}')
        out, _ = process.communicate(timeout=60)
    assert out == "it did\n"
    assert pullcord.effects() == ["charged"]


def test_a_dead_run_is_paused_and_cancelled_without_its_process(pullcord: Terminal) -> None:
    """Nothing is finishing: whoever would have to say so is gone."""
    with pullcord.running("run", agent("hangs"), "--run-id", "r1") as process:
        pullcord.until(lambda _: bool(pullcord.effects()))
        process.kill()
        process.communicate()
    assert pullcord("pause", "r1").out == "Paused r1.\n"
    assert "Nobody knows whether step 'charge' happened." in pullcord("show", "r1").out
    said = pullcord("cancel", "r1", "--wait")
    assert (said.status, "in doubt       charge" in said.out) == (0, True)
    again = pullcord("continue", "r1", "and now?", "--detach")
    assert again.status == 0  # its thread is free


def test_a_waiting_run_that_nobody_drives_can_be_driven_before_it_is_answered(
    pullcord: Terminal,
) -> None:
    with pullcord.running("run", agent("planned"), "--run-id", "r1") as process:
        question = pullcord.reached(RunState.WAITING).open_questions()[0]
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert f"It waits for: pullcord answer r1 {question} VALUE" in err
    with pullcord.running("resume", "r1") as process:
        pullcord.until(lambda run: run.epoch > 1 or not run.ended)
        assert pullcord("answer", "r1", question, "yes").status == 0
        out, _ = process.communicate(timeout=60)
    assert json.loads(out) == ["one", "two", "yes"]


def test_a_run_whose_file_is_gone_is_not_said_to_go_on(pullcord: Terminal, tmp_path: Path) -> None:
    there = tmp_path / "moved.py"
    there.write_text(AGENTS.read_text())
    with pullcord.running("run", f"{there}:planned", "--run-id", "r1") as process:
        pullcord.reached(RunState.WAITING)
        pullcord("pause", "r1", "--wait")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=60)
    there.unlink()
    said = pullcord("resume", "r1")
    assert (said.status, "which is not there any more" in said.err) == (2, True)
    assert pullcord("ps", "--json").json[0]["state"] == "paused"


def test_a_run_is_known_by_the_beginning_of_its_id(pullcord: Terminal) -> None:
    for name in ("abc1", "abd2"):
        pullcord("run", agent("quick"), "--run-id", name)
    assert "abc1 · quick" in pullcord("show", "abc").out
    said = pullcord("show", "ab")
    assert (said.status, "ab may be any of abc1, abd2" in said.err) == (2, True)


def test_show_has_the_result_and_the_whole_error(pullcord: Terminal) -> None:
    pullcord("run", agent("quick"), '"May"', "--run-id", "r1")
    assert '["May", "once"]' in pullcord("show", "r1").out
    assert pullcord("show", "r1", "--json").json["result"] == ["May", "once"]
    said = pullcord("run", agent("fails"), "--run-id", "r2")
    assert "no such month" in pullcord("receipt", "r2").out
    assert "agents.py" in said.err  # where it was raised


def test_continue_sends_nothing_by_itself(pullcord: Terminal) -> None:
    pullcord("run", agent("remembers"), "--run-id", "r1")
    for nothing in ((), ("",), ("  ",), ("null",)):
        said = pullcord("continue", "r1", *nothing, "--detach")
        assert (said.status, said.out) == (2, "")
        assert "Cannot continue run r1 without words" in said.err
        assert "pullcord continue r1 TEXT" in said.err
    assert len(pullcord("ps", "--all", "--json").json) == 1
    assert "pullcord continue r1 TEXT" in pullcord("show", "r1").out


def test_detached_runs_are_only_recorded(pullcord: Terminal) -> None:
    pullcord("run", agent("remembers"), "--run-id", "r1")
    said = pullcord("continue", "r1", "May", "--detach", "--json")
    new = said.json["run"]
    assert "nobody drives it" in pullcord("ps").out
    assert pullcord("resume", new).out == "1\n"  # it knows of the run before it
    assert pullcord("receipt", new).out.startswith("✓ Completed")


def test_a_detached_child_is_named_and_can_be_driven_later(pullcord: Terminal) -> None:
    said = pullcord("run", agent("starts_another"), "--run-id", "r1")
    child = said.out.strip()
    assert f"{child} is on its own. Go on with it: pullcord resume {child}" in said.err
    with pullcord.running("resume", child) as process:
        run = pullcord.reached(RunState.WAITING, run_id=child)
        pullcord("answer", child, run.open_questions()[0], "yes")
        out, _ = process.communicate(timeout=60)
    assert json.loads(out) == ["yes", "one", "two"]


def test_waiting_has_an_end(pullcord: Terminal) -> None:
    with pullcord.running("run", agent("hangs"), "--run-id", "r1"):
        pullcord.until(lambda _: bool(pullcord.effects()))
        said = pullcord("pause", "r1", "--wait", "--timeout-s", "0.2")
    assert said.status == 4
    assert "is still pausing after 0.2 s. The request stands." in said.err


@pytest.mark.parametrize(
    ("words", "status", "says"),
    [
        (("pause", "nope"), 2, "There is no run nope"),
        (("pause", "a b"), 2, "is not a run id"),
        (("run", "nowhere.py:agent"), 2, "is not a file"),
        (("run", agent("nobody")), 2, "There is no agent nobody"),
        (("watch", "r1", "--after", "x"), 2, "is not a place in a run"),
        (("fork", "r1", "--at", "99"), 2, "it has"),
        (("run", agent("quick"), "--run-id", "r1"), 2, "There is already a run r1"),
        (("run", agent("planned"), "5"), 2, "planned takes no input"),
        (("run", agent("quick"), '{"month":'), 2, "is not JSON"),
        (("redirect", "r1", "  "), 2, "it is empty"),
        (("settle", "r1", "x"), 3, "is not an open attention item"),
        (("run", agent("quick"), "--limit", "steps=0.5"), 2, "counted in whole numbers"),
        (("run", agent("quick"), "--limit", "tokens=inf"), 2, "counted in whole numbers"),
        (("run", agent("quick"), "--model", "a\u202eb"), 2, "it has U+202E at position 1"),
        (("continue", "r1", "--store", "not-there.db"), 2, "There is no store at not-there.db"),
    ],
)
def test_an_error_says_what_why_and_what_to_do(
    pullcord: Terminal, words: tuple[str, ...], status: int, says: str
) -> None:
    pullcord("run", agent("quick"), "--run-id", "r1")
    said = pullcord(*words)
    assert (said.status, said.out) == (status, "")
    assert says in said.err
    assert "Traceback" not in said.err
    as_json = pullcord(*words, "--json").json
    assert says in as_json["message"]


def test_the_same_key_gets_the_same_answer(pullcord: Terminal) -> None:
    with pullcord.running("run", agent("hangs"), "--run-id", "r1"):
        pullcord.until(lambda _: bool(pullcord.effects()))
        first = pullcord("pause", "r1", "--key", "k1", "--json").json
        assert pullcord("pause", "r1", "--key", "k1", "--json").json == first
        assert pullcord("cancel", "r1", "--key", "k1").status == 3


def test_the_tour_tells_its_story(pullcord: Terminal) -> None:
    told = pullcord("tour", "--pace", "0.05").out
    for words in (
        "● Fetch customer list",
        "ana presses Pause → applied",
        "‖ Paused by ana · “check the join first”",
        "- next  Score churn risk\n+ next  Score churn risk, EU only",
        "✓ 3 at risk (Score churn risk, EU only)",
        "■ cut here",
        "■ Cancelled by ana · “changed my mind”",
        "The journal",
    ):
        assert words in told


@pytest.mark.parametrize("name", ["stays_on", "waits_in_a_thread"])
def test_what_ignores_being_cancelled_ends_with_the_command(pullcord: Terminal, name: str) -> None:
    with pullcord.running("run", agent(name), "--run-id", "r1") as process:
        pullcord.until(lambda run: bool(run.open_steps()))
        pullcord("cancel", "r1")
        pullcord("cancel", "r1", "--now")
        out, err = process.communicate(timeout=30)  # its own code would go on for an hour
    assert process.returncode == 3
    assert "Cancelled" in out + err
