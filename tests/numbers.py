"""Numbers of processes. A tool is in a PID namespace of its own where there can be one, and knows
itself by another number than we do."""

import os
from contextlib import suppress
from pathlib import Path


def outside(pid: int) -> int:
    """Return the number by which this process knows one of its descendants that calls itself
    `pid`. That one is alive."""
    [found] = {number for number in _below(os.getpid()) if _called_by_itself(number) == pid}
    return found


def _below(pid: int) -> set[int]:
    found: set[int] = set()
    todo = [pid]
    while todo:
        for task in Path(f"/proc/{todo.pop()}/task").glob("*/children"):
            with suppress(OSError):
                children = {int(child) for child in task.read_text().split()} - found
                found |= children
                todo += children
    return found


def _called_by_itself(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return 0
