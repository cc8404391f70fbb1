"""Child processes that a step has started itself, and all below them: asked to end, killed, named.

Each is held by a pidfd that was opened while its parent was known, so a number that the kernel has
given to another process is never signalled. A tool with `run_in="process"` needs none of this: the
warden holds it.
"""

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from pullcord.warden.kernel import children_of

_NAME_CHARS: Final = 40


class ChildProcesses:
    """The living children of one step. May be used by any thread."""

    def __init__(self) -> None:
        self._held: dict[int, tuple[int, str]] = {}  # pid → pidfd, and what it is called
        self._sessions: set[int] = set()
        self._lock = threading.Lock()

    def add(self, pid: int) -> None:
        """Hold a child of this process."""
        with self._lock:
            if pid not in self._held:
                self._hold(pid, parent=os.getpid())

    def send(self, number: signal.Signals) -> int:
        """Signal all of them, those below first found now. Return how many there were."""
        with self._lock:
            self._grow()
            for pidfd, _ in self._held.values():
                with suppress(OSError):
                    signal.pidfd_send_signal(pidfd, number)
            return len(self._held)

    def living(self) -> list[str]:
        """Their names. Those that have ended are let go of, and nobody asks for them again."""
        with self._lock:
            self._grow()
            return [name for _, name in self._held.values()]

    def _grow(self) -> None:
        todo = list(self._held)
        while todo:
            pid = todo.pop()
            for child in children_of(pid):
                if child not in self._held and self._hold(child, parent=pid):
                    todo.append(child)
        for pid in _members_of(self._sessions) if self._sessions else ():
            if pid not in self._held:
                self._hold(pid, parent=0)
        for pid in [pid for pid, (pidfd, _) in self._held.items() if _is_over(pidfd)]:
            os.close(self._held.pop(pid)[0])

    def _hold(self, pid: int, *, parent: int) -> bool:
        """`parent`: who it must be a child of, now that it cannot become another; 0: anybody."""
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return False
        fields = _stat(pid)
        if _is_over(pidfd) or not fields or (parent and int(fields[1]) != parent):
            os.close(pidfd)
            return False
        self._held[pid] = (pidfd, f"process {pid} ({_name(pid)})")
        if int(fields[3]) == pid:  # what it starts may lose its parent, but not its session
            self._sessions.add(pid)
        return True

    def __del__(self) -> None:
        for pidfd, _ in self._held.values():
            with suppress(OSError):
                os.close(pidfd)


def children_of_this_thread() -> set[int]:
    """The children that the calling thread has forked and nobody has collected."""
    with (
        suppress(OSError),
        open(f"/proc/self/task/{threading.get_native_id()}/children", "rb") as file,
    ):
        return {int(child) for child in file.read().split()}
    return set()


def _members_of(sessions: set[int]) -> Iterator[int]:
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = _stat(int(name))
            if fields and int(fields[3]) in sessions:
                yield int(name)


def _is_over(pidfd: int) -> bool:
    """Whether it has ended, collected or not."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def _stat(pid: int) -> list[bytes]:
    """State, parent, group, session and so on."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()
    return []


def _name(pid: int) -> str:
    """The program, without its arguments: a secret may be in them."""
    with suppress(OSError), open(f"/proc/{pid}/comm", "rb") as file:
        return file.read().decode(errors="replace").strip()[:_NAME_CHARS]
    return "?"
