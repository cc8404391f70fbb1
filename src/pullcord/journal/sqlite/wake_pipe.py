"""Telling other processes that there is something to read: one named pipe per listener.

A pipe, not a socket: a socket's path may have no more than 107 bytes, a pipe's may be as long as
the database's own. A poke is one byte; what has changed is read from the store.
"""

import contextlib
import errno
import os
import select
import stat
import threading
import time
from pathlib import Path
from typing import Final

_POKE: Final = b"."
_COARSE_NS: Final = 100_000_000


class WakePipe:
    """Hears pokes. Made in `folder`, removed on close; one left by a dead process is harmless."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / f"{os.getpid()}-{os.urandom(4).hex()}.wake"
        unborn = self._path.with_suffix(".new")
        os.mkfifo(unborn, 0o600)
        # Both ends: without a writer of our own the pipe would report "hung up" between pokes.
        self._fd = os.open(unborn, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC)
        # Named only now: a pipe that nobody reads yet would be taken for one left by the dead.
        unborn.rename(self._path)
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)

    def wait(self, timeout_s: float) -> bool:
        """Return True once poked; False after `timeout_s`. Pokes that piled up count as one."""
        if not self._poll.poll(max(0, round(timeout_s * 1000))):
            return False
        with contextlib.suppress(BlockingIOError):
            while len(os.read(self._fd, 4096)) == 4096:
                pass
        return True

    def wake(self) -> None:
        with contextlib.suppress(BlockingIOError):  # full of pokes: it will wake anyhow
            os.write(self._fd, _POKE)

    def close(self) -> None:
        with contextlib.suppress(FileNotFoundError):
            self._path.unlink()
        os.close(self._fd)


class WakeAll:
    """Pokes every listener in `folder`. Never blocks for long, never fails."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._seen_ns = -1
        self._settled = False
        self._pipes: dict[str, int] = {}
        self._lock = threading.Lock()

    def __call__(self) -> None:
        with self._lock:
            self._poke_all()

    def _poke_all(self) -> None:
        try:
            self._refresh()
        except OSError:
            return  # the folder is gone: listeners find the change by polling
        for name, fd in list(self._pipes.items()):
            try:
                os.write(fd, _POKE)
            except BlockingIOError:
                pass  # full of pokes: it will wake anyhow
            except OSError:  # its reader is gone
                self._forget(name)

    def _refresh(self) -> None:
        changed_ns = os.fstat(self._fd).st_mtime_ns
        if changed_ns == self._seen_ns and self._settled:
            return
        # A folder's time is coarse: a second change within one tick would look like none.
        self._seen_ns, self._settled = changed_ns, time.time_ns() - changed_ns > _COARSE_NS
        names = {name for name in os.listdir(self._fd) if name.endswith(".wake")}
        for name in self._pipes.keys() - names:
            self._forget(name)
        for name in names - self._pipes.keys():
            self._meet(name)

    def _meet(self, name: str) -> None:
        path = self._folder / name
        try:
            fd = os.open(path, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno == errno.ENXIO:  # nobody reads it: its process died without tidying up
                path.unlink(missing_ok=True)
            return
        if not stat.S_ISFIFO(os.fstat(fd).st_mode):  # whoever has put that there hears nothing
            os.close(fd)
            return
        self._pipes[name] = fd

    def _forget(self, name: str) -> None:
        os.close(self._pipes.pop(name))

    def close(self) -> None:
        with self._lock:
            for name in list(self._pipes):
                self._forget(name)
            os.close(self._fd)
