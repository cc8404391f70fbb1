"""Which process is who, on this machine. A lease of a process that is dead need not run out."""

import os
import re
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"p([0-9]+)-([0-9]+)-([0-9]+)-[0-9a-f]+")
_PROC: Final = Path("/proc")


def new_owner() -> str:
    """Return a name for an owner in this process, by which others can tell whether it lives."""
    return f"p{_namespace()}-{os.getpid()}-{_started(os.getpid()) or 0}-{os.urandom(3).hex()}"


def is_gone(owner: str) -> bool:
    """Whether this owner is certainly dead. False also when nobody here can know: another
    machine's, another container's, or one with a name of its own making."""
    named = _NAME.fullmatch(owner)
    if named is None or (here := _namespace()) == 0 or int(named[1]) != here:
        return False
    started = _started(int(named[2]))
    return started is None or started != int(named[3])


def is_here(owner: str) -> bool:
    """Whether this owner certainly lives, and its number means the same process to us."""
    named = _NAME.fullmatch(owner)
    if named is None or (here := _namespace()) == 0 or int(named[1]) != here:
        return False
    return int(named[3]) != 0 and _started(int(named[2])) == int(named[3])


def _namespace() -> int:
    try:
        return (_PROC / "self/ns/pid").stat().st_ino
    except OSError:
        return 0


def _started(pid: int) -> int | None:
    """When the process began, in clock ticks since boot. None: there is none, or it is a corpse."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return None
    except OSError:
        return 0  # there, and not ours to look at
    fields = stat.rpartition(")")[2].split()
    return None if fields[0] in "ZX" else int(fields[19])
