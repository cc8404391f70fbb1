"""Who is alive, by the kernel's word alone.

A process is told by a directory, its den: it works there, has a file of it open or mapped, or was
started with its name. Not one of these marks is of the making of the code under test, and nobody
sheds all of them by a fork, an exec, a new session, another user or the loss of its descriptors.
"""

import asyncio
import os
import re
import signal
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from typing import Final

LOOK_S: Final = 0.005
_CORPSES: Final = ("Z", "X", "x", "")


def living(den: str) -> set[int]:
    """Every process of this den that can still do something. Corpses cannot."""
    return {pid for pid in _processes() if _has_mark(pid, den.encode())}


def worked_ns(pids: Iterable[int]) -> int:
    """How long all their threads have been on a processor."""
    return sum(
        int((_read(f"/proc/{pid}/task/{thread}/schedstat").split() or [b"0"])[0])
        for pid in pids
        for thread in _live_threads(pid)
    )


def alive(pids: Iterable[int]) -> set[int]:
    """Those of them that can still do something."""
    return {pid for pid in pids if any(True for _ in _live_threads(pid))}


def standing(den: str) -> set[int]:
    """Those in the den that somebody has stopped."""
    return {pid for pid in living(den) if {state for _, state in _threads(pid)} == {"T"}}


async def gone(den: str, bound_s: float = 10) -> set[int]:
    """Wait until the den is empty. Return who is left of it when the bound is reached."""
    await until(lambda: not living(den), bound_s)
    return living(den)


async def until(holds: Callable[[], bool], bound_s: float = 10) -> bool:
    """Look again and again, within a bound. Return whether it holds in the end."""
    end = time.monotonic() + bound_s
    while not holds() and time.monotonic() < end:  # noqa: ASYNC110 (only the kernel knows)
        await asyncio.sleep(LOOK_S)
    return holds()


def rid(den: str) -> set[int]:
    """Kill what a failed test has left in its den, and say who it was."""
    left = living(den)
    for pid in left:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    return left


def below(ancestor: int) -> set[int]:
    """Everybody alive who descends from a process."""
    children: dict[int, set[int]] = {}
    for pid in _processes():
        children.setdefault(_parent(pid), set()).add(pid)
    found, todo = set[int](), {ancestor}
    while todo:
        todo = set[int]().union(*(children.get(pid, set()) for pid in todo)) - found
        found |= todo
    return found


def above(pid: int, top: int) -> list[int]:
    """Who stands between a process and one that it descends from: its parent first."""
    line = [_parent(pid)]
    while line[-1] not in (top, 0):
        line.append(_parent(line[-1]))
    assert line[-1] == top
    return line[:-1]


def cgroups_of(pids: Iterable[int]) -> list[str]:
    """The cgroups that one of these has made, wherever cgroups are."""
    mounts = [line.split() for line in _read("/proc/self/mountinfo").decode().splitlines()]
    tops = [fields[4] for fields in mounts if "cgroup2" in fields]
    names = re.compile("/pullcord-p[0-9a-z]+-([0-9]+)-")
    made_by = {str(pid) for pid in pids}
    places = [place for top in tops for place, _, _ in os.walk(top)]
    return [place for place in places if made_by & set(names.findall(place))]


# --- reading /proc ---


def _processes() -> Iterator[int]:
    """Everybody alive who may be of a test of ours: nobody who was there before us, and nobody
    whom a worker beside us has started. (Its browser alone would take longer to look at than
    everything else.)"""
    stats = {
        int(name): _stat(f"/proc/{name}/stat") for name in os.listdir("/proc") if name.isdigit()
    }
    me, parents = os.getpid(), {pid: int(stat[1]) for pid, stat in stats.items() if len(stat) > 19}
    above = os.getppid() if "PYTEST_XDIST_WORKER" in os.environ else -1
    beside = {pid for pid, parent in parents.items() if parent == above and pid != me}
    for pid in parents:
        if pid != me and int(stats[pid][19]) >= _MINE and not _descends(pid, beside, parents):
            yield from {pid for _ in _live_threads(pid)}


def _descends(pid: int, tops: set[int], parents: dict[int, int]) -> bool:
    while pid and pid not in tops:
        pid = parents.get(pid, 0)
    return pid in tops


def _born(pid: int) -> int:
    fields = _stat(f"/proc/{pid}/stat")
    return int(fields[19]) if len(fields) > 19 else -1


def _parent(pid: int) -> int:
    fields = _stat(f"/proc/{pid}/stat")
    return int(fields[1]) if fields else 0


def _live_threads(pid: int) -> Iterator[str]:
    """Its threads, not its state: what has lost its first thread looks like a corpse."""
    return (thread for thread, state in _threads(pid) if state not in _CORPSES)


def _threads(pid: int) -> Iterator[tuple[str, str]]:
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            yield thread, (_stat(f"/proc/{pid}/task/{thread}/stat") or [""])[0]


def _has_mark(pid: int, mark: bytes) -> bool:
    for thread in _live_threads(pid):
        place = f"/proc/{pid}/task/{thread}"
        if any(mark in what for what in _marks(place)):
            return True
    return False


def _marks(place: str) -> Iterator[bytes]:
    yield _link(f"{place}/cwd")
    yield _read(f"{place}/cmdline")
    yield _read(f"{place}/environ")
    with suppress(OSError):
        for fd in os.listdir(f"{place}/fd"):
            yield _link(f"{place}/fd/{fd}")
    yield _read(f"{place}/maps")


def _stat(path: str) -> list[str]:
    """What stands behind the name of the program: the state, the parent, and so on."""
    return _read(path).rpartition(b")")[2].decode().split()


def _read(path: str) -> bytes:
    with suppress(OSError), open(path, "rb") as file:
        return file.read()
    return b""


def _link(path: str) -> bytes:
    with suppress(OSError):
        return os.readlink(path).encode()
    return b""


_MINE: Final = _born(os.getpid())
