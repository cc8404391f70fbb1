"""Verbs, options and run ids, asked for in real shells."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from pullcord.cli.parser import VERBS
from tests.cli.serving import serve
from tests.cli.terminal import Terminal, agent

BASH = """
eval "$(pullcord completion bash)"
COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))
_pullcord; printf '%s\\n' "${{COMPREPLY[@]}}"
"""


@pytest.fixture
def pullcord(tmp_path: Path) -> Terminal:
    made = Terminal(tmp_path)
    for name in ("r1", "r2", "other"):
        made("run", agent("quick"), "--run-id", name)
    binary = tmp_path / "bin" / "pullcord"
    binary.parent.mkdir()
    binary.write_text(f'#!/bin/sh\nexec {sys.executable} -m pullcord "$@"\n')
    binary.chmod(0o755)
    made.env |= {"PATH": f"{binary.parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    return made


def asked(pullcord: Terminal, shell: str, script: str) -> list[str]:
    done = subprocess.run(
        [shell, *(["--norc", "--noprofile"] if shell == "bash" else []), "-c", script],
        env=pullcord.env,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.split()


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("pullcord pau", ["pause"]),
        ("pullcord ''", None),
        ("pullcord show ''", ["other", "r2", "r1"]),  # the newest first
        ("pullcord show r", ["r2", "r1"]),
        ("pullcord pause ''", []),  # all of them have ended
        ("pullcord cancel --qua", ["--quarantine"]),
        ("pullcord grant x --right a", ["approve", "admin"]),
        ("pullcord run x --on-exhausted w", ["wrap_up"]),
        ("pullcord completion b", ["bash"]),
        ("pullcord grant x --run ''", []),
        ("pullcord nonsense ''", []),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_bash_completes(pullcord: Terminal, words: str, found: list[str] | None) -> None:
    got = asked(pullcord, "bash", BASH.format(words=words))
    assert got == ([*VERBS, "--help", "--version"] if found is None else found)


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


@pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here")
def test_the_script_for_zsh_is_one(pullcord: Terminal) -> None:
    script = 'autoload -Uz compinit; compinit -D; eval "$(pullcord completion zsh)"; print -- ok'
    assert asked(pullcord, "zsh", script)[-1] == "ok"


@pytest.mark.skipif(shutil.which("fish") is None, reason="no fish here")
def test_fish_completes(pullcord: Terminal) -> None:
    script = 'pullcord completion fish | source; complete -C "pullcord show r"'
    assert asked(pullcord, "fish", script) == ["r2", "r1"]
