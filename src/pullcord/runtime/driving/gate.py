"""The gate that holds an agent. Every door of its context passes it before it acts."""

import asyncio
from collections.abc import Callable
from typing import Final

from pullcord.errors import Interrupted
from pullcord.runtime.steps.flight import current_flight

_PATIENCE: Final = 1000


class Gate:
    """Open while the run is running, shut while it is held, and closed for good when it unwinds."""

    def __init__(self, news: Callable[[], None]) -> None:
        self._news = news  # called when a task begins to wait at the gate
        self._opened = asyncio.Event()
        self._is_closed = False
        self.holding = 0  # the number of tasks that wait at it
        self.turned_away = 0  # the number of tasks that were told that it is closed

    @property
    def is_open(self) -> bool:
        return self._opened.is_set() and not self._is_closed

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def open(self) -> None:
        self._opened.set()

    def shut(self) -> None:
        if not self._is_closed:
            self._opened.clear()

    def close(self) -> None:
        """Raise `Interrupted` in current and future waiters."""
        self._is_closed = True
        self._opened.set()

    async def passes(self) -> None:
        """Return when the gate is open. A step whose function waits here stands still.

        Raises:
            Interrupted: it was closed.
        """
        if not self._opened.is_set():
            await self._stand()
        if self._is_closed:
            self.turned_away += 1
            await asyncio.sleep(0)  # an agent that catches everything must not hold up the loop
            if self.turned_away > _PATIENCE:
                await asyncio.get_running_loop().create_future()  # until it is cancelled
            raise Interrupted("this run is being unwound; nothing more is begun")

    async def _stand(self) -> None:
        flight = current_flight()
        self.holding += 1
        if flight:
            flight.hold()
        self._news()
        try:
            while not self._opened.is_set():
                await self._opened.wait()
        finally:
            self.holding -= 1
            if flight:
                flight.go_on()
