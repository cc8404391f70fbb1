"""`pullcord top` at a terminal of its own."""

import fcntl
import os
import pty
import struct
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from tests import nursery


class Tty:
    """A process whose terminal we are."""

    def __init__(self, *words: str, env: dict[str, str]) -> None:
        ours, theirs = pty.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self._fd = ours
        self.process = nursery.start(
            "pullcord",
            *words,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env=os.environ | {"TERM": "xterm-256color", "COLUMNS": "80", "LINES": "24"} | env,
            start_new_session=True,
        )
        os.close(theirs)
        self.said = ""

    def press(self, keys: str) -> None:
        """What it says from now on comes after this."""
        self.said = ""
        os.write(self._fd, keys.encode())

    def until(self, holds: Callable[[str], bool]) -> str:
        """Read on until it has said so. The test's own timeout is the bound."""
        while not holds(self.said):
            self.said += self._read()
        return self.said

    def _read(self) -> str:
        try:
            return os.read(self._fd, 65536).decode(errors="replace")
        except OSError as error:  # the other end is closed
            raise AssertionError(f"it has left, having said: {self.said[-2000:]}") from error

    def end(self) -> tuple[int, str]:
        while True:
            try:
                self.said += os.read(self._fd, 65536).decode(errors="replace")
            except OSError:
                return self.process.wait(), self.said

    def __enter__(self) -> "Tty":
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self._fd)


@contextmanager
def started(store: Path, *words: str, **env: str) -> Generator[Tty]:
    with Tty("top", "--store", str(store), "--by", "ana", *words, env=env) as tty:
        yield tty
