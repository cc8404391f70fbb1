"""Reads the clock of a store, by which the store decides everything, for async callers."""

from typing import cast

from pullcord.journal.clock import Clock
from pullcord.journal.rules.ledger import Ledger
from pullcord.journal.writer import Writer


class StoreClock:
    """A clock that never jumps. Every process of the store reads the same time."""

    def __init__(self, writer: Writer, ledger: Ledger, clock: Clock) -> None:
        self._writer, self._ledger, self._clock = writer, ledger, clock
        self._boot, self._base_ms = "", cast("int | None", None)

    async def now_ms(self) -> int:
        """Return its time in milliseconds."""
        boot = self._clock.boot_time().boot
        while self._base_ms is None or self._boot != boot:
            self._boot, self._base_ms = boot, await self._writer.read(lambda v: v.boot_base(boot))
            if self._base_ms is None:
                await self._writer.write(self._ledger.now_ms)  # no process has written in this boot
        return self.known_ms()

    def known_ms(self) -> int:
        """Return the same at once. The caller has awaited `now_ms` before."""
        assert self._base_ms is not None
        return self._base_ms + round(self._clock.boot_time().seconds * 1000)
