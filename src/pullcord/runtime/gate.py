"""Where an agent is held: every door of its context passes the gate before it does anything."""

import asyncio

from pullcord.errors import Interrupted


class Gate:
    """Open while the run is running, shut while it is held, and closed for good when it unwinds."""

    def __init__(self) -> None:
        self._opened = asyncio.Event()
        self._is_closed = False
        self.holding = 0  # how many tasks stand before it
        self.turned_away = 0  # how many were told that it is closed

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
        """Turn away whoever stands before it, and whoever comes."""
        self._is_closed = True
        self._opened.set()

    async def passes(self) -> None:
        """Return when the gate is open.

        Raises:
            Interrupted: it was closed.
        """
        self.holding += 1
        try:
            while not self._opened.is_set():
                await self._opened.wait()
        finally:
            self.holding -= 1
        if self._is_closed:
            self.turned_away += 1
            raise Interrupted("this run is being unwound; nothing more is begun")
