"""The child processes that a step has started, and all below them: found, stopped, killed, named.

A pidfd holds each of them. It was opened while the parent was known, or while the process carried
the step's mark. So a signal never reaches another process with a reused number. A tool with
`run_in="process"` needs none of this: the warden holds it.
"""

import os
import select
import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from pullcord.killswitch.mark import carriers, carries, name_of
from pullcord.warden.kernel import children_of

_LOOK_AGAIN: Final = 2  # children forked during one read are in the next one


class ChildProcesses:
    """The living child processes of one step. Any thread may use it."""

    def __init__(self, mark: str = "") -> None:
        """`mark`: the step's mark, which finds processes that have lost their parent too."""
        self._mark = mark
        self._looks = _LOOK_AGAIN  # how many more scans of all processes to make
        self._held: dict[int, tuple[int, str]] = {}  # pid → pidfd and name
        self._sessions: set[int] = set()
        self._lock = threading.Lock()

    def add(self, pid: int, *, is_ours: bool = True) -> None:
        """Hold a process from now on.

        `is_ours`: False for the child of a fork server, which has just named it.
        """
        with self._lock:
            self._looks = _LOOK_AGAIN
            self._let_go_of_the_dead()
            if pid not in self._held:
                self._hold(pid, parent=os.getpid() if is_ours else 0)

    def look(self) -> None:
        """Find marked processes that have lost their parent, among all processes.

        Only descendants of marked processes carry the mark. So after a scan that found none, no new
        ones appear.
        """
        with self._lock:
            while self._mark and self._looks:
                self._looks -= 1
                for pid in carriers(self._mark):
                    if pid not in self._held and self._hold(pid, parent=0, is_marked=True):
                        self._looks = _LOOK_AGAIN

    def send(self, number: signal.Signals) -> int:
        """Signal all of them, after a search for new descendants. Return how many there were."""
        if number is signal.SIGKILL:  # the last signal: none may be missed
            self._looks = _LOOK_AGAIN
            self.look()
        with self._lock:
            self._grow()
            for pidfd, _ in self._held.values():
                with suppress(OSError):
                    signal.pidfd_send_signal(pidfd, number)
            return len(self._held)

    def living(self) -> list[str]:
        """Return the names of the living ones, and drop the dead."""
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
        self._let_go_of_the_dead()

    def _let_go_of_the_dead(self) -> None:
        for pid in [pid for pid, (pidfd, _) in self._held.items() if _is_over(pidfd)]:
            os.close(self._held.pop(pid)[0])

    def _hold(self, pid: int, *, parent: int, is_marked: bool = False) -> bool:
        """Hold a process, if it still is the right one. `parent`: its expected parent; 0: any."""
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:
            return False
        fields = _stat(pid)
        is_another = bool(fields) and parent and int(fields[1]) != parent
        if is_marked and not carries(pid, self._mark):
            is_another = True
        if _is_over(pidfd) or not fields or is_another:
            os.close(pidfd)
            return False
        self._held[pid] = (pidfd, name_of(pid))
        if int(fields[3]) == pid:  # its children may lose their parent, but keep its session
            self._sessions.add(pid)
        return True

    def __del__(self) -> None:
        for pidfd, _ in self._held.values():
            with suppress(OSError):
                os.close(pidfd)


def children_of_this_thread() -> set[int]:
    """Return the children of the calling thread that are not yet collected."""
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
    """Return whether the process has ended, collected or not."""
    poll = select.poll()
    poll.register(pidfd, select.POLLIN)
    return bool(poll.poll(0))


def _stat(pid: int) -> list[bytes]:
    """Return state, parent, group, session and so on."""
    with suppress(OSError), open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()
    return []
