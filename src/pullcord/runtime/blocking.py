"""Names code that holds the event loop, by file and line, while it holds it.

A loop carries out one callback at a time. A thread looks a few times a second, only while runs
are driven, which one it is in: if that stays the same for too long, the code on top of its stack
holds the loop. Nothing is asked of the loop, so a healthy one notices nothing, and a long queue
of short callbacks is nobody's fault.

Controls are answered meanwhile, by other threads. What cannot be seen: code in C that holds the
interpreter's lock, because it holds this thread too; and loops that are not asyncio's own.
"""

import asyncio
import logging
import os
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from hashlib import sha256
from types import FrameType
from typing import Any, Final, NamedTuple, TypeAlias

from pullcord.core.events import AttentionRaised
from pullcord.errors import JournalClosed, PullcordError
from pullcord.journal.journal import Journal

_log: Final = logging.getLogger("pullcord.runtime")
_CALLBACK: Final = asyncio.Handle._run.__code__  # pyright: ignore[reportPrivateUsage,reportAttributeAccessIssue,reportUnknownMemberType,reportUnknownVariableType]
_INSTEAD: Final = (
    "Make it async, or a plain `def` called with ctx.tool, which has a process of its own."
)
_LOOKS: Final = 3  # so many in a row before a callback is called too long
_OURS: Final = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_LIBRARIES: Final = ("stdlib", "platstdlib", "purelib", "platlib")
_OTHERS: Final = ("<", _OURS, *(sysconfig.get_path(name) + os.sep for name in _LIBRARIES))

Whose: TypeAlias = "Callable[[asyncio.Task[Any]], tuple[str, str] | None]"
"""The run that a task works for, and the step of it; None: none that is driven here."""


class Place(NamedTuple):
    """Where code is."""

    path: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} in {self.function}"


class Watchman:
    """Watches the loop of one runtime. `after_s`: how long a callback may last; 0: for ever."""

    def __init__(self, journal: Journal, whose: Whose, *, after_s: float) -> None:
        self._journal, self._whose, self._after_s = journal, whose, after_s
        self._driven = 0
        self._is_driving = threading.Event()
        self._is_closed = threading.Event()
        self._thread: threading.Thread | None = None

    @contextmanager
    def watching(self) -> Generator[None]:
        """A run is driven in this loop, while inside."""
        loop = asyncio.get_running_loop()
        if self._after_s and self._thread is None and isinstance(loop, asyncio.BaseEventLoop):
            look = Look(threading.get_ident(), self._after_s, lambda: self._doing(loop), self._says)
            self._thread = threading.Thread(
                target=self._watch, args=(look,), name="pullcord-watchman", daemon=True
            )
            self._thread.start()
        self._driven += 1
        self._is_driving.set()
        try:
            yield
        finally:
            self._driven -= 1
            if not self._driven:
                self._is_driving.clear()

    def close(self) -> None:
        self._is_closed.set()
        self._is_driving.set()

    # --- in its own thread ---

    def _watch(self, look: "Look") -> None:
        while not self._is_closed.wait(look.every_s):
            look.once()
            if not self._is_driving.is_set():
                look.forget()
                self._is_driving.wait()

    def _doing(self, loop: asyncio.AbstractEventLoop) -> tuple[str, str]:
        """The run, and the step of it, that the loop is busy with, as far as that is known."""
        task = asyncio.current_task(loop)
        return (self._whose(task) if task else None) or ("", "")

    def _says(self, run_id: str, place: Place, text: str) -> None:
        """Say it to whoever reads the log, and to whoever looks at the run."""
        _log.warning("%s", f"Run {run_id}: {text}" if run_id else text)
        if run_id:
            item = "held-loop-" + sha256(f"{place.path} {place.function}".encode()).hexdigest()[:10]
            raised = AttentionRaised(item=item, kind="other", text=text)
            try:
                asyncio.run(self._journal.remark(run_id, raised))  # a loop of this thread's own
            except JournalClosed:
                pass  # the runtime is being closed; the log has it
            except PullcordError as error:  # a full disk, say
                _log.warning("Run %s could not be told that its loop is held: %s", run_id, error)


class Look:
    """What is seen of a loop, by looking at its thread every `every_s`.

    `doing` tells the run and the step that the loop is busy with; `says` is told what is named.
    """

    def __init__(
        self,
        thread: int,
        after_s: float,
        doing: Callable[[], tuple[str, str]],
        says: Callable[[str, Place, str], None],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.every_s = after_s / _LOOKS
        self._thread, self._after_s, self._doing, self._says = thread, after_s, doing, says
        self._now = now
        self._looked_s = now()
        self._callback: FrameType | None = None
        self._held_s = 0.0
        self._named: tuple[str, Place] | None = None
        self._longest_s: dict[tuple[str, str, str], float] = {}  # by run and place

    def once(self) -> None:
        """See which callback the loop is in, and how long it has been."""
        passed_s = self._now() - self._looked_s
        self._looked_s += passed_s
        top = sys._current_frames().get(self._thread)  # pyright: ignore[reportPrivateUsage]
        callback = _callback_of(top)
        if callback is not self._callback:
            self._is_over()
            self._callback = callback
        elif callback is not None and top is not None:
            # A process that was stopped, or a machine that slept, is nobody's fault: time in which
            # this thread was not awake either counts as one look.
            is_late = passed_s >= _LOOKS * self.every_s
            self._held_s += self.every_s if is_late else passed_s
            if self._held_s >= self._after_s and self._named is None:
                self._name(_place_of(top, callback))

    def forget(self) -> None:
        """Nothing is driven any more."""
        self._is_over()
        self._callback = None
        self._longest_s.clear()

    def _name(self, place: Place) -> None:
        """Say it once for each place in each run; again only if it takes twice as long."""
        run_id, step = self._doing()
        if self._held_s < 2 * self._longest_s.get((run_id, place.path, place.function), 0.0):
            return
        self._named = (run_id, place)
        of = f" (step {step!r})" if step else ""
        text = (
            f"{place} holds the event loop{of}, for {self._held_s:.1f} s so far. Controls are "
            f"still answered and recorded; nothing else goes on in this process. {_INSTEAD}"
        )
        self._says(run_id, place, text)

    def _is_over(self) -> None:
        if self._named is not None:
            run_id, place = self._named
            self._longest_s[run_id, place.path, place.function] = self._held_s
            text = f"{place} held the event loop for {self._held_s:.1f} s. {_INSTEAD}"
            self._says(run_id, place, text)
        self._named, self._held_s = None, 0.0


def _callback_of(frame: FrameType | None) -> FrameType | None:
    """The callback that a loop is in, by what is on its thread's stack. None: it waits for one."""
    while frame is not None and frame.f_code is not _CALLBACK:
        frame = frame.f_back
    return frame


def _place_of(top: FrameType, callback: FrameType) -> Place:
    """Where the code is that holds the loop: the innermost that is neither ours nor a library's."""
    frame: FrameType | None = top
    while frame is not None and frame is not callback:
        path = frame.f_code.co_filename
        if not path.startswith(_OTHERS):
            return _place(frame)
        frame = frame.f_back
    return _place(top)


def _place(frame: FrameType) -> Place:
    code = frame.f_code
    return Place(code.co_filename, frame.f_lineno or code.co_firstlineno, code.co_qualname)
