"""A file that cannot be loaded, a command that is none, a store or a folder that cannot be used:
words, and no traceback of ours."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal

BAD = {
    "import nosuch": "ModuleNotFoundError: No module named 'nosuch' (bad.py:1, in <module>)",
    "def f(:": "SyntaxError: invalid syntax (bad.py, line 1)",
    "\n1 / 0": "ZeroDivisionError: division by zero (bad.py:2, in <module>)",
    "import sys\nsys.exit(3)": "SystemExit: 3 (bad.py:2, in <module>)",
}


@pytest.mark.parametrize("words", [("serve", "bad.py"), ("run", "bad.py:agent")], ids=str)
@pytest.mark.parametrize("text", BAD, ids=lambda text: text.split()[0])
def test_a_file_that_cannot_be_loaded(text: str, words: tuple[str, ...], tmp_path: Path) -> None:
    here = Terminal(tmp_path)
    here.folder = tmp_path
    (tmp_path / "bad.py").write_text(text)
    said = here(*words)
    assert said.status == 2
    assert said.err.startswith(f"bad.py cannot be loaded: {BAD[text]}. Nothing was started.")
    assert "Traceback" not in said.err
    assert "pullcord/cli" not in said.err


def test_a_command_that_is_none(tmp_path: Path) -> None:
    here = Terminal(tmp_path)
    said = here("sreve", "app.py")
    assert said.status == 2
    assert "there is no command 'sreve'. Nothing was done. Did you mean: pullcord serve" in said.err
    assert "pullcord --help" in here("xyzzy").err
    assert "Did you mean: pullcord pause" in here("puase", "r1", "--json").json["message"]


@pytest.mark.parametrize("words", [("serve", "--port", "0"), ("kill-switch", "status"), ("ps",)])
def test_a_store_whose_name_is_not_utf_8(words: tuple[str, ...], tmp_path: Path) -> None:
    name = os.fsencode(tmp_path) + b"/sch\xf6n.db"
    argv: list[str | bytes] = [sys.executable, "-m", "pullcord", *words, "--store", name]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode not in (0, 70)
    assert "Traceback" not in done.stderr
    assert "is not UTF-8" in done.stderr or "There is no store" in done.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [("run", "x.py:agent"), ("serve", "x.py"), ("ps",)], ids=str)
def test_a_folder_that_is_there_no_more(words: tuple[str, ...], tmp_path: Path) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    command = 'cd "$1" && rmdir "$1" && shift && exec "$@"'
    argv = ["sh", "-c", command, "sh", str(gone), sys.executable, "-m", "pullcord", *words]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert "is there no more" in done.stderr or "There is no store" in done.stderr
