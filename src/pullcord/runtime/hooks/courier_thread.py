"""The couriers of a runtime: in a thread of their own, so that no agent waits for a hook, and no
hook for an agent that holds the event loop."""

import asyncio
import logging
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from pullcord.journal.clock import Clock
from pullcord.journal.journal import Journal
from pullcord.journal.watch import Changed
from pullcord.process import new_owner
from pullcord.runtime.hooks.courier import Courier
from pullcord.runtime.hooks.hook import Hook
from pullcord.runtime.services import Timing

_log: Final = logging.getLogger("pullcord.runtime")
_LEASES: Final = 3.0  # how much longer than one call a process keeps its hooks, if it is silent
_TTL_MIN_S: Final = 10.0


class Couriers:
    """Everybody who is told something by this runtime. Nobody: no thread."""

    def __init__(
        self, journal: Journal, clock: Clock, hooks: Sequence[Hook], timing: Timing
    ) -> None:
        self._journal, self._clock, self._hooks, self._owner = journal, clock, hooks, new_owner()
        self._wait_s = timing.hook_retry_s
        self._within_s = max([timing.hook_s, *(hook.told.within_s for hook in hooks)])
        self._loop: asyncio.AbstractEventLoop | None = None
        self._couriers: list[Courier] = []
        self._leaving = asyncio.Event()
        self._began = threading.Event()
        self._thread: threading.Thread | None = None
        self._stop_hearing: Callable[[], None] = lambda: None

    async def open(self) -> None:
        """Begin to tell. What is recorded after this returns is told, whatever happens."""
        if not self._hooks:
            return
        for hook in self._hooks:
            await self._journal.hooks.meet(hook.name, formerly=hook.formerly)
        # Here, where a failure is seen:
        self._stop_hearing = self._journal.changes.watch(self._heard)
        self._thread = threading.Thread(target=self._work, name="pullcord-hooks", daemon=True)
        self._thread.start()

    async def aclose(self) -> None:
        """Tell what there is to tell, in the time of one call, and end. What is left is told by
        the next process that opens this store with the same hook."""
        if self._thread is None:
            return
        here, ended = asyncio.get_running_loop(), asyncio.Event()
        await here.run_in_executor(None, self._began.wait)
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended by itself
                self._loop.call_soon_threadsafe(self._leave)

        def wait(thread: threading.Thread) -> None:
            thread.join()
            with suppress(RuntimeError):
                here.call_soon_threadsafe(ended.set)

        threading.Thread(target=wait, args=(self._thread,), daemon=True).start()
        await ended.wait()

    # --- their thread ---

    def _work(self) -> None:
        try:
            asyncio.run(self._run())
        finally:
            self._began.set()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        ttl_s = max(self._within_s * _LEASES, _TTL_MIN_S)
        self._couriers = [
            Courier(
                self._journal,
                self._clock,
                hook,
                owner=self._owner,
                wait_s=self._wait_s,
                ttl_s=ttl_s,
            )
            for hook in self._hooks
        ]
        telling = [asyncio.create_task(courier.run()) for courier in self._couriers]
        self._began.set()
        try:
            await self._leaving.wait()
            await asyncio.wait(telling, timeout=self._within_s)
        finally:
            self._stop_hearing()
            for task in telling:
                task.cancel()
            for ended in await asyncio.gather(*telling, return_exceptions=True):
                if isinstance(ended, Exception):
                    _log.error("A hook was not let go: its lease has to lapse.", exc_info=ended)

    def _heard(self, _runs: Changed) -> None:
        loop = self._loop
        if loop is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(self._news)

    def _news(self) -> None:
        for courier in self._couriers:
            courier.news()

    def _leave(self) -> None:
        self._leaving.set()
        for courier in self._couriers:
            courier.leave()
