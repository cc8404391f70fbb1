"""Names code that holds the event loop, by file and line, while it holds it.

A thread looks a few times a second, only while runs are driven, whether the loop is still in the
callback of the last look: if so for too long, the code on top of its stack holds the loop. A
healthy one has a few callbacks a second more to carry out; a long queue of short ones is nobody's
fault.

Controls are answered meanwhile, by other threads. What cannot be seen: code in C that holds the
interpreter's lock, because it holds this thread too; and loops that are not asyncio's own.
"""

import asyncio
import logging
import os
import sysconfig
import threading
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from hashlib import sha256
from typing import Any, Final, TypeAlias

from pullcord.core.events import AttentionRaised
from pullcord.errors import JournalClosed, PullcordError
from pullcord.journal.journal import Journal
from pullcord.runtime.watching.loop_probe import CodePlace, LoopProbe

_log: Final = logging.getLogger("pullcord.runtime")
_INSTEAD: Final = (
    "Make it async, or a plain `def` called with ctx.tool, which has a process of its own."
)
_LOOKS: Final = 3  # so many in a row before a callback is called too long
_OURS: Final = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep
_LIBRARIES: Final = ("stdlib", "platstdlib", "purelib", "platlib")
_OTHERS: Final = ("<", _OURS, *(sysconfig.get_path(name) + os.sep for name in _LIBRARIES))

Whose: TypeAlias = "Callable[[asyncio.Task[Any]], tuple[str, str] | None]"
"""The run that a task works for, and the step of it; None: none that is driven here."""


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
            probe = LoopProbe(loop, threading.get_ident())
            look = LoopCheck(probe, self._after_s, lambda: self._doing(loop), self._says)
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

    def _watch(self, look: "LoopCheck") -> None:
        while not self._is_closed.wait(look.every_s):
            look.once()
            if not self._is_driving.is_set():
                look.forget()
                self._is_driving.wait()

    def _doing(self, loop: asyncio.AbstractEventLoop) -> tuple[str, str]:
        """The run, and the step of it, that the loop is busy with, as far as that is known."""
        task = asyncio.current_task(loop)
        return (self._whose(task) if task else None) or ("", "")

    def _says(self, run_id: str, place: CodePlace, text: str) -> None:
        """Say it to whoever reads the log, and to whoever looks at the run."""
        _log.warning("%s", f"Run {run_id}: {text}" if run_id else text)
        if run_id:
            item = "held-loop-" + sha256(f"{place.path} {place.function}".encode()).hexdigest()[:10]
            raised = AttentionRaised(item=item, kind="other", text=text)
            try:
                remark = self._journal.witness.remark(run_id, raised)
                asyncio.run(remark)  # a loop of this thread's own
            except JournalClosed:
                pass  # the runtime is being closed; the log has it
            except PullcordError as error:  # a full disk, say
                _log.warning("Run %s could not be told that its loop is held: %s", run_id, error)


class LoopCheck:
    """What is seen of a loop, by feeling its pulse every `every_s`.

    `doing` tells the run and the step that the loop is busy with; `says` is told what is named.
    """

    def __init__(
        self,
        probe: LoopProbe,
        after_s: float,
        doing: Callable[[], tuple[str, str]],
        says: Callable[[str, CodePlace, str], None],
        *,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.every_s = after_s / _LOOKS
        self._probe, self._after_s, self._doing, self._says = probe, after_s, doing, says
        self._now = now
        self._looked_s = now()
        self._next: object = None  # what the loop would come to after what it is in
        self._held_s = 0.0
        self._named: tuple[str, CodePlace] | None = None
        self._longest_s: dict[tuple[str, str, str], float] = {}  # by run and place

    def once(self) -> None:
        """See whether the loop is in the same callback as before, and for how long."""
        passed_s = self._now() - self._looked_s
        self._looked_s += passed_s
        coming = self._probe.next()
        if coming is not self._next:
            self._is_over()
            self._next = coming
        elif coming is not None:
            # A process that was stopped, or a machine that slept, is nobody's fault: time in which
            # this thread was not awake either counts as one look.
            is_late = passed_s >= _LOOKS * self.every_s
            self._held_s += self.every_s if is_late else passed_s
            is_too_long = self._held_s >= self._after_s and self._named is None
            if is_too_long and (place := _blamed(self._probe.inside())):
                self._name(place)

    def forget(self) -> None:
        """Nothing is driven any more."""
        self._is_over()
        self._next = None
        self._longest_s.clear()

    def _name(self, place: CodePlace) -> None:
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


def _blamed(inside: list[CodePlace]) -> CodePlace | None:
    """Whose code holds the loop: the innermost that is neither ours nor a library's, if any is."""
    theirs = (place for place in inside if not place.path.startswith(_OTHERS))
    return next(theirs, inside[0] if inside else None)
