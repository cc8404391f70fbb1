"""Verbs, options and run ids, asked for in real shells."""

import os
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from pullcord.cli.parser import VERBS
from tests.cli.serving import serve
from tests.cli.shells import Zsh, fish
from tests.cli.terminal import Terminal, agent

BASH = """
eval "$(pullcord completion bash)"
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_pullcord; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture(scope="module")
def pullcord(tmp_path_factory: pytest.TempPathFactory) -> Terminal:
    folder = tmp_path_factory.mktemp("shells")
    made = Terminal(folder)
    for name in ("r1", "r2", "other"):
        made("run", agent("quick"), "--run-id", name)
    binary = folder / "bin" / "pullcord"
    binary.parent.mkdir()
    binary.write_text(f'#!/bin/sh\nexec {sys.executable} -m pullcord "$@"\n')
    binary.chmod(0o755)
    made.env |= {"PATH": f"{binary.parent}:{os.environ['PATH']}", "HOME": str(folder)}
    made.folder = folder / "here"
    made.folder.mkdir()
    (made.folder / "report.py").touch()
    return made


def bash(pullcord: Terminal, script: str) -> list[str]:
    done = subprocess.run(
        ["bash", "--norc", "--noprofile", "-c", script],
        env=pullcord.env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.split()


CASES = {
    "pullcord pau": ["pause"],
    "pullcord ''": None,
    "pullcord show ''": ["other", "r2", "r1"],  # the newest first
    "pullcord show r": ["r2", "r1"],
    "pullcord pause ''": [],  # all of them have ended
    "pullcord cancel --qua": ["--quarantine"],
    "pullcord grant x --right a": ["approve", "admin"],
    "pullcord run x --on-exhausted w": ["wrap_up"],
    "pullcord completion b": ["bash"],
    "pullcord grant x --run ''": [],
    "pullcord nonsense ''": [],
}


@pytest.mark.parametrize("words", CASES)
def test_bash_completes(pullcord: Terminal, words: str) -> None:
    wanted = CASES[words]
    found = bash(pullcord, BASH.format(words=words))
    assert found == ([*VERBS, "--help", "--version"] if wanted is None else wanted)


def test_it_asks_the_server_that_is_meant(tmp_path: Path) -> None:
    with serve(tmp_path) as serving:
        serving.here("run", agent("quick"), "--run-id", "far-1")
        said = serving("__complete", "show", "fa")
        assert (said.status, said.out) == (0, "far-1\n")
        serving.abroad.env["PULLCORD_TOKEN"] = "wrong"
        silent = serving("__complete", "show", "fa")
        assert (silent.status, silent.out, silent.err) == (0, "", "")


def test_a_broken_file_or_no_store_completes_nothing_and_says_nothing(tmp_path: Path) -> None:
    pullcord = Terminal(tmp_path)
    pullcord.folder = tmp_path
    assert pullcord("__complete", "show", "").out == ""
    (tmp_path / "pullcord.toml").write_text("nonsense")
    silent = pullcord("__complete", "show", "")
    assert (silent.status, silent.out, silent.err) == (0, "", "")
    assert pullcord("__complete").out.split()[0] == "run"


@pytest.fixture
def zsh(pullcord: Terminal, tmp_path: Path) -> Generator[Zsh]:
    shell = Zsh(pullcord, tmp_path)
    yield shell
    shell.close()


def test_zsh_completes(zsh: Zsh) -> None:
    for words, line in {
        "pullcord pau": "pullcord pause ",
        "pullcord show oth": "pullcord show other ",
        "pullcord pause oth": "pullcord pause oth",  # it has ended
        "pullcord cancel --qua": "pullcord cancel --quarantine ",
        "pullcord grant x --right ad": "pullcord grant x --right admin ",
        "pullcord run rep": "pullcord run report.py ",  # a file, because nothing else may come
        "pullcord nonsense x": "pullcord nonsense x",
    }.items():
        assert zsh.tab(words) == line
    newest_first = ["other", "r2", "r1"]
    assert zsh.listed("pullcord show ", *sorted(newest_first)) == newest_first


def test_fish_completes(pullcord: Terminal) -> None:
    """One fish for all of it; each question is a process of our own."""
    found = fish(pullcord, *(words.replace("''", "") for words in CASES), "pullcord run rep")
    all_verbs = [*VERBS, "--help", "--version"]
    wanted = [all_verbs if offered is None else offered for offered in CASES.values()]
    assert found == [*wanted, ["report.py"]]  # a file, because nothing else may come
