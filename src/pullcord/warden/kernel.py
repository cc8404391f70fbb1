"""What the kernel offers for holding on to processes, and what Python has no name for."""

import ctypes
import os
import signal
from collections.abc import Collection, Iterable
from contextlib import suppress
from typing import Final

_PR_SET_PDEATHSIG: Final = 1
_PR_SET_CHILD_SUBREAPER: Final = 36
_CLONE_NEWNS: Final = 0x00020000
_CLONE_NEWUSER: Final = 0x10000000
_CLONE_NEWPID: Final = 0x20000000
_MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 0x2, 0x4, 0x8
_MS_REC, _MS_PRIVATE = 0x4000, 0x40000
_libc: Final = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """From here on, orphans among this process's descendants become its children."""
    _must(_libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(PR_SET_CHILD_SUBREAPER)")


def die_with_parent(parent: int | None = None) -> None:
    """Be killed when the parent dies. `parent`: who it should be; it may be gone already."""
    _must(_libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0), "prctl(PR_SET_PDEATHSIG)")
    if parent is not None and os.getppid() != parent:
        os._exit(1)


def enter_new_pid_namespace() -> None:
    """The next child is the first process of a world of its own, which ends with it."""
    if os.geteuid() == 0 and _libc.unshare(_CLONE_NEWPID) == 0:
        return
    uid, gid = os.geteuid(), os.getegid()
    _must(_libc.unshare(_CLONE_NEWUSER | _CLONE_NEWPID), "unshare")
    with suppress(OSError):
        _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{uid} {uid} 1")
    _write("/proc/self/gid_map", f"{gid} {gid} 1")


def show_own_numbers() -> None:
    """Let `/proc` show the processes of the namespace whose first process this is, by the numbers
    that they have there; other mounts stay shared. Where that is not allowed, it stays as it is."""
    if _libc.unshare(_CLONE_NEWNS) == 0 and _mount(b"none", b"", _MS_PRIVATE | _MS_REC) == 0:
        _mount(b"proc", b"proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def _mount(what: bytes, kind: bytes, flags: int) -> int:
    return _libc.mount(what, b"/proc", kind or None, ctypes.c_ulong(flags), None)


def close_all_but(keep: Collection[int]) -> None:
    """Close every descriptor that is not to be kept, nor one of the first three."""
    wanted = {0, 1, 2, *keep}
    for name in os.listdir("/proc/self/fd"):
        if int(name) not in wanted:
            with suppress(OSError):
                os.close(int(name))


def reset_signals() -> None:
    """Signals mean again what they mean to a new program."""
    signal.set_wakeup_fd(-1)
    for name in ("SIGCHLD", "SIGTERM", "SIGINT", "SIGHUP", "SIGPIPE", "SIGALRM"):
        signal.signal(signal.Signals[name], signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])


def wake_when_a_child_dies() -> int:
    """Return a descriptor that can be read from whenever a child has died."""
    signal.signal(signal.SIGCHLD, _nothing)
    woken, wake = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake)
    return woken


def collect_the_dead(woken: int) -> None:
    with suppress(BlockingIOError):
        os.read(woken, 4096)
    with suppress(ChildProcessError):
        while (heard := os.waitpid(-1, os.WNOHANG | os.WUNTRACED))[0]:
            if os.WIFSTOPPED(heard[1]):  # a tool has stopped its holder, which is to go on
                send([heard[0]], signal.SIGCONT)


def _nothing(_number: int, _frame: object) -> None:
    pass


def send(pids: Iterable[int], number: signal.Signals) -> None:
    for pid in pids:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def states_of(pid: int) -> set[str]:
    """The kernel's letters for what its threads are doing, the dead ones apart. A process whose
    first thread is over has the state of a corpse, and is none."""
    found: set[str] = set()
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with (
                suppress(OSError, IndexError),
                open(f"/proc/{pid}/task/{thread}/stat", "rb") as file,
            ):
                found.add(file.read().rpartition(b")")[2].split()[0].decode())
    return found - {"Z", "X", "x"}


def is_alive(pid: int) -> bool:
    """Whether it can still do something: a corpse that nobody has collected cannot."""
    return bool(states_of(pid))


def is_still(pid: int) -> bool:
    """Whether it is stopped. What waits in vfork for a stopped child is as good as that: it is
    stopped itself before it comes back."""
    states = states_of(pid) - {"T", "t"}
    if states != {"D"}:
        return not states
    return _stop_is_pending(pid) and any(
        states_of(child) <= {"T", "t"} for child in children_of(pid)
    )


def _stop_is_pending(pid: int) -> bool:
    with suppress(OSError, StopIteration), open(f"/proc/{pid}/status") as file:
        pending = next(line for line in file if line.startswith("ShdPnd:"))
        return bool(int(pending.split()[1], 16) >> (signal.SIGSTOP - 1) & 1)
    return False


def children_of(pid: int | str) -> list[int]:
    found: list[int] = []
    with suppress(OSError):
        for thread in os.listdir(f"/proc/{pid}/task"):
            with suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb") as file:
                found += [int(child) for child in file.read().split()]
    return found


def descendants_of(pid: int) -> set[int]:
    """Everything below a process that is alive. What forks meanwhile may be missing."""
    found: set[int] = set()
    todo = children_of(pid)
    while todo:
        child = todo.pop()
        if child not in found:
            found.add(child)
            todo += children_of(child)
    return {child for child in found if is_alive(child)}


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


def _must(result: int, what: str) -> None:
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
