"""One claimed run, carried on until it rests: ended, paused, waiting, given back, or lost.

The driver looks at the run as its records make it and does what that state asks for; everything
that happens (a control, a step that lands, an alarm) only makes it look again. So there is no
order of events it has to have been written for.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator
from contextlib import contextmanager
from typing import Any, Final, TypeVar

from pullcord.core.commands import Cancel
from pullcord.core.events import (
    Blocked,
    Cancelled,
    Completed,
    Event,
    Failed,
    Paused,
    Requeued,
    Rung,
    StepInDoubt,
)
from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.errors import Fenced, ImpossibleEvent, JournalClosed, PullcordError, StorageFailed
from pullcord.journal.ledger import Change, Claim
from pullcord.runtime.alarms import Alarm
from pullcord.runtime.entry import Entry
from pullcord.runtime.flight import Flight, described, together
from pullcord.runtime.gate import Gate
from pullcord.runtime.left_behind import end_texts, judge_what_was_begun, name_the_vanished
from pullcord.runtime.memory import Memory, remember
from pullcord.runtime.ownership import Ownership, Wanted
from pullcord.runtime.releasing import Releasing
from pullcord.runtime.site import Site

_log: Final = logging.getLogger("pullcord.runtime")
T = TypeVar("T")
_S = RunState


class Driver:
    """Drives one run. `news()` may be called whenever something may have changed."""

    def __init__(
        self,
        site: Site,
        claim: Claim,
        enter: "Callable[[Driver], Coroutine[Any, Any, Any]]",
        *,
        code_version: str = "",
    ) -> None:
        self.site = site
        self.memory = Memory()
        self.mine = Ownership(site.journal, claim)
        self.gate = Gate(self.news)
        self.defers: dict[str, Callable[[], Awaitable[object]]] = {}
        self._enter, self._code_version = enter, code_version
        self._entry = Entry(
            claim.run.id, self.gate, site.alarms, site.habits.stop_grace_s, self.news
        )
        self._flights: set[Flight] = set()
        self._waiting = 0  # doors that wait for an answer, a child, a timer
        self._busy = 0  # doors that are doing something
        self._news = asyncio.Event()
        self._moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.is_only_unwinding = False  # entered only to find out how to release what it holds
        self._is_dropped = False
        self._is_over = self._is_leaving = self._is_parking = False
        self._may_cut = False  # the time that a shutdown gives to steps is over
        self._rung: Rung = ""
        self._later: set[asyncio.Task[None]] = set()
        self._releasing: Releasing | None = None
        self._quiet = Alarm(site.alarms, self._block)
        self._park = Alarm(site.alarms, self._give_up_memory)
        self._leave_by = Alarm(site.alarms, self._cut_now)
        self._wants_to_block = False

    @property
    def run(self) -> Run:
        return self.mine.run

    @property
    def lets_steps_finish(self) -> bool:
        """The runtime closes: steps have its grace, and do not have to stand at a checkpoint."""
        return self._is_leaving and not self._may_cut and self.run.state is _S.RUNNING

    # --- what others tell it ---

    def news(self) -> None:
        """Something may have changed: look again."""
        self._news.set()

    def leave(self) -> None:
        """The runtime closes: bring the run to where another process can go on with it."""
        if not self._is_leaving:
            self._is_leaving = True
            self._leave_by.set(self.site.habits.shutdown_grace_s)
            self.news()

    # --- the life of it ---

    async def drive(self) -> None:
        """Carry the run on. Returns when it is at rest and no longer in memory, or lost."""
        try:
            await judge_what_was_begun(self)
            await end_texts(self)
            self.news()
            self.memory = await self._try(lambda: remember(self.site.journal, self.run))
            self._begin()
            while not self._is_over:
                await self._news.wait()
                self._news.clear()
                await self._look()
        except (Fenced, JournalClosed, StorageFailed) as lost:
            _log.warning("Run %s is abandoned: %s", self.run.id, lost)
        except PullcordError as error:
            _log.exception("Run %s cannot be driven.", self.run.id)
            await self._fail(error)
        finally:
            # Also when this very task is cancelled: that is nobody's cancel of the run. Nothing
            # is recorded; whoever owns the run next goes on from its records.
            self._drop()

    def _begin(self) -> None:
        """Enter the agent; not where there is nothing for it to do."""
        is_cancelling = self.run.state is _S.CANCELLING
        if is_cancelling:
            self.gate.close()  # it gets as far as it was, to say again how to release what it holds
        if self.run.state is _S.RUNNING or (is_cancelling and self.run.defers):
            self.is_only_unwinding = is_cancelling
            self._entry.begin(self._enter(self), only_to_unwind=is_cancelling)
        else:
            self._is_parking = True

    async def _fail(self, error: PullcordError) -> None:
        """Something that should be impossible: end the run, or whoever takes it meets the same."""
        doubts = [StepInDoubt(step=step) for step in self.run.open_steps()]
        end = Failed(error=f"it could not be driven: {described(error)}")
        try:
            await end_texts(self)
            await self.mine.record(together(*doubts, end), release=True)
        except PullcordError:
            _log.exception("Run %s could not even be ended.", self.run.id)

    async def _look(self) -> None:
        await self._try(self.mine.catch_up)
        self._wake_waiters()
        mine, now = self.mine.lease.epoch, self.run.epoch
        if mine != now:
            why = "another process has taken it over"
            raise Fenced(self.run.id, epoch=mine, current_epoch=now, why=why)
        state = self.run.state
        if state not in (_S.PAUSED, _S.WAITING):
            self._park.off()
        match state:
            case _S.RUNNING:
                await self._running()
            case _S.PAUSING:
                await self._pausing()
            case _S.PAUSED | _S.WAITING:
                await self._resting()
            case _S.QUEUED:
                await self._take_again()
            case _S.CANCELLING:
                await self._cancelling()
            case _S.CANCELLED | _S.COMPLETED | _S.FAILED:
                self._is_over = True

    def _wake_waiters(self) -> None:
        self._moved.set_result(None)
        self._moved = asyncio.get_running_loop().create_future()

    async def _running(self) -> None:
        is_ending = self._entry.is_done and not self._flights and not self.run.living_children()
        if self._is_leaving and not is_ending:
            self.gate.shut()
            if not self._landed() or not self._unwound():
                return
            await end_texts(self)
            if await self.record(Requeued(), release=True):
                self._is_over = True
            return
        self.gate.open()
        if self._entry.is_done:
            await self._finish()
        elif self._waiting and not self._busy and not self._flights and not self.gate.holding:
            await self._wait_or_block()
        else:
            self._wants_to_block = False
            self._quiet.off()

    async def _wait_or_block(self) -> None:
        if not self._wants_to_block:
            self._quiet.set(self.site.habits.quiet_s)
            return
        self._wants_to_block = False
        await self.record(Blocked(seen_seq=self.run.seq))
        self.news()

    async def _pausing(self) -> None:
        self.gate.shut()
        if self.run.pause and self.run.pause.hurried_seq:
            for flight in self._flights:
                if flight.effect != "once":  # it is begun again on resume
                    flight.stop(self.site.habits.stop_grace_s)
        if self._may_cut and not self._landed():
            return
        if any(not flight.is_held for flight in self._flights) or self._busy:
            return
        for _ in range(3):  # what was in flight may have been the last of it
            await asyncio.sleep(0)
        if self._entry.is_done and not self.run.living_children():
            await self._finish()
        elif not self._busy and all(flight.is_held for flight in self._flights):
            await self.record(Paused(rung=self._highest()))
            self.news()

    async def _resting(self) -> None:
        """Paused or waiting: kept in memory for a while, ready to go on at once."""
        self.gate.shut()
        has_ended = self._entry.is_done and not self.run.living_children()
        is_kept = not self._is_leaving and not self._is_parking
        if self.run.state is _S.WAITING and (self.gate.holding or has_ended) and is_kept:
            return await self._take_again()  # a parallel branch found something to do
        if not self._is_leaving and not self._is_parking:
            return self._park.set(self.site.habits.park_after_s)
        if self._is_parking and self._flights and not self._is_leaving:
            self._is_parking = False  # a step stands at its checkpoint: unwinding would cut it
            return None
        if not self._landed() or not self._unwound():
            return None
        await end_texts(self)
        await self._try(lambda: self.site.journal.release(self.mine.lease))
        self._is_over = True
        return None

    async def _take_again(self) -> None:
        """Resumed, answered or redirected: whoever holds it in memory goes on before others."""
        if self._is_leaving or self._is_parking:
            if self._landed() and self._unwound():
                await self._try(lambda: self.site.journal.release(self.mine.lease))
                self._is_over = True
            return
        # If it is not to be had, somebody has paused it again, or taken it: the next look tells.
        ttl_s = self.site.habits.lease_s
        await self._try(lambda: self.mine.retake(ttl_s=ttl_s, code_version=self._code_version))
        self._rung = ""
        self.news()

    async def _cancelling(self) -> None:
        self.gate.close()
        is_hurried = self.run.cancel is not None and bool(self.run.cancel.hurried_seq)
        if is_hurried:
            for flight in self._flights:
                flight.stop(self.site.habits.stop_grace_s)
                flight.hurry()
            self._entry.hurry()
        if not self._landed() or not self._unwound():
            return
        if self.run.living_children():
            if self._is_leaving and self._may_cut:
                await self._try(lambda: self.site.journal.release(self.mine.lease))
                self._is_over = True
            return
        if not self._released(hurry=is_hurried):
            return
        await end_texts(self)
        if await self.record(Cancelled(rung=self._highest()), release=True):
            self._is_over = True
        self.news()

    async def _finish(self) -> None:
        """The agent returned or raised. What it leaves open is closed before that is recorded."""
        self.gate.close()  # tasks that the agent has left behind begin nothing more
        if self._flights or self._busy:
            return
        end = self._entry.end()
        if isinstance(end, Failed):
            await self._cancel_children()
        if self.run.living_children():
            if self.run.state is _S.RUNNING:
                await self.record(Blocked(seen_seq=self.run.seq))
            return
        if not self._released(hurry=False):
            return
        await end_texts(self)
        if isinstance(end, Completed):
            await name_the_vanished(self)
        recorded = await self.record(end, release=True)
        if recorded == [end]:
            self._is_over = True
        self.news()

    async def _cancel_children(self) -> None:
        gone = Cancel(by=self.run.id, reason="its parent failed", source="parent")
        for child in self.run.living_children():
            await self._try(lambda child=child: self.site.journal.command(child, gone))
        await self._try(self.mine.catch_up)

    # --- what it does for the doors ---

    async def record(self, wanted: Wanted, *with_it: Change, release: bool = False) -> list[Event]:
        """Record what is wanted, or what has become of it. See `Ownership.record`."""
        return await self._try(lambda: self.mine.record(wanted, *with_it, release=release))

    async def begin(self, wanted: Wanted, *with_it: Change) -> list[Event]:
        """Record it as soon as the gate lets it, and return what was recorded. What it is the
        beginning of may happen only after that.

        Raises:
            Interrupted: the run is being unwound.
        """
        seen = -1
        while True:
            await self.gate.passes()
            with self.busy():
                if recorded := await self.record(wanted, *with_it):
                    return recorded
            if seen == self.run.seq and self.run.state is _S.RUNNING:
                why = "it was refused twice in a row, and nothing had happened in between"
                raise ImpossibleEvent(self.run.id, event="this", why=why)
            seen = self.run.seq
            await self.moved()  # a control came first: what it means for the gate is seen next

    async def moved(self) -> None:
        """Wait for the next look at the run. There is none any more once it was let go."""
        if not self._is_dropped:
            await asyncio.shield(self._moved)

    async def rest(self, seconds: float) -> None:
        """Wait a while, in memory only. A pause or a cancel does not have to wait for it."""
        alarm = Alarm(self.site.alarms, self.news)
        alarm.set(seconds)
        try:
            while alarm.is_set and not self.gate.is_closed:
                await self.moved()
        finally:
            alarm.off()
        await self.gate.passes()

    @contextmanager
    def busy(self) -> Generator[None]:
        """A door is doing something: the run is neither waiting nor paused."""
        self._busy += 1
        try:
            yield
        finally:
            self._busy -= 1
            self.news()

    async def until(self, holds: Callable[[Run], bool]) -> None:
        """Wait for something from outside, and for the gate. Others may be told to wait with it."""
        self._waiting += 1
        self.news()
        try:
            while not holds(self.run):
                if self.gate.is_closed:
                    break
                await self.moved()
        finally:
            self._waiting -= 1
            self.news()
        await self.gate.passes()

    async def fly(self, flight: Flight, call: Callable[[], Awaitable[Any]]) -> list[Event] | None:
        """Carry a step out, whose intent is recorded. Return what its outcome was recorded as."""
        self._flights.add(flight)
        # A cancel that was acknowledged while the intent was on its way back to us counts.
        await self._try(self.mine.catch_up)
        if self.run.cancel:
            flight.stop(self.site.habits.stop_grace_s)
        landed = flight.take_off(call)
        landed.add_done_callback(lambda _: self._land(flight))
        self.news()
        try:
            return await asyncio.shield(landed)
        except asyncio.CancelledError:
            if not landed.done() or landed.cancelled():  # the agent itself lost its patience
                flight.stop(self.site.habits.stop_grace_s)
                await asyncio.wait({landed})
            raise

    async def say(self, part: str, text: str, *, offset: int) -> None:
        """Add text to a part as soon as the gate lets it. Once it is durable it has been said.

        Raises:
            Interrupted: the run is being unwound.
        """
        while True:
            await self.gate.passes()
            with self.busy():
                if await self._try(lambda: self.mine.say(part, text, offset=offset)):
                    return
            await self.moved()

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    # --- bringing things to rest ---

    def _land(self, flight: Flight) -> None:
        self._flights.discard(flight)
        is_stopping = self.run.state in (_S.PAUSING, _S.CANCELLING)
        if is_stopping and (flight.rung == "abandoned" or not self._rung):
            self._rung = flight.rung
        self.news()

    def _landed(self) -> bool:
        """Whether no step is in the air. A cancel stops them; a shutdown gives them its grace."""
        is_cancel = self.run.state is _S.CANCELLING
        for flight in self._flights:
            stands = flight.is_held and self.run.state is not _S.RUNNING
            if is_cancel or self._may_cut or stands:
                flight.stop(self.site.habits.stop_grace_s, doubtful=not is_cancel)
        return not self._flights

    def _unwound(self) -> bool:
        """Whether the agent is out of memory and no door of it is doing anything."""
        is_told = bool(self.gate.turned_away or self.gate.holding or self._waiting or self._busy)
        self.gate.close()
        self._wake_waiters()
        return self._entry.is_unwound(is_told=is_told) and not self._busy

    def _highest(self) -> Rung:
        if "abandoned" in (self._rung, self._entry.rung):
            return "abandoned"
        return self._rung or self._entry.rung or "cooperative"

    def _released(self, *, hurry: bool) -> bool:
        """Whether nothing is left to be released. What takes too long is named, not waited for."""
        if not self.run.defers:
            return True
        if self._releasing is None or self._releasing.is_over:
            self._releasing = Releasing(self)
        if hurry or self._may_cut:
            self._releasing.hurry()
        return False

    def _drop(self) -> None:
        """Let go of everything in memory, recording nothing."""
        self._is_dropped = True
        self.gate.close()
        self._wake_waiters()
        for alarm in (self._quiet, self._park, self._leave_by):
            alarm.off()
        for flight in self._flights:
            flight.stop(self.site.habits.stop_grace_s)
        self._entry.drop()
        if self._releasing:
            self._releasing.hurry()

    # --- alarms ---

    def _block(self) -> None:
        self._wants_to_block = True
        self.news()

    def _give_up_memory(self) -> None:
        self._is_parking = True
        self.news()

    def _cut_now(self) -> None:
        self._may_cut = True
        self.news()

    async def _try(self, work: Callable[[], Awaitable[T]]) -> T:
        """Do it, however long the storage below takes to be able to; a shutdown does not wait."""
        while True:
            try:
                return await work()
            except StorageFailed as failed:
                if self._may_cut or self._is_dropped:
                    raise
                _log.warning("Run %s holds: %s", self.run.id, failed)
                await asyncio.sleep(self.site.habits.retry_storage_s)
