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
    AttentionRaised,
    Blocked,
    Cancelled,
    Completed,
    Event,
    Failed,
    Paused,
    Requeued,
    Rung,
    StepInDoubt,
    StepInterrupted,
    TextEnded,
)
from pullcord.core.run import Run
from pullcord.core.states import NEEDS_OWNER, RunState
from pullcord.errors import Fenced, JournalClosed, StorageFailed
from pullcord.journal.ledger import Change, Claim
from pullcord.runtime.alarms import Alarm
from pullcord.runtime.entry import Entry
from pullcord.runtime.flight import Flight, in_doubt, together
from pullcord.runtime.gate import Gate
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
        self._is_over = self._is_leaving = self._is_parking = self._is_lost = False
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
    def is_driving(self) -> bool:
        """It counts on its lease: the run is in no state that others may change hands in."""
        return self.run.state in NEEDS_OWNER and not self._is_over

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

    def lose(self) -> None:
        """Another process owns the run: abandon it, write nothing."""
        self._is_lost = True
        self.news()

    # --- the life of it ---

    async def drive(self) -> None:
        """Carry the run on. Returns when it is at rest and no longer in memory, or lost."""
        try:
            await self._take_over()
            self.memory = await self._try(lambda: remember(self.site.journal, self.run))
            self._begin()
            while not self._is_over:
                await self._news.wait()
                self._news.clear()
                await self._look()
        except (Fenced, JournalClosed, StorageFailed) as lost:
            _log.warning("Run %s is abandoned: %s", self.run.id, lost)
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

    async def _take_over(self) -> None:
        """Judge what the owner before had begun. Nobody knows what became of it; of what has no
        effect, or may have it twice, nobody needs to."""
        for step in self.run.open_steps():
            known = self.run.steps[step]
            if known.effect == "once":
                doubt = StepInDoubt(step=step, why="its process ended before it could say")
                await self.record(together(doubt, in_doubt(step, known.name)))
            else:
                await self.record(StepInterrupted(step=step))
        await self._end_texts()
        self.news()

    async def _look(self) -> None:
        await self._try(self.mine.catch_up)
        self._wake_waiters()
        if self._is_lost or self.run.epoch != self.mine.lease.epoch:
            raise Fenced(self.run.id, epoch=self.mine.lease.epoch, current_epoch=0, why="lost")
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
            await self._end_texts()
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
        if self.run.state is _S.WAITING and self.gate.holding and not self._is_leaving:
            return await self._take_again()  # a parallel branch found something to do
        if not self._is_leaving and not self._is_parking:
            return self._park.set(self.site.habits.park_after_s)
        if self._is_parking and self._flights and not self._is_leaving:
            self._is_parking = False  # a step stands at its checkpoint: unwinding would cut it
            return None
        if not self._landed() or not self._unwound():
            return None
        await self._end_texts()
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
        self.news()

    async def _cancelling(self) -> None:
        self.gate.close()
        if self.run.cancel and self.run.cancel.hurried_seq:
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
        if not self._released(hurry=self.run.cancel is None or bool(self.run.cancel.hurried_seq)):
            return
        await self._end_texts()
        if await self.record(Cancelled(rung=self._highest()), release=True):
            self._is_over = True
        self.news()

    async def _finish(self) -> None:
        """The agent returned or raised. What it leaves open is closed before that is recorded."""
        if self._flights or self._busy:
            return  # tasks of its own are not through yet
        end = self._entry.end()
        if isinstance(end, Failed):
            await self._cancel_children()
        if self.run.living_children():
            if self.run.state is _S.RUNNING:
                await self.record(Blocked(seen_seq=self.run.seq))
            return
        if not self._released(hurry=self._may_cut):
            return
        await self._end_texts()
        if isinstance(end, Completed):
            await self._name_the_vanished()
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
        while True:
            await self.gate.passes()
            with self.busy():
                if recorded := await self.record(wanted, *with_it):
                    return recorded
            await self.moved()  # a control came first: what it means for the gate is seen next

    async def moved(self) -> None:
        """Wait for the next look at the run."""
        await asyncio.shield(self._moved)

    async def rest(self, seconds: float) -> None:
        """Wait a while, in memory only. A pause or a cancel does not have to wait for it."""
        rung: list[bool] = []

        def ring() -> None:
            rung.append(True)
            self.news()

        call_off = self.site.alarms.after(seconds, ring)
        try:
            while not rung and not self.gate.is_closed:
                await self.moved()
        finally:
            call_off()
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
        if flight.rung == "abandoned" or not self._rung:
            self._rung = flight.rung
        self.news()

    def _landed(self) -> bool:
        """Whether no step is in the air. A cancel stops them; a shutdown gives them its grace."""
        is_cancel = self.run.state is _S.CANCELLING
        for flight in self._flights:
            if is_cancel or self._may_cut or flight.is_held:
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

    async def _end_texts(self) -> None:
        """What was said in parts that have not ended was cut there."""
        live = await self._try(lambda: self.site.journal.live_text(self.run.id))
        said: dict[str, str] = {}
        for text in live:
            said[text.part] = said.get(text.part, "") + text.text
        for part, text in said.items():
            await self.record(TextEnded(part=part, text=text, complete=False))

    def _released(self, *, hurry: bool) -> bool:
        """Whether nothing is left to be released. What takes too long is named, not waited for."""
        if not self.run.defers:
            return True
        if self._releasing is None or self._releasing.is_over:
            self._releasing = Releasing(self)
        if hurry or self._may_cut:
            self._releasing.hurry()
        return False

    async def _name_the_vanished(self) -> None:
        for step, past in self.memory.vanished():
            text = f"Step {past.name!r} was carried out, and the agent's code has it no more."
            await self.record(AttentionRaised(item=f"vanished-{step}"[:64], text=text))

    def _drop(self) -> None:
        """Let go of everything in memory, recording nothing."""
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
                if self._may_cut:
                    raise
                _log.warning("Run %s holds: %s", self.run.id, failed)
                await asyncio.sleep(self.site.habits.retry_storage_s)
