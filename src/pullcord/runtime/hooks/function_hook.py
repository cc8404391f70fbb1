"""Calling somebody's function in a thread of its own, which no agent has to wait for.

A function that does not come back cannot be stopped, only named and waited for: so there is never
more than one such thread for each.
"""

import asyncio
import inspect
import logging
import queue
import threading
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Final

from pullcord.core.notices import Moved, Notice

_log: Final = logging.getLogger("pullcord.runtime")
_MARGIN_S: Final = 0.5


class FunctionHook:
    """Tells a function, sync or async. See `Recipient`."""

    tries: int | None = 3  # what raises is more often a mistake than a bad day

    def __init__(self, function: Callable[[Any], object], name: str, *, within_s: float) -> None:
        self._function, self._name, self.within_s = function, name, within_s
        self._calls: queue.SimpleQueue[_FunctionCall | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    async def tell(self, id: str, notice: Moved | Notice) -> None:
        """However long it takes: meanwhile the hook may become another process's to tell."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="pullcord-hook", daemon=True)
            self._thread.start()
        call = _FunctionCall(notice)
        self._calls.put(call)
        patience_s = self.within_s + _MARGIN_S  # an async one is given the chance to clean up
        done, _ = await asyncio.wait({call.answer}, timeout=patience_s)
        if not done:
            _log.warning("Hook %s was told %s, and has not come back.", self._name, id)
            await asyncio.wait({call.answer})
        if isinstance(call.error, Exception):
            raise call.error
        if call.error is not None:  # it is nobody's wish to end us
            raise RuntimeError(f"{type(call.error).__name__} came out of it")

    def close(self) -> None:
        self._calls.put(None)

    # --- its thread ---

    def _work(self) -> None:
        with asyncio.Runner() as runner:  # one loop for all calls: what it opens stays open
            while (call := self._calls.get()) is not None:
                try:
                    told = self._function(call.notice)
                    if inspect.isawaitable(told):
                        runner.run(self._bounded(told))
                except BaseException as error:  # SystemExit too
                    call.error = error
                call.is_over()

    async def _bounded(self, told: Awaitable[object]) -> None:
        async with asyncio.timeout(self.within_s):
            await told


class _FunctionCall:
    """One call, and the future of its end in the loop that asked for it."""

    def __init__(self, notice: Moved | Notice) -> None:
        self.notice = notice
        self.error: BaseException | None = None
        self.answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def is_over(self) -> None:
        with suppress(RuntimeError):  # that loop is closed: nobody is left to be told
            self.answer.get_loop().call_soon_threadsafe(self._settle)

    def _settle(self) -> None:
        if not self.answer.done():
            self.answer.set_result(None)
