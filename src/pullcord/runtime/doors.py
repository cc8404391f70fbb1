"""What a driver does for whoever stands at the doors of its run: record, wait, show, be held."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, TypeVar

from pullcord.core.events import Event, LateResult, StepInterrupted
from pullcord.core.run import Run
from pullcord.core.screening import Guards, texts_in
from pullcord.core.states import RunState
from pullcord.errors import (
    BudgetBusy,
    Fenced,
    ImpossibleEvent,
    KillSwitchEngaged,
    OutOfLimits,
    StorageFailed,
)
from pullcord.journal.ledger import Change, Claim, Lease
from pullcord.runtime.alarms import Alarm
from pullcord.runtime.apart import Apart
from pullcord.runtime.flight import Flight, current_flight
from pullcord.runtime.gate import Gate
from pullcord.runtime.memory import Memory
from pullcord.runtime.observing import UNSEEN, Life
from pullcord.runtime.ownership import Ownership, Wanted
from pullcord.runtime.site import Site
from pullcord.runtime.started import Started
from pullcord.runtime.tools import Tool

_log: Final = logging.getLogger("pullcord.runtime")
_BUDGET_S: Final = 0.05
T = TypeVar("T")
Landing: TypeAlias = asyncio.Task[list[Event] | None]


class Doors:
    """The part of a driver that doors use. `news()` may be called whenever something changed."""

    def __init__(self, site: Site, claim: Claim, guards: Guards, life: Life = UNSEEN) -> None:
        self.site = site
        self.guards = guards.in_run(self._told)
        self.memory = Memory()
        self.one_card = asyncio.Lock()  # what several steps have to ask is asked once
        self.whose = claim.whose  # by what the kill switch knows it
        self.mine = Ownership(site.journal, claim, life)
        self.mine.after_turn = self._see_who_it_was
        self.gate = Gate(self.news)
        self.defers: dict[str, Callable[[], Awaitable[object]]] = {}
        self.tools: dict[str, Tool[..., Any]] = {}  # by step: those called in this life
        self.makes_deps: Callable[[], Any] | None = None  # what its agent needs: made anew by this
        self.is_only_unwinding = False  # entered only to find out how to release what it holds
        self._flights: set[Flight] = set()
        self.aparts: set[Apart] = set()  # calls that no step stands for: undos, releases, looks
        self._waiting = 0  # doors that wait for an answer, a child, a timer
        self._busy: list[asyncio.Task[Any] | None] = []  # whose doors are doing something
        self._news = asyncio.Event()
        self._moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_dropped = False
        self.is_lost = False  # by the store's word; set by the thread that renews
        self._heard_seq = 0  # the last record that the journal has told of
        self._may_cut = False  # the time that a shutdown gives to steps is over
        self._later: set[asyncio.Task[None]] = set()
        self._sides: set[asyncio.Task[Any]] = set()  # calls that the agent does not wait for

    @property
    def run(self) -> Run:
        return self.mine.run

    @property
    def lease(self) -> Lease:
        return self.mine.lease

    @property
    def lets_steps_finish(self) -> bool:
        """Whether a step may go past its checkpoint although the run is not running."""
        raise NotImplementedError

    def _told(self) -> Iterator[str]:
        """What came to the run from outside, as far as it is not in this life's results of tools:
        an agent that repeats it does not recite its prompt."""
        yield from texts_in(self.memory.input)
        yield from (told.text for told in self.run.instructions.values())
        for answer in self.memory.answers.values():
            yield from texts_in(answer)
        for step, past in self.memory.steps.items():
            if (known := self.run.steps.get(step)) is not None and known.tool:
                yield from texts_in(past.result)

    def news(self) -> None:
        """Something may have changed: look again."""
        self._news.set()

    # --- recording ---

    async def record(self, wanted: Wanted, *with_it: Change, release: bool = False) -> list[Event]:
        """Record what is wanted, or what has become of it. See `Ownership.record`."""
        return await self._try(lambda: self.mine.record(wanted, *with_it, release=release))

    async def begin(self, wanted: Wanted, *with_it: Change) -> list[Event]:
        """Record it as soon as the gate lets it, and return what was recorded. What it is the
        beginning of may happen only after that.

        Raises:
            Interrupted: the run is being unwound.
            OutOfLimits: a limit is reached, and the agent is to come to its end.
        """
        seen = -1
        while True:
            await self.gate.passes()
            try:
                with self.busy():
                    if recorded := await self.record(wanted, *with_it):
                        return recorded
            except BudgetBusy:
                await self.rest(_BUDGET_S)
                continue
            except KillSwitchEngaged:
                await self._heed_the_switch()
                continue
            if (limit := self.run.reached) and limit.then == "wrap_up" and not self.run.cancel:
                raise OutOfLimits("this", leaves=limit.leaves)
            if seen == self.run.seq and self.run.state is RunState.RUNNING:
                why = "it was refused twice in a row, and nothing had happened in between"
                raise ImpossibleEvent(self.run.id, event="this", why=why)
            seen = self.run.seq
            await self.moved()  # a control came first: what it means for the gate is seen next

    async def say(self, part: str, text: str, *, offset: int) -> None:
        """Add text to a part as soon as the gate lets it. Once it is durable it has been said.

        Raises:
            Interrupted: the run is being unwound.
        """
        while True:
            await self.gate.passes()
            with self.busy():
                if await self.show(part, text, offset=offset):
                    return
            await self.moved()

    async def show(self, part: str, text: str, *, offset: int, while_pausing: bool = True) -> bool:
        """Add text to a part, if text is accepted in the state the run is in now."""
        return await self._try(
            lambda: self.mine.say(part, text, offset=offset, while_pausing=while_pausing)
        )

    async def testify(self, late: LateResult) -> None:
        """Tell whoever owns the run now what became of a step that was begun here."""
        await self.site.journal.testify(self.run.id, late)

    # --- waiting ---

    async def may_start(self) -> None:
        """Wait until nothing forbids to call something: not the gate, not the kill switch, and not
        the lease.

        Raises:
            Interrupted: the run is being unwound.
            Fenced: another process owns the run now.
        """
        await self.gate.passes()
        while self.refusal():
            await self._heed_the_switch()
            await self.gate.passes()
        await self.licensed()

    async def licensed(self) -> None:
        """Return when this process may act, by its own clock: at once, unless it stood still or
        could not reach its store for as long as its lease. Then its lease is renewed first.

        Raises:
            Fenced: another process owns the run now.
        """
        while self.is_lost or self._is_dropped or not self.site.licence.holds:
            if self.is_lost or self._is_dropped:
                epoch, why = self.lease.epoch, "another process has taken it over"
                raise Fenced(self.run.id, epoch=epoch, current_epoch=self.run.epoch, why=why)
            self.site.licence.ask()
            await self.moved()

    def refusal(self) -> str:
        """Why the kill switch lets nothing start for this run. Empty: it does."""
        return self.site.switch.refusal(*self.whose)

    def mind(self, what: str, goes_on: Callable[[], bool] | Started) -> None:
        """Something is begun for this run that no step stands for. If it goes on although the kill
        switch holds the run, it is named."""
        self.site.mind(self.whose, f"{what} of run {self.run.id}", goes_on)

    async def _heed_the_switch(self) -> None:
        """The next look holds the run, if its thread has seen the switch by then."""
        self.site.switch.look()
        self.news()
        await self.moved()

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

    async def stand_still(self) -> None:
        """A checkpoint. Returns at once if nothing was asked; while paused, only after resume."""
        await self.mine.catch_up()
        is_granted = current_flight() is not None and self.lets_steps_finish
        if self.is_only_unwinding or is_granted:
            return  # it was past this point before; or it is to finish while it can
        if self.run.state is not RunState.RUNNING:
            self.news()
            await self.moved()
        await self.gate.passes()

    @contextmanager
    def busy(self) -> Generator[None]:
        """A door is doing something: the run is neither waiting nor paused."""
        task = asyncio.current_task()
        self._busy.append(task)
        try:
            yield
        finally:
            self._busy.remove(task)
            self.news()

    # --- doing ---

    async def fly(self, flight: Flight, call: Callable[[], Awaitable[Any]]) -> list[Event] | None:
        """Carry a step out, whose intent is recorded. Return what its outcome was recorded as."""
        self._flights.add(flight)
        if flight.started:
            flight.started.store = self.site.journal.path
            flight.started.mark = self.site.processes.mark_for_steps
        try:
            # A cancel that was acknowledged while the intent was on its way back to us counts.
            await self._try(self.mine.catch_up)
        except asyncio.CancelledError:
            flight.stop()
            await asyncio.wait({self._launch(flight, call)})
            raise
        if self.run.cancel:
            flight.stop()
        landed = self._launch(flight, call)
        try:
            return await asyncio.shield(landed)
        except asyncio.CancelledError:
            if not landed.done() or landed.cancelled():  # the agent itself lost its patience
                flight.stop()
                await asyncio.wait({landed})
            raise

    def _launch(self, flight: Flight, call: Callable[[], Awaitable[Any]]) -> Landing:
        with self.mine.life.inside(flight.step):
            landed = flight.take_off(call)
        landed.add_done_callback(lambda _: self._land(flight))
        self.news()
        return landed

    async def never_mind(self, step: str) -> None:
        """The agent lost its patience while an intent was being recorded. If it was, it is decided:
        nothing of it has begun."""
        await self._try(self.mine.catch_up)
        known = self.run.steps.get(step)
        if known and known.status == "started" and all(f.step != step for f in self._flights):
            await self.record(StepInterrupted(step=step, attempt=known.attempt, began=False))
        self.news()

    def aside(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Do something that the agent does not wait for. The run does not end before it."""
        task = asyncio.create_task(work)
        self._sides.add(task)
        task.add_done_callback(self._side_is_done)
        return task

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def _land(self, flight: Flight) -> None:
        raise NotImplementedError

    def _see_who_it_was(self) -> None:
        """Look again, if the journal has told of a record that is not one of ours."""
        raise NotImplementedError

    def _side_is_done(self, task: "asyncio.Task[Any]") -> None:
        self._sides.discard(task)
        if not task.cancelled():
            task.exception()  # whoever asks for its result is told
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
