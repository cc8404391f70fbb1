"""A run is known by as much of its id as makes it the only one; `-` is standard input."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from pullcord.core.states import RunState
from tests.cli.terminal import Terminal, agent


@pytest.fixture
def pullcord(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


@pytest.fixture(scope="module")
def named(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    made = Terminal(tmp_path_factory.mktemp("named"))
    for name in ("Abc1", "Abc2", "Xyz"):
        made("run", agent("quick"), "x", "--run-id", name)
    return made


@pytest.mark.parametrize(
    "words",
    [
        ("show",),
        ("receipt",),
        ("watch",),
        ("fork",),
        ("continue",),
        ("grant", "ci", "--run"),
        ("approvals",),
        ("attention",),
    ],
    ids=" ".join,
)
def test_a_beginning_is_enough_and_two_of_them_are_named(
    named: Terminal, words: tuple[str, ...]
) -> None:
    more = ["June"] if words == ("continue",) else []  # it sends nothing by itself
    assert named(*words, "X", *more).status == 0
    unclear = named(*words, "Abc", *more)
    assert (unclear.status, "Abc may be any of Abc1, Abc2." in unclear.err) == (2, True)
    assert named(*words, "Abc1", *more).status == 0


@pytest.mark.parametrize("verb", ["pause", "cancel", "resume"])
def test_a_control_never_guesses(named: Terminal, verb: str) -> None:
    unclear = named(verb, "Abc")
    assert (unclear.status, "Write more of the id." in unclear.err) == (2, True)
    none = named(verb, "nobody")
    assert (none.status, "There is no run nobody in this store" in none.err) == (2, True)


def test_an_input_may_come_by_pipe(named: Terminal) -> None:
    said = named("run", agent("quick"), "-", given='{"a": 1}\n')
    assert said.out.endswith('[{"a": 1}, "once"]\n')
    assert named("continue", "Xyz", "-", given="June\n").out.endswith('["June", "once"]\n')
    forked = named("fork", "Xyz", "--instruction", "-", "--detach", given="use v2\n")
    assert "“use v2”" in named("show", forked.out.strip()).out


def test_an_instruction_and_an_answer_may_come_by_pipe(pullcord: Terminal) -> None:
    with pullcord.running("run", agent("hangs_between"), "--run-id", "r1"):
        pullcord.until(lambda run: bool(run.open_steps()))
        said = pullcord("redirect", "r1", "-", given="score EU only\n")
    assert said.out == "- next  two\n+ next  score EU only\n"
    with pullcord.running("run", agent("asks_first"), "--run-id", "r2") as process:
        run = pullcord.reached(RunState.WAITING, run_id="r2")
        pullcord("answer", "r2", run.open_questions()[0], "-", given='["yes", "no"]')
        out, _ = process.communicate(timeout=60)
    assert json.loads(out)[0] == ["yes", "no"]


@pytest.mark.parametrize("given", [b"", b"\n", b"\xff\xfe", b"nul \x00 byte"], ids=repr)
def test_what_cannot_be_said_is_refused_with_a_sentence(pullcord: Terminal, given: bytes) -> None:
    with pullcord.running("run", agent("asks_first"), "--run-id", "r1"):
        pullcord.reached(RunState.WAITING)
        done = subprocess.run(
            [sys.executable, "-m", "pullcord", "redirect", "r1", "-"],
            env=pullcord.env,
            input=given,
            capture_output=True,
            timeout=60,
        )
    assert done.returncode == 2, done
    assert b"Nothing was changed" in done.stderr
    assert b"Traceback" not in done.stderr
