"""Child processes that a step has started itself, and all below them: asked to end, killed, named.

Each is held by a pidfd that was opened while its parent was known, or while it carried the mark of
the step, so a number that the kernel has given to another process is never signalled. A tool with
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

_LOOK_AGAIN: Final = 2  # what was forked while a list was read is in the next one


class ChildProcesses:
    """The living children of one step. May be used by any thread."""

    def __init__(self, mark: str = "") -> None:
        """`mark`: what they carry, and those too that have lost their parent."""
        self._mark = mark
        self._looks = _LOOK_AGAIN  # how often all processes of the machine are still looked at
        self._held: dict[int, tuple[int, str]] = {}  # pid → pidfd, and what it is called
        self._sessions: set[int] = set()
        self._lock = threading.Lock()

    def add(self, pid: int, *, is_ours: bool = True) -> None:
        """Hold a child of this process, from now on. `is_ours`: False: of a server that forks for
        it, which has just named it."""
        with self._lock:
            self._looks = _LOOK_AGAIN
            self._let_go_of_the_dead()
            if pid not in self._held:
                self._hold(pid, parent=os.getpid() if is_ours else 0)

    def look(self) -> None:
        """Find also those that have lost their parent: by their mark, among all processes. Nobody
        carries it but what somebody has started who does, so none is found after there was none."""
        with self._lock:
            while self._mark and self._looks:
                self._looks -= 1
                for pid in carriers(self._mark):
                    if pid not in self._held and self._hold(pid, parent=0, is_marked=True):
                        self._looks = _LOOK_AGAIN

    def send(self, number: signal.Signals) -> int:
        """Signal all of them, those below first found now. Return how many there were."""
        if number is signal.SIGKILL:  # the last word: nobody may be missed
            self._looks = _LOOK_AGAIN
            self.look()
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
        self._let_go_of_the_dead()

    def _let_go_of_the_dead(self) -> None:
        for pid in [pid for pid, (pidfd, _) in self._held.items() if _is_over(pidfd)]:
            os.close(self._held.pop(pid)[0])

    def _hold(self, pid: int, *, parent: int, is_marked: bool = False) -> bool:
        """`parent`: who it must be a child of, now that it cannot become another; 0: anybody."""
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
