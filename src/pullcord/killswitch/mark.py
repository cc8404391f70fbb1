"""The mark of a store: how processes of its tools and steps are found without who started them.

Every process of a tool carries the mark in its environment, and in the name of its cgroup if it
has one. A child process of a step carries it in its environment, with the run and the step. All of
this survives fork and exec, and the kernel tells it to other processes. A process that clears its
environment is found by its cgroup alone.
"""

import ctypes
import mmap
import os
import re
import select
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from hashlib import sha256
from threading import Thread
from typing import Final, NamedTuple

from pullcord.process import is_gone

WARDEN: Final = "PULLCORD_WARDEN_OF"  # carried by a warden and its helpers
WORKER: Final = "PULLCORD_WORKER_OF"  # carried by a tool; of the same length: see `become_worker`
_ENVIRONMENT_MAX_BYTES: Final = 4 * 1024 * 1024
_STARTING_S: Final = 0.002
_QUIET_S: Final = 0.01  # between looks that see nobody
_QUIET_LOOKS: Final = 5  # so many of them, one after the other, until that is said
_END_S: Final = 1.5  # how long what was killed may take to die
_LOOK_S: Final = 0.02
_GRACE_S: Final = 0.5  # how long what a dead owner has left may take to end when it is asked to
_PR_SET_MM, _PR_SET_MM_MAP = 35, 14
_NO_FILE: Final = 0xFFFFFFFF
_libc: Final = ctypes.CDLL(None)
_libc.sbrk.restype = ctypes.c_void_p
_places: Final[list[mmap.mmap]] = []  # where the kernel reads our environment
_MOUNT: Final = re.compile(r"^\S+ \S+ \S+ (\S+) (\S+) .* - cgroup2 ", re.MULTILINE)
_GROUP: Final = re.compile(r"^0::(.*/pullcord-(p[^/]*)\.([0-9a-f]+))(?:/|$)", re.MULTILINE)


class Marked(NamedTuple):
    """A process of a tool or a step. `owner`: the runtime or the warden that has started it."""

    pid: int
    owner: str
    group: str  # its cgroup of ours, as the kernel names it; empty: it is in none
    run: str = ""  # whose step has started it; empty: it is of a process tool
    step: str = ""  # empty, with a run: it is of a pool, which serves whoever comes

    @property
    def is_of_a_pool(self) -> bool:
        return bool(self.run) and not self.step


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


def entry_of_step(of: str, run: str, step: str) -> str:
    """What a child process of a step carries. `of`: the entry of its runtime."""
    return f"{of}@{run}@{step}" if of else ""


def with_entry(marks: str, new: str) -> str:
    """The value of the variable `WORKER`: a process may work for several runtimes."""
    return " ".join(dict.fromkeys((*marks.split(), new)))


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


def carry(new: str) -> None:
    """Carry this entry, too, in a process that was only forked. Other processes see the environment
    at the place that the kernel knows, so the kernel is told of another place. One that was built
    without that (CONFIG_CHECKPOINT_RESTORE) leaves it as it is."""
    marks = os.environ[WORKER] = with_entry(os.environ.get(WORKER, ""), new)
    with suppress(OSError, ValueError, IndexError, AttributeError):
        with open("/proc/self/stat", "rb") as file:
            fields = [0, 0, 0, *file.read().rpartition(b")")[2].split()]  # as proc(5) counts them
        number = [int(one) if index > 3 else 0 for index, one in enumerate(fields)]
        before = ctypes.string_at(number[50], number[51] - number[50]).split(b"\0")
        kept = [one for one in before if one and not one.startswith(f"{WORKER}=".encode())]
        text = b"\0".join((*kept, f"{WORKER}={marks}".encode(), b""))
        place = mmap.mmap(-1, len(text), mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        place.write(text)
        start = ctypes.addressof(ctypes.c_char.from_buffer(place))
        areas = (ctypes.c_uint64 * 13)(
            *(number[26], number[27], number[45], number[46], number[47], _libc.sbrk(0)),
            *(number[28], number[48], number[49], start, start + len(text), 0, _NO_FILE << 32),
        )
        size = ctypes.c_ulong(ctypes.sizeof(areas))
        _libc.prctl(_PR_SET_MM, ctypes.c_ulong(_PR_SET_MM_MAP), ctypes.byref(areas), size, None)
        _places.append(place)


def marked(mark: str) -> list[Marked]:
    """Every process that carries this mark and can still do something. One that works for several
    is there several times."""
    return _looked_for(mark)[0]


def carries(pid: int, whole: str) -> bool:
    """Whether this process carries this entry."""
    environment = _first(f"/proc/{pid}/environ", _ENVIRONMENT_MAX_BYTES)
    return whole.encode() in environment and whole in _entries_in(environment)


def carriers(whole: str) -> list[int]:
    """The processes that carry this entry."""
    return [pid for pid in _numbers() if carries(pid, whole)]


def end_marked(mark: str, *, orphans_only: bool) -> Ended:
    """Kill every process that carries this mark, and see it die. `orphans_only`: those whose
    runtime or warden still lives are left to that; as those of a pool are, which also serves what
    has nothing to do with us.

    The kernel may take for ever to tell about a process that is stuck. Then that is said.
    """

    def is_wanted(one: Marked) -> bool:
        return not (orphans_only or one.is_of_a_pool) or is_gone(one.owner)

    killed: dict[int, Marked] = {}
    left = _within(_END_S * 2, lambda: _end(mark, is_wanted, killed)) if mark else []
    if left is None:
        return Ended(list(killed), [], is_known=False)
    return Ended(list(killed), list(dict.fromkeys(one.pid for one in left)))


def end_left(mark: str, runs: Collection[str]) -> dict[str, dict[str, tuple[str, ...]]]:
    """End what steps of these runs have left on this machine whose owner is dead: ask, wait a
    moment, kill. Return the names of what does not end, by run and step."""

    def is_wanted(one: Marked) -> bool:
        return one.run in runs and is_gone(one.owner)

    asked: dict[int, Marked] = {}
    bound_s = _GRACE_S + _END_S * 2
    left = _within(bound_s, lambda: _end(mark, is_wanted, asked, _GRACE_S)) if mark else []
    found: dict[str, dict[str, tuple[str, ...]]] = {}
    if left is None:  # the kernel does not tell in time; what was found until then may be there
        left = [one._replace(step="") for one in asked.values()]
    for one in left:
        steps = found.setdefault(one.run, {})
        steps[one.step] = (*steps.get(one.step, ()), name_of(one.pid))
    return found


def name_of(pid: int) -> str:
    """What it is called, without its arguments: a secret may be in them."""
    comm = _first(f"/proc/{pid}/comm", 64).decode(errors="replace").strip()
    return f"process {pid} ({comm or '?'})"


def _within(bound_s: float, ending: Callable[[], list[Marked]]) -> list[Marked] | None:
    said: list[list[Marked]] = []
    thread = Thread(target=lambda: said.append(ending()), daemon=True)
    thread.start()
    thread.join(bound_s)
    return said[0] if said else None


def _end(
    mark: str, is_wanted: Callable[[Marked], bool], told: dict[int, Marked], grace_s: float = 0.0
) -> list[Marked]:
    """End those that are wanted, and return who is left. `told`: who was signalled, so far."""
    kill_at, quiet = time.monotonic() + grace_s, 0
    while True:
        there, is_any_starting = _looked_for(mark)
        found = [one for one in there if one.pid != os.getpid() and is_wanted(one)]
        now = time.monotonic()
        if not found and is_any_starting and now <= kill_at + _END_S:
            time.sleep(_STARTING_S)  # what carries the mark may be among them
            continue
        quiet = 0 if found else quiet + 1
        if quiet == _QUIET_LOOKS or (found and now > kill_at + _END_S):
            return found  # (what was forked while a list was read is in the next one)
        if quiet:
            time.sleep(_QUIET_S)
            continue
        if now < kill_at:
            for one in found:
                if one.pid not in told and (pidfd := _signalled(one, mark, signal.SIGTERM)) >= 0:
                    told[one.pid] = one
                    os.close(pidfd)
            time.sleep(_LOOK_S if found else 0)
            continue
        for group in {one.group for one in found} - {""}:
            _kill_group(group)
        poll, opened = select.poll(), list[int]()
        for one in found:
            if (pidfd := _kill(one, mark)) >= 0:
                told[one.pid] = one
                opened.append(pidfd)
                poll.register(pidfd, select.POLLIN)
        if opened:
            poll.poll(_LOOK_S * 1000)
        for pidfd in opened:
            os.close(pidfd)


def _looked_for(mark: str) -> tuple[list[Marked], bool]:
    """Every process that carries this mark, and whether one is in the middle of an exec that may.

    That is asked of each process right where nothing was seen of it: one that goes from one program
    to the next could otherwise hide from every look in another of them.
    """
    found, is_any_starting = list[Marked](), False
    for number in _numbers():
        marks = _marks_on(number, mark)
        if not marks and _is_starting(number):
            is_any_starting = True
        elif marks or (marks := _marks_on(number, mark)):  # it may have been starting just before
            found += marks if _is_alive(number) else ()
    return found, is_any_starting


def _kill(one: Marked, mark: str) -> int:
    """Kill it, and return what to wait for. -1: it is gone, or its number is another's by now."""
    return _signalled(one, mark, signal.SIGKILL)


def _signalled(one: Marked, mark: str, number: signal.Signals) -> int:
    try:
        pidfd = os.pidfd_open(one.pid)
    except OSError:
        return -1
    if one not in _marks_on(one.pid, mark):  # read again: now the number cannot be given away
        os.close(pidfd)
        return -1
    with suppress(OSError):
        signal.pidfd_send_signal(pidfd, number)
    return pidfd


def _kill_group(group: str) -> None:
    """Kill a cgroup as one: nothing in it can outrun that by forking."""
    with suppress(OSError), open("/proc/self/mountinfo") as file:
        for root, place in _MOUNT.findall(file.read()):
            below = group.removeprefix(root.rstrip("/"))
            with suppress(OSError), open(f"{place}{below}/cgroup.kill", "w") as kill:
                kill.write("1")


def _marks_on(pid: int, mark: str) -> list[Marked]:
    group = _GROUP.search(_first(f"/proc/{pid}/cgroup", 64 * 1024).decode(errors="replace"))
    if group and group[3] == mark:
        return [Marked(pid, group[2], group[1])]
    found: list[Marked] = []
    environment = _first(f"/proc/{pid}/environ", _ENVIRONMENT_MAX_BYTES)
    for one in _entries_in(environment) if mark.encode() in environment else ():
        whose, owner, run, step = (*one.split("@"), "", "", "")[:4]
        if whose == mark:
            found.append(Marked(pid, owner, "", run, step))
    return found


def _entries_in(environment: bytes) -> list[str]:
    for said in environment.split(b"\0"):
        if said.startswith(WORKER.encode() + b"="):
            return said.partition(b"=")[2].decode(errors="replace").split()
    return []


def _first(path: str, count: int) -> bytes:
    with suppress(OSError), open(path, "rb") as file:
        return file.read(count)
    return b""


def _numbers() -> Iterator[int]:
    return (int(name) for name in os.listdir("/proc") if name.isdigit())


def _is_starting(pid: int) -> bool:
    """Whether it is in the middle of an exec: the kernel shows no environment of it yet."""
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            if file.read(1):
                return False
    except OSError:
        return False
    fields = _first(f"/proc/{pid}/stat", 4096).rpartition(b")")[2].split()
    # As proc(5) counts from 3: its state, its size (a thread of the kernel has none), `env_start`.
    if len(fields) <= 47 or fields[0] in (b"Z", b"X", b"x"):
        return False
    return fields[20] != b"0" and fields[47] == b"0"


def _is_alive(pid: int) -> bool:
    """Whether a thread of it can still do something: the first one may be over."""
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            state = _first(f"/proc/{pid}/task/{thread}/stat", 4096).rpartition(b")")[2].split()
            if state and state[0] not in (b"Z", b"X", b"x"):
                return True
    return False
