"""What the kill switch does to the runs that are driven here: cut, held, and named if it is not."""

import asyncio
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from pullcord.runtime.driver import Driver

_NAMED_MAX: Final = 50


class Holding:
    """See `runtime.switch.Held`. Made in the runtime's loop, and used by the switch's thread."""

    def __init__(self, drivers: Mapping[str, Driver], news: Callable[[], None]) -> None:
        self._drivers, self._news = drivers, news
        self._loop: asyncio.AbstractEventLoop | None = None

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
        return left[:_NAMED_MAX]

    def _held(self) -> list[Driver]:
        return [driver for driver in tuple(self._drivers.values()) if driver.is_switched_off]

    def _tell(self) -> None:
        for driver in tuple(self._drivers.values()):
            driver.news()
        self._news()
