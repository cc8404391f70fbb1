"""Faults put into a child's system calls from outside, by strace. Nothing in the child knows."""

import re
from collections import Counter
from pathlib import Path
from typing import Final, NamedTuple

from tests.storage.children import module, run

_INJECTED: Final = re.compile(r"^(\d+) .*\(INJECTED\)", re.MULTILINE)
_CALL: Final = re.compile(r"^(\d+) +\w+\(", re.MULTILINE)


class Told(NamedTuple):
    """What a child was told by its journal, and where the fault hit."""

    acked: list[int]
    failures: list[str]
    opened: bool
    closed: bool
    killed: bool
    hit_opener: bool  # the thread that opens and closes the store
    hit_writer: bool  # the thread that commits
    err: str


def calls_of(program: str, path: Path, syscall: str) -> "Calls":
    """How often an undisturbed child makes this call, in the thread that makes most of them."""
    log = path.with_suffix(".log")
    done = run(_strace(log, f"trace={syscall}", program, path))
    assert done.returncode == 0, done.stderr
    per_thread = Counter(_CALL.findall(log.read_text()))
    opener = min(per_thread, key=int)
    most = max((n for thread, n in per_thread.items() if thread != opener), default=0)
    return Calls(per_thread[opener], most)


class Calls(NamedTuple):
    by_opener: int
    by_writer: int


def with_fault(program: str, path: Path, syscall: str, fault: str, n: int) -> Told:
    """Run `program` on `path` while the n-th `syscall` of each of its threads meets `fault`."""
    log = path.with_suffix(".log")
    done = run(_strace(log, f"inject={syscall}:{fault}:when={n}", program, path))
    lines = done.stdout.splitlines()
    hit = set(_INJECTED.findall(log.read_text()))
    opener = next(iter(_CALL.findall(log.read_text())), "")
    return Told(
        acked=[int(line.split()[1]) for line in lines if line.startswith("acked")],
        failures=[line.removeprefix("failed ") for line in lines if line.startswith("failed")],
        opened="opened" in lines,
        closed="closed" in lines,
        killed=done.returncode in (-9, 137),
        hit_opener=opener in hit,
        hit_writer=bool(hit - {opener}),
        err=done.stderr,
    )


def _strace(log: Path, expression: str, program: str, path: Path) -> list[str]:
    flags = ["-f", "-qq", "--seccomp-bpf", "-o", str(log), "-e", expression]
    return ["strace", *flags, *module(program, path)]
