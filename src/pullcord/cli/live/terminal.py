"""The terminal itself: its modes, its signals, and everything that is printed while it has a bar.

What any code of this process prints goes into a pipe meanwhile, so that it can be made visible
and set above the bar. All of it is put back, whatever happens.
"""

import codecs
import contextlib
import os
import select
import signal
import sys
import termios
from collections.abc import Iterator
from typing import Any, Final

from pullcord.cli.render.text_width import LEAST_COLUMNS
from pullcord.core.text.visible import visible

_SIGNALS: Final = (
    signal.SIGWINCH,
    signal.SIGTSTP,
    signal.SIGCONT,
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
)
_DUMB: Final = ("", "dumb", "unknown")
_LOCAL: Final = 3  # of the list that termios has its modes in
_INPUT: Final = 0
_STDIN: Final = 0
_READ: Final = 65536


def is_live() -> bool:
    """Whether somebody sits there: a keyboard in front of us, and a terminal that can be moved
    about in."""
    shown = [fd for fd in (1, 2) if _is_tty(fd)]
    if not shown or not _is_tty(_STDIN) or os.environ.get("TERM", "") in _DUMB:
        return False
    return _is_ours()


def _is_tty(fd: int) -> bool:
    with contextlib.suppress(OSError):
        return os.isatty(fd)
    return False


def _is_ours() -> bool:
    """Whether we are in the foreground: in the background, touching the modes would stop us."""
    with contextlib.suppress(OSError):
        return os.tcgetpgrp(_STDIN) == os.getpgrp()
    return False


class Terminal:
    """Made and closed by the main thread; in between, used by the one that draws."""

    def __init__(self) -> None:
        self._printed = [fd for fd in (1, 2) if _is_tty(fd)]
        self._kept = {fd: os.dup(fd) for fd in self._printed}
        self._out = self._kept[self._printed[0]]
        self._modes: list[Any] = termios.tcgetattr(_STDIN)
        self._is_raw = False
        self._heard, self._hears = _pipe()
        self._news, self._pokes = _pipe()
        self._captured, self._captures = _pipe(is_patient=True)
        self._decoder = codecs.getincrementaldecoder("utf-8")("backslashreplace")
        self._before: dict[int, Any] = {}
        self._woke = -1
        self._poll = select.poll()
        for fd in (self._heard, self._news):
            self._poll.register(fd, select.POLLIN)

    @property
    def has_stdout(self) -> bool:
        """Whether standard output is this terminal, and not a file or a pipe."""
        return 1 in self._kept

    # --- signals: heard by a pipe, because the main thread may be held by an agent ---

    def listen(self) -> None:
        """Main thread only."""
        self._woke = signal.set_wakeup_fd(self._hears, warn_on_full_buffer=False)
        self._before = {number: signal.signal(number, _nothing) for number in _SIGNALS}

    def deaf(self) -> None:
        """Main thread only. Safe to call twice."""
        for number, handler in self._before.items():
            signal.signal(number, handler)
        if self._before:
            signal.set_wakeup_fd(self._woke)
        self._before = {}

    # --- modes, and what is printed ---

    def take(self) -> bool:
        """Take the keyboard key by key, and whatever is printed. False: it is not ours now."""
        if self._is_raw or not _is_ours():
            return self._is_raw
        self._modes = termios.tcgetattr(_STDIN)
        modes = termios.tcgetattr(_STDIN)
        modes[_LOCAL] &= ~(termios.ICANON | termios.ECHO | termios.ISIG | termios.IEXTEN)
        modes[_INPUT] &= ~termios.IXON
        termios.tcsetattr(_STDIN, termios.TCSADRAIN, modes)
        self._is_raw = True
        _flush()
        for fd in self._printed:
            os.dup2(self._captures, fd)
        for fd in (_STDIN, self._captured):
            self._poll.register(fd, select.POLLIN)
        return True

    def give(self) -> None:
        """Put everything back. Safe to call twice, from any thread."""
        if self._is_raw:
            self._is_raw = False
            for fd in (_STDIN, self._captured):
                self._poll.unregister(fd)
            _flush()
            for fd in self._printed:
                os.dup2(self._kept[fd], fd)
            if _is_ours():
                with contextlib.suppress(termios.error):  # it has hung up
                    termios.tcsetattr(_STDIN, termios.TCSADRAIN, self._modes)

    def size(self) -> tuple[int, int]:
        with contextlib.suppress(OSError):
            found = os.get_terminal_size(self._out)
            return max(found.columns, LEAST_COLUMNS), max(found.lines, 3)
        return 80, 24

    def write(self, text: str) -> None:
        data = text.encode("utf-8", "backslashreplace")
        with contextlib.suppress(OSError):  # it has hung up: nobody is there to read it
            while data:
                data = data[os.write(self._out, data) :]

    # --- waiting ---

    def poke(self) -> None:
        """Something has happened elsewhere. From any thread."""
        with contextlib.suppress(OSError):  # full of pokes, or closed
            os.write(self._pokes, b".")

    def wait(self, timeout_s: float) -> None:
        """Until a signal or news; while it is taken, also a key, or something printed."""
        with contextlib.suppress(InterruptedError):
            self._poll.poll(max(round(timeout_s * 1000), 0))
        _read(self._news)

    def pressed(self) -> bytes | None:
        """What the keyboard has sent. None: it is gone."""
        if not self._is_raw or not _is_readable(_STDIN):
            return b""
        with contextlib.suppress(OSError):
            return os.read(_STDIN, _READ) or None
        return None

    def signals(self) -> Iterator[int]:
        yield from _read(self._heard)

    def printed(self) -> str:
        """What was printed by whatever code, as it may be shown."""
        return visible(self._decoder.decode(_read(self._captured)))

    def close(self) -> None:
        """Main thread only."""
        self.give()
        self.deaf()
        pipes = (self._heard, self._hears, self._news, self._pokes, self._captured, self._captures)
        for fd in (*pipes, *self._kept.values()):
            os.close(fd)


def _pipe(*, is_patient: bool = False) -> tuple[int, int]:
    """`is_patient`: whoever writes waits until there is room."""
    reads, writes = os.pipe()
    os.set_blocking(reads, False)
    os.set_blocking(writes, is_patient)
    return reads, writes


def _read(fd: int) -> bytes:
    with contextlib.suppress(BlockingIOError):
        return os.read(fd, _READ)
    return b""


def _is_readable(fd: int) -> bool:
    return bool(select.select([fd], [], [], 0)[0])


def _flush() -> None:
    for file in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            file.flush()


def _nothing(_number: int, _frame: object) -> None:
    """Heard by way of the pipe."""
