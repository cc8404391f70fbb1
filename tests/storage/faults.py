"""Faults put into a child's system calls from outside, by strace. Nothing in the child knows."""

import re
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from tests.storage.children import module, run

_INJECTED: Final = re.compile(r"^(\d+) .*\(INJECTED\)", re.MULTILINE)
_CALL: Final = re.compile(r"^(\d+) +\w+\(", re.MULTILINE)


class Where(NamedTuple):
    """Which system calls a fault may meet: one kind, on any file or only on some."""

    syscall: str
    files: tuple[Path, ...] = ()


class Told(NamedTuple):
    """What a child was told by its journal, and which of its threads the fault met."""

    acked: list[int]
    failures: list[str]
    opened: bool
    closed: bool
    killed: bool
    hit_opener: bool  # the thread that opens and closes the store
    hit_writer: bool  # the thread that commits
    err: str


class Calls(NamedTuple):
    """How often an undisturbed child makes a call, by thread: strace counts them apart."""

    by_opener: int
    by_writer: int


def calls(path: Path, where: Where) -> Calls:
    log = path.with_suffix(".log")
    done = run(straced(module("writers", path), where, log=log))
    assert done.returncode == 0, done.stderr
    per_thread = Counter(_CALL.findall(log.read_text()))
    opener = _opener(done.stdout)
    others = [count for thread, count in per_thread.items() if thread != opener]
    return Calls(per_thread[opener], max(others, default=0))


def ten_commits_with(fault: str, n: int, path: Path, where: Where, *, frail: bool = False) -> Told:
    """Make ten commits in a child while the n-th such call of each thread meets `fault`."""
    log = path.with_suffix(".log")
    command = module("writers", path, *(["--frail"] if frail else []))
    done = run(straced(command, where, fault=f"{fault}:when={n}", log=log))
    lines = done.stdout.splitlines()
    hit = set(_INJECTED.findall(log.read_text()))
    opener = {_opener(done.stdout)}
    return Told(
        acked=[int(line.split()[1]) for line in lines if line.startswith("acked")],
        failures=[line.removeprefix("failed ") for line in lines if line.startswith("failed")],
        opened="opened" in lines,
        closed="closed" in lines,
        killed=was_killed(done.returncode),
        hit_opener=bool(hit & opener),
        hit_writer=bool(hit - opener),
        err=done.stderr,
    )


def _opener(said: str) -> str:
    return said.split(maxsplit=2)[1]  # the child begins with "pid N"


def was_killed(returncode: int) -> bool:
    """Whether strace's child died of SIGKILL: strace then dies of it too, or says so."""
    return returncode in (-9, 137)


def straced(command: list[str], where: Where, *, log: Path, fault: str = "") -> list[str]:
    """The command line that runs `command` under strace, with `fault` put into some calls."""
    flags = ["-f", "-qq", "-o", str(log), "-e", f"trace={where.syscall}"]
    if "signal=" not in fault:  # with it, strace 6.1 forgets to send a signal for n > 1
        flags.append("--seccomp-bpf")
    if fault:
        flags += ["-e", f"inject={where.syscall}:{fault}"]
    only = [flag for file in where.files for flag in ("-P", str(file))]
    return ["strace", *flags, *only, *command]
