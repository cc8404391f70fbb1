"""Which process is who, on this machine. A lease of a process that is dead need not run out.

A number of a process says something only where it was given: to the same kernel, since it was
started, in the same namespace. On every machine the first namespace has the same number, so the
kernel is named too: by the id of its boot.
"""

import os
import re
from pathlib import Path
from typing import Final

_NAME: Final = re.compile(r"p([0-9]+m[0-9a-f]{12})-([0-9]+)-([0-9]+)-[0-9a-f]+")
_PROC: Final = Path("/proc")
_BOOT: Final = _PROC / "sys/kernel/random/boot_id"


def new_owner() -> str:
    """Return a name for an owner in this process, by which others can tell whether it lives."""
    here = _where() or f"0m{os.urandom(6).hex()}"  # nobody can know, then
    return f"p{here}-{os.getpid()}-{_started(os.getpid()) or 0}-{os.urandom(3).hex()}"


def is_gone(owner: str) -> bool:
    """Whether this owner is certainly dead. False also when nobody here can know: another
    machine's, another container's, or one with a name of its own making."""
    named = _NAME.fullmatch(owner)
    if named is None or named[1] != _where():
        return False
    started = _started(int(named[2]))
    return started is None or started != int(named[3])


def is_here(owner: str) -> bool:
    """Whether this owner certainly lives, and its number means the same process to us."""
    named = _NAME.fullmatch(owner)
    if named is None or named[1] != _where():
        return False
    return int(named[3]) != 0 and _started(int(named[2])) == int(named[3])


def stands_still(owner: str) -> str:
    """Why the process of this owner does not move, if it certainly does not. Empty: nobody here
    can say that."""
    named = _NAME.fullmatch(owner)
    if named is None or not is_here(owner):
        return ""
    still = f"its process {named[2]} stands still, stopped by a signal"
    return still if is_stopped(int(named[2])) else ""


def is_stopped(pid: int) -> bool:
    """Whether a signal has stopped this process."""
    try:
        stat = (_PROC / str(pid) / "stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] in "Tt"


def _where() -> str:
    """The kernel and the namespace in which numbers of processes mean what they mean here. Empty:
    that cannot be told."""
    try:
        if os.readlink(_PROC / "self") != str(os.getpid()):
            return ""  # this /proc shows the numbers of another namespace
        boot = _BOOT.read_text().strip().replace("-", "")
        namespace = (_PROC / "self/ns/pid").stat().st_ino
    except OSError:
        return ""
    return f"{namespace}m{boot[:12]}"


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
