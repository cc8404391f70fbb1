"""The mark of a store: how the kill switch finds the processes of its tools without their warden.

Every process of a tool carries the mark in its environment, and in the name of its cgroup if it
has one. Both survive fork and exec, and the kernel tells them to other processes. A process that
clears its environment is found by its cgroup alone.
"""

import ctypes
import os
import re
import select
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from hashlib import sha256
from threading import Thread
from typing import Final, NamedTuple

from pullcord.process import is_gone

WARDEN: Final = "PULLCORD_WARDEN_OF"  # carried by a warden and its helpers
WORKER: Final = "PULLCORD_WORKER_OF"  # carried by a tool; of the same length: see `become_worker`
_ENVIRONMENT_MAX_BYTES: Final = 4 * 1024 * 1024
_END_S: Final = 1.5  # how long what was killed may take to die
_LOOK_S: Final = 0.02
_MOUNT: Final = re.compile(r"^\S+ \S+ \S+ (\S+) (\S+) .* - cgroup2 ", re.MULTILINE)
_GROUP: Final = re.compile(r"^0::(.*/pullcord-(p[^/]*)\.([0-9a-f]+))(?:/|$)", re.MULTILINE)


class Marked(NamedTuple):
    """A process of a tool. `owner`: the runtime or the warden that has started it."""

    pid: int
    owner: str
    group: str  # its cgroup of ours, as the kernel names it; empty: it is in none


class Ended(NamedTuple):
    """What became of the processes that carried a mark."""

    killed: list[int]
    survivors: list[int]
    is_known: bool = True  # False: the kernel did not tell in time


def mark_of(store: str) -> str:
    """The mark of the store at this path: the same for every path that leads to it, in every
    container. Empty: it has none, because its folder cannot be looked at."""
    folder, name = os.path.split(os.path.abspath(store)) if store else ("", "")
    try:
        found = os.stat(folder)
    except OSError:
        return ""
    return sha256(f"{found.st_dev}:{found.st_ino}:{name}".encode()).hexdigest()[:16]


def entry(mark: str, owner: str) -> str:
    """What a process carries: the mark, and who has started it."""
    return f"{mark}@{owner}" if mark else ""


def become_worker() -> None:
    """Turn the mark of a warden into that of a tool, in a process that was only forked: other
    processes see the environment that it was started with, so that is changed where it stands."""
    with suppress(OSError, ValueError, IndexError):
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        first, end = int(fields[47]), int(fields[48])
        at = ctypes.string_at(first, end - first).find(f"{WARDEN}=".encode())
        if first and at >= 0:
            ctypes.memmove(first + at, WORKER.encode(), len(WORKER))


def marked(mark: str) -> Iterator[Marked]:
    """Every process that carries this mark and can still do something."""
    for name in os.listdir("/proc"):
        if name.isdigit() and (found := _mark_on(int(name), mark)) and _is_alive(found.pid):
            yield found


def end_marked(mark: str, *, orphans_only: bool) -> Ended:
    """Kill every process that carries this mark, and see it die. `orphans_only`: those whose
    runtime or warden still lives are left to that.

    The kernel may take for ever to tell about a process that is stuck. Then that is said.
    """
    if not mark:
        return Ended([], [])
    killed: dict[int, None] = {}
    said: list[Ended] = []
    ending = Thread(target=lambda: said.append(_end(mark, orphans_only, killed)), daemon=True)
    ending.start()
    ending.join(_END_S * 2)
    return said[0] if said else Ended(list(killed), [], is_known=False)


def _end(mark: str, orphans_only: bool, killed: dict[int, None]) -> Ended:
    until, quiet = time.monotonic() + _END_S, 0
    while True:
        found = [
            one
            for one in marked(mark)
            if one.pid != os.getpid() and not (orphans_only and not is_gone(one.owner))
        ]
        quiet = 0 if found else quiet + 1
        if quiet == 2:  # what was forked while the list was read is in the next one
            return Ended(list(killed), [])
        if found and time.monotonic() > until:
            return Ended(list(killed), [one.pid for one in found])
        for group in {one.group for one in found} - {""}:
            _kill_group(group)
        poll, opened = select.poll(), list[int]()
        for one in found:
            if (pidfd := _kill(one, mark)) >= 0:
                killed[one.pid] = None
                opened.append(pidfd)
                poll.register(pidfd, select.POLLIN)
        if opened:
            poll.poll(_LOOK_S * 1000)
        for pidfd in opened:
            os.close(pidfd)


def _kill(one: Marked, mark: str) -> int:
    """Kill it, and return what to wait for. -1: it is gone, or its number is another's by now."""
    try:
        pidfd = os.pidfd_open(one.pid)
    except OSError:
        return -1
    if _mark_on(one.pid, mark) != one:  # read again, now that the number cannot be given away
        os.close(pidfd)
        return -1
    with suppress(OSError):
        signal.pidfd_send_signal(pidfd, signal.SIGKILL)
    return pidfd


def _kill_group(group: str) -> None:
    """Kill a cgroup as one: nothing in it can outrun that by forking."""
    with suppress(OSError), open("/proc/self/mountinfo") as file:
        for root, place in _MOUNT.findall(file.read()):
            below = group.removeprefix(root.rstrip("/"))
            with suppress(OSError), open(f"{place}{below}/cgroup.kill", "w") as kill:
                kill.write("1")


def _mark_on(pid: int, mark: str) -> Marked | None:
    group = _GROUP.search(_first(f"/proc/{pid}/cgroup", 64 * 1024).decode(errors="replace"))
    if group and group[3] == mark:
        return Marked(pid, group[2], group[1])
    for said in _first(f"/proc/{pid}/environ", _ENVIRONMENT_MAX_BYTES).split(b"\0"):
        if said.startswith(WORKER.encode() + b"="):
            for one in said.partition(b"=")[2].decode(errors="replace").split():
                whose, _, owner = one.partition("@")
                if whose == mark:
                    return Marked(pid, owner, "")
    return None


def _first(path: str, count: int) -> bytes:
    with suppress(OSError), open(path, "rb") as file:
        return file.read(count)
    return b""


def _is_alive(pid: int) -> bool:
    """Whether a thread of it can still do something: the first one may be over."""
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            state = _first(f"/proc/{pid}/task/{thread}/stat", 4096).rpartition(b")")[2].split()
            if state and state[0] not in (b"Z", b"X", b"x"):
                return True
    return False
