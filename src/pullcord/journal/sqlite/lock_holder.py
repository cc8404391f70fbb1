"""Which process keeps others from writing to a SQLite file, as the kernel's list of locks says."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from pullcord.process import is_stopped

_LOCKS: Final = Path("/proc/locks")


def lock_holder(files: Iterable[Path]) -> int:
    """Return the process that holds a lock on the first of these files that somebody holds.

    0: nobody, or one that this process cannot see (of another container, say).
    """
    try:
        lines = [line.split() for line in _LOCKS.read_text().splitlines()]
    except OSError:
        return 0
    mine = str(os.getpid())
    for file in files:
        try:
            inode = str(file.stat().st_ino)
        except OSError:
            continue
        for _, _, _, kind, pid, where, *_ in (line for line in lines if len(line) == 8):
            is_held = kind == "WRITE" and where.rpartition(":")[2] == inode
            if is_held and pid not in (mine, "0", "-1"):
                return int(pid)
    return 0


def said_of(pid: int) -> tuple[str, str]:
    """Return who holds the file, as the end of a sentence, and what to do about it."""
    if not pid:
        return "", "Find who holds it (fuser, lsof), then send it again."
    if is_stopped(pid):
        still = f": process {pid}, which stands still, stopped by a signal"
        return still, f"Have it go on (kill -CONT {pid}) or end it, then send it again."
    return f": process {pid}", f"See what it does (ps {pid}), then send it again."
