"""Real processes for the storage tests: each bounded in time and ended by its own process group.

Mounts are made only inside a child's private mount namespace, so they end with the child.
"""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).parents[2]
PYTHON: Final = str(Path(sys.executable).absolute())
PRIVATE: Final = ("unshare", "--mount", "--propagation", "private", "--")


def module(name: str, *arguments: object) -> list[str]:
    """The command line of a module of this folder run as a program."""
    return [PYTHON, "-m", f"tests.storage.{name}", *map(str, arguments)]


def run(command: Sequence[str], *, timeout_s: float = 60) -> "subprocess.CompletedProcess[str]":
    """Run a child to its end. One that takes longer is killed with all it started, and raises."""
    process = subprocess.Popen(
        command,
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=timeout_s)
    except BaseException:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise
    return subprocess.CompletedProcess(command, process.returncode, out, err)


def answer(command: Sequence[str], *, timeout_s: float = 60) -> str:
    """What a child printed that must end well."""
    done = run(command, timeout_s=timeout_s)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def need_mounts(folder: Path, options: str, *tools: str) -> None:
    """Skip unless this machine lets us mount (root, or CAP_SYS_ADMIN) what `options` say."""
    for tool in ("unshare", "mount", *tools):
        if not shutil.which(tool):
            pytest.skip(f"needs the program '{tool}' (Debian: util-linux, e2fsprogs)")
    if why := _refusal(str(folder), options):
        pytest.skip(f"this machine does not permit 'mount {options}': {why}")


@cache
def _refusal(folder: str, options: str) -> str:
    done = run([*PRIVATE, "mount", *options.split(), folder])
    return "" if done.returncode == 0 else (done.stderr.strip() or "no reason given")


def need_strace() -> None:
    """Skip unless strace can trace and inject here."""
    if not shutil.which("strace"):
        pytest.skip("needs the program 'strace' (Debian package: strace)")
    if why := _strace_refusal():
        pytest.skip(f"strace cannot trace on this machine (ptrace not permitted?): {why}")


@cache
def _strace_refusal() -> str:
    done = run(["strace", "-f", "-qq", "--seccomp-bpf", "-e", "trace=fsync", "true"])
    return "" if done.returncode == 0 else done.stderr.strip()
