"""The command in a real pseudo-terminal: keys in, and what stands on the screen out."""

import contextlib
import fcntl
import os
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from pathlib import Path

from tests import nursery
from tests.cli.terminal import Terminal
from tests.terminal.vt import Vt

AGENTS = Path(__file__).with_name("agents.py")
ESC, CTRL_C, CTRL_Z, ENTER = "\x1b", "\x03", "\x1a", "\r"
_AGAIN_S = 0.4  # so much longer than a held key repeats that a busy machine does not matter
_END = b"~ it has ended ~"
# What draws the bar: room made for it, and all that is drawn before the cursor is back in the text.
_BAR = re.compile(rb"(?:\x1bD)+\x1b\[\d+A|\x1b7.*?\x1b8", re.DOTALL)


class Tty:
    """One process at one terminal. `vt` is what a person sees, `raw` what was sent."""

    def __init__(
        self,
        start: "Callable[[int, int], subprocess.Popen[str]]",
        *,
        columns: int,
        rows: int,
        stdout: int | None,
    ) -> None:
        """`start` starts the process with this terminal, and this stdout."""
        self.vt = Vt(columns, rows)
        self.raw = b""
        self._keyboard, self.line = os.openpty()
        self.resize(columns, rows, tell=False)
        self.modes = termios.tcgetattr(self.line)
        self._pressed = "", 0.0  # the last key, and when
        self._news = threading.Condition()
        self._is_over = self._has_hung_up = False
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self.process = start(self.line, self.line if stdout is None else stdout)

    def _read(self) -> None:
        while not self._is_over:
            if not select.select([self._keyboard], [], [], 0.1)[0]:
                continue
            data = os.read(self._keyboard, 65536)
            with self._news:
                self.raw += data
                self.vt.feed(data)
                self._news.notify_all()

    @property
    def said(self) -> str:
        """What was sent, without the bar: it may be drawn in the middle of any word, so whoever
        looks for words in `raw` finds them on an idle machine only."""
        with self._news:
            return _BAR.sub(b"", self.raw).decode()

    def press(self, *keys: str) -> None:
        """As fast as they come; but nobody presses the same key again at once, which is what a
        keyboard does whose key is held down."""
        for key in keys:
            if key == self._pressed[0]:
                time.sleep(max(self._pressed[1] + _AGAIN_S - time.monotonic(), 0))
            os.write(self._keyboard, key.encode())
            self._pressed = key, time.monotonic()

    def hold(self, key: str, times: int) -> None:
        """Hold it down: a keyboard waits, and then sends it again and again. That comes in one
        piece: on a busy machine it could otherwise come as late as a second press does."""
        os.write(self._keyboard, key.encode())
        time.sleep(0.5)
        os.write(self._keyboard, key.encode() * times)

    def until(self, holds: Callable[[Vt], object]) -> str:
        """Wait until the screen is as it must become, and return it. The test's own timeout is the
        bound."""
        with self._news:
            while not holds(self.vt):
                if not self._news.wait(1.0) and self.process.poll() is not None:
                    assert holds(self.vt), f"it has ended, and shows:\n{self.vt.text}"
            return self.vt.text

    def press_until(self, key: str, *words: str) -> str:
        """Press it again and again: some keys count only after a while."""
        while True:
            self.press(key)
            with self._news:
                if self._news.wait_for(
                    lambda: all(word in self.vt.text for word in words), timeout=0.2
                ):
                    return self.vt.text
            assert self.process.poll() is None, self.vt.text

    def shows(self, *words: str) -> str:
        return self.until(lambda vt: all(word in vt.text for word in words))

    def resize(self, columns: int, rows: int, *, tell: bool = True) -> None:
        with self._news if tell else contextlib.nullcontext():
            size = struct.pack("HHHH", rows, columns, 0, 0)
            self.vt.resize(columns, rows)
            fcntl.ioctl(self.line, termios.TIOCSWINSZ, size)
        # The kernel tells the foreground of a controlling terminal; here it is asked by hand too,
        # because the ioctl came from outside of the session.
        if tell:
            self.process.send_signal(signal.SIGWINCH)

    def ended(self) -> int:
        """Wait for the process, and for all that it has sent."""
        status = self.process.wait()
        os.write(self.line, _END)  # behind everything that it has sent
        with self._news:
            self._news.wait_for(lambda: _END in self.raw)
        return status

    @property
    def is_as_it_was(self) -> bool:
        """The modes, and everything that a bar has switched."""
        ours = self.vt.modes - {"7", "25"}
        return termios.tcgetattr(self.line) == self.modes and not ours and "25" in self.vt.modes

    def hang_up(self) -> None:
        """Close the window: whoever reads or writes there finds nobody."""
        self._is_over = True
        self._reader.join()
        os.close(self.line)
        os.close(self._keyboard)
        self._has_hung_up = True

    def close(self) -> None:
        print(self.vt.text)  # seen only if the test fails
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        if not self._has_hung_up:
            self.hang_up()


class StoreWithTerminals(Terminal):
    """A store, and terminals in front of it."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.gates = folder / "gates"
        self.gates.mkdir()
        self.env |= {"TERM": "xterm-256color", "GATES": str(self.gates)}
        for name in ("NO_COLOR", "VISUAL", "EDITOR", "COLUMNS"):
            self.env.pop(name, None)

    def open_gate(self, name: str) -> None:
        """Let an agent go on that waits there."""
        (self.gates / name).touch()

    @contextmanager
    def tty(
        self,
        *words: str,
        columns: int = 80,
        rows: int = 24,
        stdout: int | None = None,
        **env: str,
    ) -> Generator[Tty]:
        """`pullcord` with these words, in a terminal of its own."""

        def start(line: int, stdout: int) -> "subprocess.Popen[str]":
            return nursery.start(
                "pullcord",
                *words,
                env=self.env | env,
                cwd=self.folder,
                stdin=line,
                stdout=stdout,
                stderr=line,
                has_terminal=True,
            )

        with closing(Tty(start, columns=columns, rows=rows, stdout=stdout)) as at:
            yield at

    @contextmanager
    def tty_of(self, *words: str, **env: str) -> Generator[Tty]:
        """A process that we may wait for: Python with these words, in a terminal of its own."""

        def start(line: int, stdout: int) -> "subprocess.Popen[str]":
            return subprocess.Popen(
                [sys.executable, "-c", nursery.AT_A_TERMINAL, *words],
                env=self.env | env,
                cwd=self.folder,
                stdin=line,
                stdout=stdout,
                stderr=line,
                text=True,
                start_new_session=True,
            )

        with closing(Tty(start, columns=80, rows=24, stdout=None)) as at:
            yield at


def agent(name: str) -> str:
    return f"{AGENTS}:{name}"
