"""A `pydantic_ai.Agent` is run, asked and gone on with like any other agent."""

from pathlib import Path

import pytest

from tests.cli.terminal import Terminal

TALKER = f"{Path(__file__).parent / 'talker.py'}:talker"


@pytest.fixture
def pullcord(tmp_path: Path) -> Terminal:
    return Terminal(tmp_path)


def test_its_prompt_is_the_input_and_what_it_says_is_said_once(pullcord: Terminal) -> None:
    said = pullcord("run", TALKER, "Write about May", "--run-id", "r1")
    assert said.status == 0
    assert said.out.splitlines() == ["well", "I have read 1."]
    assert "◆ scripted is answering" in said.err
    assert "10 tokens in" in said.err
    receipt = pullcord("receipt", "r1").out
    assert "done           it answered; nothing else was done" in receipt
    assert "1 call of unknown price" in receipt


def test_it_goes_on_with_its_thread_and_is_asked_aside(pullcord: Terminal) -> None:
    pullcord("run", TALKER, "Write about May", "--run-id", "r1")
    assert pullcord("continue", "r1", "and June").out.splitlines()[-1] == "I have read 3."
    assert pullcord("aside", "r1", "why May?").out.splitlines()[-1] == "I have read 3."


def test_another_model_can_be_named(pullcord: Terminal) -> None:
    said = pullcord("run", TALKER, "Write", "--model", "test", "--run-id", "r1")
    assert (said.status, said.out.splitlines()) == (0, ["success (no tool calls)"])
    assert "◆ test is answering" in said.err


def test_the_text_of_a_fast_model_is_in_one_piece(pullcord: Terminal, tmp_path: Path) -> None:
    fast = tmp_path / "fast.py"
    fast.write_text(
        "from pydantic_ai import Agent\n"
        "from pullcord.testing.scripted import ScriptedModel\n"
        "fast = Agent(ScriptedModel(['Hello there, this is a long answer ' * 20]))\n"
    )
    said = pullcord("run", f"{fast}:fast", "hi", "--run-id", "r1")
    assert said.out == "Hello there, this is a long answer " * 20 + "\n"
