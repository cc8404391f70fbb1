"""A runtime's licence to act: how long its leases allow it, by its own clock.

A lease is a licence to act, not only to write. The store lets another process take a run over
when its lease has lapsed; by then nothing of the old owner may act any more. So the runtime counts
each renewal from before it was sent, gives up a margin at the end, and looks at that before each
call. Its warden is told the same end and freezes what it holds there, without being asked.

Renewals come from a thread with an event loop of its own: a blocked agent keeps its runs. With a
clock that is not the machine's (a test's) they come from the loop that the clock belongs to.
"""

import asyncio
import logging
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import Final, Protocol

from pullcord.errors import JournalClosed
from pullcord.journal.clock import Clock, SystemClock
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Lease
from pullcord.runtime.alarms import Alarm, Alarms, LoopAlarms

_log: Final = logging.getLogger("pullcord.runtime")
# Both together are longer than a warden may take to freeze, plus its guard to kill if it is gone.
# (models/lease)
_BEFORE_S: Final = 1.0
_AFTER_S: Final = 2.5
_ROUNDS: Final = 3  # renewals within one lease
_AGAIN_S: Final = 0.5  # until the next try of a renewal that failed


class LicensedWork(Protocol):
    """What the licence is for. Called in the thread that renews, and must be quick."""

    def leases(self) -> Sequence[Lease]:
        """The leases of every run that is driven here."""
        ...

    def licensed(self, until_s: float) -> None:
        """The licence holds until then, by the machine's boot time."""
        ...

    def lapsed(self) -> None:
        """The licence is over. It may be renewed."""
        ...

    def renewed(self) -> None:
        """It was renewed after it had lapsed."""
        ...

    def lost(self, lease: Lease) -> None:
        """Another owner has this run, or nobody: we may not act for it any more."""
        ...


class Licence:
    """One for each runtime. `holds` is asked before every call, from any thread."""

    def __init__(self, journal: Journal, clock: Clock, alarms: Alarms, lease_s: float) -> None:
        self.ttl_s = lease_s + min(_AFTER_S, lease_s / 4)  # written: nobody takes it over before
        self._span_s = lease_s - min(_BEFORE_S, lease_s / 10)  # counted on here
        self._journal, self._clock = journal, clock
        self._is_threaded = isinstance(clock, SystemClock)
        self._alarms = LoopAlarms() if self._is_threaded else alarms
        self._every_s = lease_s / _ROUNDS
        self._holding: LicensedWork | None = None
        self._until_s = 0.0
        self._due_s = 0.0
        self._is_lapsed = self._is_failing = self._is_closed = False
        self._loop: asyncio.AbstractEventLoop | None = None  # where renewals are made
        self._woken: asyncio.Event | None = None
        self._ended: asyncio.Future[None] | None = None

    @property
    def holds(self) -> bool:
        """Whether a call may begin now, by the clock of this machine."""
        return self.now_s() < self._until_s

    def now_s(self) -> float:
        return self._clock.boot_time().seconds

    def begin(self, holding: LicensedWork, sent_s: float) -> None:
        """A run was claimed, by a request that was sent at `sent_s`. While others are held their
        last renewal counts, which is earlier. `keep` it when it is among those of `holding`."""
        if self._ended is None:
            self._holding = holding
            self._start()
        if not holding.leases():
            self._tell(sent_s)

    def keep(self) -> None:
        """There may be one lease more: look, and renew it when it is time."""
        self._wake()

    def ask(self) -> None:
        """Something waits for the licence to be renewed: do that now."""
        self._due_s = 0.0
        self._wake()

    async def aclose(self) -> None:
        """End the renewals."""
        self._is_closed = True
        self._wake()
        if self._ended is not None:
            await self._ended

    # --- where renewals are made ---

    def _start(self) -> None:
        mine = asyncio.get_running_loop()
        ended = self._ended = mine.create_future()
        if not self._is_threaded:
            keeping = mine.create_task(self._keep())
            keeping.add_done_callback(lambda _: ended.done() or ended.set_result(None))
            keeping.add_done_callback(lambda kept: kept.cancelled() or kept.exception())
            return

        def work() -> None:
            try:
                asyncio.run(self._keep())
            finally:
                with suppress(RuntimeError):  # the loop is closed: nobody waits for it
                    mine.call_soon_threadsafe(lambda: ended.done() or ended.set_result(None))

        threading.Thread(target=work, name="pullcord-licence", daemon=True).start()

    def _wake(self) -> None:
        loop, woken = self._loop, self._woken
        if loop is not None and woken is not None:
            with suppress(RuntimeError):
                loop.call_soon_threadsafe(woken.set)

    async def _keep(self) -> None:
        """Renew when it is time, and say so when there was no time left."""
        woken = self._woken = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        alarm = Alarm(self._alarms, woken.set)
        renewing: asyncio.Task[None] | None = None
        while not self._is_closed:
            woken.clear()
            leases = self._holding.leases() if self._holding else ()
            now_s = self.now_s()
            if leases and renewing is None and now_s >= self._due_s:
                renewing = asyncio.create_task(self._renew(leases))
                renewing.add_done_callback(lambda _: woken.set())
            elif renewing is not None and renewing.done():
                renewing.result()
                renewing = None
                continue
            self._see_whether_it_lapsed(bool(leases))
            waits_s = self._due_s - now_s if renewing is None else self._every_s
            left_s = self._until_s - now_s
            if leases:
                alarm.set(max(min(waits_s, left_s) if left_s > 0 else waits_s, 0.001))
            await woken.wait()
            alarm.off()
        if renewing is not None:
            await asyncio.wait({renewing})

    async def _renew(self, leases: Sequence[Lease]) -> None:
        assert self._holding is not None
        sent_s = self.now_s()
        self._due_s = sent_s + min(_AGAIN_S, self._every_s)  # however it fails, it is no busy wait
        try:
            lost = await self._journal.renew(*leases, ttl_s=self.ttl_s)
        except JournalClosed:
            self._is_closed = True
        except Exception as failed:  # whatever it is: without renewals nothing here may act
            self._due_s = self.now_s() + min(_AGAIN_S, self._every_s)
            if not self._is_failing:  # once for each outage
                _log.warning("The leases of this process could not be renewed: %s", failed)
            self._is_failing = True
        else:
            self._is_failing = False
            for lease in lost:
                self._holding.lost(lease)
            self._tell(sent_s)

    def _tell(self, sent_s: float) -> None:
        assert self._holding is not None
        self._due_s = sent_s + self._every_s
        self._until_s = sent_s + self._span_s
        if self._is_threaded:  # another clock says nothing to other processes
            self._holding.licensed(self._until_s)
        if self._is_lapsed and self.holds:
            self._is_lapsed = False
            self._holding.renewed()

    def _see_whether_it_lapsed(self, is_holding: bool) -> None:
        if is_holding and not self._is_lapsed and not self.holds:
            assert self._holding is not None
            self._is_lapsed = True
            self._holding.lapsed()
