"""What `tests.nursery` forks is, to itself and to its starter, what `python -m` would have been."""

import json
import os
import pty
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests import nursery
from tests.cli.terminal import Terminal

PROBE = """
import asyncio, atexit, gc, json, os, signal, sys, threading

def stream(file):
    return [file.fileno(), file.encoding, file.errors, file.line_buffering, file.isatty()]

said = {
    "argv": sys.argv,
    "orig_argv": sys.orig_argv,
    "name": __name__,
    "spec": __spec__.name,
    "is main": sys.modules["__main__"].__dict__ is globals(),
    "file": __file__,
    "folder": os.getcwd(),
    "environment": sorted(item for item in os.environ.items() if item[0] != "PYTHONPATH"),
    "path": [entry for entry in sys.path if entry],
    "streams": [stream(file) for file in (sys.stdin, sys.stdout, sys.stderr)],
    "originals": [sys.__stdin__ is sys.stdin, sys.__stdout__ is sys.stdout],
    "fds": sorted(int(fd) for fd in os.listdir("/proc/self/fd"))[:4],
    "session": [os.getsid(0) == os.getpid(), os.getpgrp() == os.getpid()],
    "ignored": sorted(s for s in signal.Signals if signal.getsignal(s) is signal.SIG_IGN),
    "ctrl-c": signal.getsignal(signal.SIGINT) is signal.default_int_handler,
    "blocked": sorted(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "threads": threading.active_count(),
    "collects": gc.isenabled(),
    "flags": list(sys.flags),
    "telemetry": "opentelemetry.trace" in sys.modules,
    "models": "pydantic_ai" in sys.modules,
}
with open(os.environ["PROBE"], "w") as file:
    json.dump(said, file)
"""
AFTER = """
def last():
    print("at exit", flush=True)

def late():
    import time
    time.sleep(0.01)
    print("a thread", flush=True)

atexit.register(last)
if sys.argv[1] == "threads":
    threading.Thread(target=late).start()
elif sys.argv[1] == "status":
    sys.exit(7)
elif sys.argv[1] == "words":
    sys.exit("in words")
elif sys.argv[1] == "raises":
    raise ValueError("no")
elif sys.argv[1] == "signal":
    os.kill(os.getpid(), signal.SIGTERM)
elif sys.argv[1] == "ctrl-c":
    os.kill(os.getpid(), signal.SIGINT)
elif sys.argv[1] == "echo":
    sys.stdout.write(sys.stdin.read().upper())
elif sys.argv[1] == "full":
    sys.stdout.write("lost")
"""


@pytest.fixture
def probe(tmp_path: Path) -> Terminal:
    (tmp_path / "probe.py").write_text(PROBE + AFTER)
    terminal = Terminal(tmp_path)
    terminal.folder = tmp_path
    terminal.env |= {"PROBE": str(tmp_path / "said"), "PYTHONPATH": str(tmp_path / "more")}
    return terminal


def both(probe: Terminal, *words: str, **how: Any) -> "tuple[Any, Any]":
    """What the probe has seen and left behind, started and forked."""
    said = Path(probe.env["PROBE"])
    command = [sys.executable, "-m", "probe", *words]
    started = subprocess.Popen(command, env=probe.env, cwd=probe.folder, text=True, **how)
    one = (*started.communicate("given"), started.returncode, json.loads(said.read_text()))
    said.unlink()
    forked = nursery.start("probe", *words, env=probe.env, cwd=probe.folder, **how)
    assert isinstance(forked, nursery.Forked)
    return one, (*forked.communicate("given"), forked.returncode, json.loads(said.read_text()))


PIPES = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}


@pytest.mark.parametrize(
    "words", ["returns", "threads", "status", "words", "signal", "ctrl-c", "echo", "two words"]
)
def test_it_finds_and_leaves_the_same(probe: Terminal, words: str) -> None:
    (out, err, *started), (forked_out, forked_err, *forked) = both(
        probe, *words.split(), "é", **PIPES
    )
    assert forked == started
    assert (forked_out, forked_err.splitlines()[-1:]) == (out, err.splitlines()[-1:])


def test_an_error_nobody_handles_is_told_in_the_same_words(probe: Terminal) -> None:
    (_, err, *started), (_, forked_err, *forked) = both(probe, "raises", **PIPES)
    assert forked == started
    assert forked_err.splitlines()[-3:] == err.splitlines()[-3:]


def test_output_that_cannot_be_written_is_told_in_the_same_words(probe: Terminal) -> None:
    with Path("/dev/full").open("w") as full:
        (_, err, *started), (_, forked_err, *forked) = both(
            probe, "full", **PIPES | {"stdout": full}
        )
    assert started[0] != 0
    assert forked == started
    assert forked_err.splitlines()[-1] == err.splitlines()[-1]


def test_it_has_a_session_of_its_own_if_it_is_to_have_one(probe: Terminal) -> None:
    started, forked = both(probe, "returns", start_new_session=True, **PIPES)
    assert started[3]["session"] == [True, True]
    assert forked[3] == started[3]


def test_what_python_itself_reads_is_read_by_a_python_of_its_own(probe: Terminal) -> None:
    for name, value in (("PYTHONHASHSEED", "7"), ("LC_ALL", "C"), ("PYTHONUTF8", "1")):
        with nursery.start(
            "probe", "returns", env=probe.env | {name: value}, cwd=probe.folder
        ) as p:
            assert not isinstance(p, nursery.Forked)
        assert p.returncode == 0


@pytest.mark.parametrize("more", [{}, {"PYTHONHASHSEED": "7"}], ids=["forked", "started"])
def test_at_a_terminal_a_key_reaches_it(tmp_path: Path, more: dict[str, str]) -> None:
    """Ctrl-C interrupts it because the terminal is its own."""
    (tmp_path / "waits.py").write_text(
        "import os, signal; print(os.tcgetpgrp(0) == os.getpgrp(), flush=True); signal.pause()"
    )
    ours, theirs = pty.openpty()
    process = nursery.start(
        "waits", cwd=tmp_path, env=os.environ | more, stdin=theirs, stdout=theirs, stderr=theirs,
        has_terminal=True,
    )  # fmt: skip
    os.close(theirs)
    said = b""
    while b"True" not in said:
        said += os.read(ours, 1000)
    os.write(ours, b"\x03")
    assert process.wait(60) == -signal.SIGINT
    os.close(ours)


def test_whoever_waits_too_long_is_told_and_a_kill_is_seen(probe: Terminal) -> None:
    assert probe.folder
    (probe.folder / "waits.py").write_text("import signal; signal.pause()")
    with nursery.start("waits", env=probe.env, cwd=probe.folder) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.01)
        assert process.poll() is None
        process.kill()
        assert process.wait() == -signal.SIGKILL
