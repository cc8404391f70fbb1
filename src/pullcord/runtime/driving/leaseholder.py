"""Applies leases to this process's work: holds it when they lapse, ends it when one is lost."""

import asyncio
import logging
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Final

from pullcord.journal.rules.ledger import Lease
from pullcord.runtime.driving.driver import Driver
from pullcord.runtime.processes.warden_client import Processes

_log: Final = logging.getLogger("pullcord.runtime")


class Leaseholder:
    """Implements `licence.Holding`. The runtime's loop makes it; the renewing thread uses it."""

    def __init__(self, drivers: Mapping[str, Driver], processes: Processes) -> None:
        self._drivers, self._processes = drivers, processes
        self._loop: asyncio.AbstractEventLoop | None = None

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()

    def leases(self) -> list[Lease]:
        return [driver.lease for driver in tuple(self._drivers.values())]

    def licensed(self, until_s: float) -> None:
        self._processes.licensed(until_s)

    def lapsed(self) -> None:
        _log.warning("The leases of this process have lapsed: nothing starts until it has renewed.")
        self._tell(Driver.lapse)

    def renewed(self) -> None:
        _log.warning("The leases of this process are renewed: its runs go on.")
        self._tell(Driver.renewed)

    def lost(self, lease: Lease) -> None:
        self._processes.lost(lease.run_id, lease.epoch)
        if driver := self._drivers.get(lease.run_id):
            if driver.lease == lease:
                driver.live.is_lost = (
                    True  # at once, because a call that waits for the licence must not begin
                )
            self._tell(lambda driver: driver.live.look_again(), only=driver)

    def _tell(self, what: Callable[[Driver], None], *, only: Driver | None = None) -> None:
        """Call `what` for each driver, or for this one, in their own loop."""

        def tell() -> None:
            for driver in tuple(self._drivers.values()):
                if only in (None, driver):
                    what(driver)

        if self._loop:
            with suppress(RuntimeError):  # it is closed: nothing is driven
                self._loop.call_soon_threadsafe(tell)
