"""Hearing that the process is asked to end, while somebody reads a stream.

A host that serves us (uvicorn, say) waits for every answer to end before it tells its app to shut
down, and a stream ends only when we end it. So the signal is heard here too, and handed on.
"""

import asyncio
import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Final

_ENDING: Final = (signal.SIGTERM, signal.SIGINT)


class EndingSignals:
    """Entered by each stream. While one is open, `told` is called in its loop when the process is
    asked to end, and whoever was to be told before is told as before.

    Only a handler in Python is stood in front of: without one the process ends at once, or the
    signal is ignored. Only in the main thread, where Python hears signals.
    """

    def __init__(self, told: Callable[[], None]) -> None:
        self._told = told
        self._open = 0
        self._loop: asyncio.AbstractEventLoop | None = None
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> None:
        self._open += 1
        if self._open > 1 or threading.current_thread() is not threading.main_thread():
            return
        self._loop = asyncio.get_running_loop()
        for number in _ENDING:
            handler = signal.getsignal(number)
            if callable(handler):
                self._before[number] = handler
                signal.signal(number, self._hear)

    def __exit__(self, *_: object) -> None:
        self._open -= 1
        if self._open:
            return
        for number, handler in self._before.items():
            if signal.getsignal(number) == self._hear:  # else somebody else has changed it since
                signal.signal(number, handler)
        self._before.clear()

    def _hear(self, number: int, frame: FrameType | None) -> None:
        if self._loop and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._told)
        self._before[signal.Signals(number)](number, frame)
