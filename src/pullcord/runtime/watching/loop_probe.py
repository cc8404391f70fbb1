"""Whether an event loop gets on, and where it is if it does not, as another thread can tell.

A loop carries out its callbacks one by one, from a queue. It is asked for a sign of life; while
that waits in the queue, what stands first in it changes with every callback that is done. So one
look at the first tells whether the loop is still in the callback of the last look.

Not by the frames of its thread: to walk those of code that runs has crashed whole interpreters
(CPython 3.11 in `frame.f_back`), and no watchman may do that to a healthy process. Where a loop
is that stands still is written down by `faulthandler`, in one piece and without touching a frame.
"""

import asyncio
import faulthandler
import os
import re
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from typing import Final, NamedTuple

_CALLBACK: Final = asyncio.Handle._run.__code__  # pyright: ignore[reportPrivateUsage,reportAttributeAccessIssue,reportUnknownMemberType,reportUnknownVariableType]
_THREAD: Final = re.compile(r"(?:Current thread|Thread) 0x([0-9a-f]+)")
_FRAME: Final = re.compile(r'  File "(.*)", line (\d+) in (.*)')
_DEPTH: Final = 100  # of a deeper stack only so much is written down
_ESCAPED: Final = re.compile(r"\\x([0-9a-f]{2})|\\u([0-9a-f]{4})|\\U([0-9a-f]{8})")


class CodePlace(NamedTuple):
    """Where code is."""

    path: str
    line: int
    function: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line} in {self.function}"


class LoopProbe:
    """Of one of asyncio's own loops, which runs in that thread."""

    def __init__(self, loop: asyncio.BaseEventLoop, thread: int) -> None:
        self._loop, self._thread = loop, thread
        self._has_answered = True

    def next(self) -> object:
        """What the loop comes to next. As long as it is the same, the loop has not got on. None:
        nothing; it is closed, or just about to fetch what there is to do."""
        if self._has_answered:
            self._has_answered = False
            with suppress(RuntimeError):  # it is closed
                self._loop.call_soon_threadsafe(self._answer)
        waiting: deque[object] = vars(self._loop)["_ready"]
        first: object = None
        with suppress(IndexError):
            first = waiting[0]
        return first

    def _answer(self) -> None:
        self._has_answered = True

    def inside(self) -> list[CodePlace]:
        """Where the loop is inside of its callback, innermost first. Empty: it is in none."""
        found: list[CodePlace] = []
        for place in _stack(self._thread):
            if (place.path, place.function) == (_CALLBACK.co_filename, _CALLBACK.co_name):
                return found
            found.append(place)
        return found if len(found) >= _DEPTH else []


def _stack(thread: int) -> Iterator[CodePlace]:
    """Where this thread is, innermost first."""
    is_it = False
    for line in _written_down().splitlines():
        if head := _THREAD.match(line):
            is_it = int(head[1], 16) == thread
        elif is_it and (frame := _FRAME.match(line)):
            yield CodePlace(_unescaped(frame[1]), int(frame[2]), frame[3])


def _written_down() -> str:
    """All threads, as they are at one moment."""
    fd = os.memfd_create("pullcord-stacks")
    with os.fdopen(fd, "rb") as file:
        faulthandler.dump_traceback(file.fileno(), all_threads=True)
        file.seek(0)
        return file.read().decode(errors="replace")


def _unescaped(path: str) -> str:
    return _ESCAPED.sub(lambda found: chr(int(found[1] or found[2] or found[3], 16)), path)
