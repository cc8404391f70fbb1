"""What the kill switch does to the runs that are driven here: cut, held, and named if it is not."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from pullcord.core.run import Run
from pullcord.killswitch.flags import Flag
from pullcord.runtime.driver import Driver
from pullcord.runtime.flight import Flight

_NAMED_MAX: Final = 50


class Holding:
    """See `runtime.switch.Held`. Made in the runtime's loop, and used by the switch's thread."""

    def __init__(
        self,
        drivers: Mapping[str, Driver],
        covers: Callable[[str, str], Flag | None],
        news: Callable[[], None],
    ) -> None:
        self._drivers, self._covers, self._news = drivers, covers, news
        self._loop: asyncio.AbstractEventLoop | None = None
        self._let_go: list[tuple[str, str, str, Flight]] = []  # run, agent, thread, step

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()

    def cut_sockets(self) -> None:
        for driver in self._held():
            driver.cut_sockets()

    def hold(self) -> None:
        if self._loop:
            with suppress(RuntimeError):  # the loop is closed: nothing is driven
                self._loop.call_soon_threadsafe(self._tell)

    def going_on(self) -> list[tuple[str, str]]:
        left = [one for driver in self._held() for one in driver.going_on()]
        why = "nobody can stop a thread, nor what ignores being cancelled"
        for run, agent, thread, flight in tuple(self._let_go):
            if flight.is_working and self._covers(agent, thread):
                left.append((f"step {flight.name!r} of run {run}", why))
        return left[:_NAMED_MAX]

    def let_go_of(self, run: Run, flight: Flight) -> None:
        """It may be going on when its run is over and gone."""
        self._let_go = [one for one in self._let_go if one[3].is_working]
        self._let_go.append((run.id, run.agent, run.thread, flight))

    def _held(self) -> list[Driver]:
        return [driver for driver in tuple(self._drivers.values()) if driver.is_switched_off]

    def _tell(self) -> None:
        for driver in tuple(self._drivers.values()):
            driver.news()
        self._news()
