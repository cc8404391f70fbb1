"""Ctrl-C, SIGTERM and SIGHUP where there is no bar: heard by a thread, because the agents' code may
hold the loop and the main thread with it."""

import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable
from typing import Any, Final

from pullcord.cli.parser import INTERRUPTED
from pullcord.cli.standard_streams import put
from pullcord.terminal.key_repeat import HELD_S

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_OVER: Final = b"\0"  # no signal has this number


class StopSignals:
    """Used with `with`, by the main thread. The first signal says so and calls `first`, in the
    thread that hears; one more ends the process, and says so. What comes again at once, as from a
    key that is held down or from a terminal that is closed, counts once."""

    def __init__(self, first: Callable[[], None], *, says: str, leaves: str) -> None:
        self._first = first
        self._says, self._leaves = says, leaves
        self._heard, self._hears = os.pipe()
        os.set_blocking(self._hears, False)
        self._before: dict[int, Any] = {}
        self._woke = -1
        self._thread = threading.Thread(target=self._hear, name="pullcord-stops", daemon=True)

    def __enter__(self) -> "StopSignals":
        self._woke = signal.set_wakeup_fd(self._hears, warn_on_full_buffer=False)
        for number in _SIGNALS:
            if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN:
                self._before[number] = signal.signal(number, _nothing)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        signal.set_wakeup_fd(self._woke)
        os.write(self._hears, _OVER)
        self._thread.join()
        os.close(self._hears)
        os.close(self._heard)

    # --- the thread ---

    def _hear(self) -> None:
        last_s, is_first, is_due = float("-inf"), True, False
        while True:
            ready = select.select([self._heard], [], [], HELD_S if is_due else None)[0]
            if not ready:
                self._leave()
            numbers = os.read(self._heard, 256)
            if _OVER in numbers:
                return
            if not set(numbers) & self._before.keys():
                continue
            now_s = time.monotonic()
            is_again, last_s = now_s - last_s < HELD_S, now_s
            is_due = not is_again and not is_first
            if is_first:
                is_first = False
                put(sys.stderr, f"\n{self._says} Once more leaves at once.\n")
                self._first()

    def _leave(self) -> None:
        put(sys.stderr, f"\nLeft at once. {self._leaves}\n")
        os._exit(INTERRUPTED)


def _nothing(_number: int, _frame: object) -> None:
    """Heard by way of the pipe."""
