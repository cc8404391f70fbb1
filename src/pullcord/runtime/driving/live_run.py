"""A run that this process owns, as steps, tools and adapters use it.

Steps, tool calls, model calls, questions and adapters use it to record, wait and show, and it holds
them. `pullcord.runtime.driving.moves` decides what the run does next as a whole.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from typing import Any, Final, TypeAlias, TypeVar

from pullcord.core.events import Event, LateResult, Rung, StepInterrupted
from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.core.text.screening import NO_GUARDS, Guards, texts_in
from pullcord.errors import (
    BudgetBusy,
    Fenced,
    ImpossibleEvent,
    KillSwitchEngaged,
    OutOfLimits,
    StorageFailed,
)
from pullcord.journal.rules.ledger import Change, Claim, Lease
from pullcord.runtime.alarms import Alarm
from pullcord.runtime.driving.gate import Gate
from pullcord.runtime.driving.host_calls import HostCalls
from pullcord.runtime.driving.moves import Leaving
from pullcord.runtime.ownership import Ownership, Wanted
from pullcord.runtime.policy import Tool
from pullcord.runtime.processes.started_work import StartedWork
from pullcord.runtime.processes.warden_client import Process
from pullcord.runtime.services import Services
from pullcord.runtime.steps.flight import Flight, current_flight
from pullcord.runtime.steps.memory import Memory
from pullcord.runtime.steps.orders import Reach
from pullcord.runtime.watching.observer import UNSEEN, Life

_log: Final = logging.getLogger("pullcord.runtime")
_BUDGET_S: Final = 0.05
_LOOKS: Final = 20
T = TypeVar("T")
E = TypeVar("E", bound=Event)
Landing: TypeAlias = asyncio.Task[list[Event] | None]


class LiveRun:
    """An owned run. Call `news()` whenever something may have changed."""

    def __init__(
        self, services: Services, claim: Claim, guards: Guards = NO_GUARDS, life: Life = UNSEEN
    ) -> None:
        self.services = services
        self.guards = guards.in_run(self._told)
        self.memory = Memory()
        self.one_card = asyncio.Lock()  # several steps put their doubts on one card
        self.whose = claim.whose  # its agent and thread, by which the kill switch knows it
        self.mine = Ownership(services.journal, claim, life)
        self.mine.after_turn = self._see_who_it_was
        self.gate = Gate(self.news)
        self.defers: dict[str, Callable[[], Awaitable[object]]] = {}
        self.tools: dict[str, Tool[..., Any]] = {}  # by step id: the tools called in this life
        self.makes_deps: Callable[[], Any] | None = None  # makes the agent's `ctx.deps`
        self.is_only_unwinding = False  # entered only to learn how to undo and release
        self.flights: set[Flight] = set()  # steps under way
        self.aparts: set[HostCalls] = set()  # calls that belong to no step: undos, releases, looks
        self.waiting = 0  # doors that wait for an answer, a child or a timer
        self.backing_off = 0  # doors that wait in memory alone, before another attempt
        self.busy_tasks: list[asyncio.Task[Any] | None] = []  # tasks whose doors are at work
        self._news = asyncio.Event()
        self._moved: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._is_dropped = False
        self.is_lost = False  # as the store reports; the renewing thread sets it
        self._heard_seq = 0  # the last record that the journal has announced
        self._is_behind = True  # the journal may have records that it has not read
        self._looks = 0  # looks since it last asked the journal
        self.leaving: Leaving = ""  # whether the runtime closes
        self.rung: Rung = ""  # the highest rung that stopping a step needed
        self._later: set[asyncio.Task[None]] = set()
        self.asides: set[asyncio.Task[Any]] = set()  # calls that the agent does not wait for

    @property
    def run(self) -> Run:
        return self.mine.run

    @property
    def lease(self) -> Lease:
        return self.mine.lease

    @property
    def is_switched_off(self) -> bool:
        """Whether the kill switch holds this run. The thread of the switch asks too."""
        return self.services.switch.covers(*self.whose) is not None

    @property
    def lets_steps_finish(self) -> bool:
        """Whether steps pass their checkpoints, because the runtime closes and they may finish."""
        return self.leaving == "asked" and self.run.state is RunState.RUNNING

    def _told(self) -> Iterator[str]:
        """Yield the texts that came to the run from outside, except tool results of this life.

        An agent that repeats one does not recite its prompt.
        """
        yield from texts_in(self.memory.input)
        yield from (told.text for told in self.run.instructions.values())
        for answer in self.memory.answers.values():
            yield from texts_in(answer)
        for step, past in self.memory.steps.items():
            if (known := self.run.steps.get(step)) is not None and known.tool:
                yield from texts_in(past.result)

    # --- news ---

    def news(self) -> None:
        """Have the driver look again: something may have changed."""
        self._news.set()

    async def next_look(self) -> None:
        """Wait for news, read the new records, and wake everything that waits for a look.

        Raises:
            Fenced: another process owns the run now.
        """
        await self._news.wait()
        self._news.clear()
        self._looks = 0 if self._is_behind else self._looks + 1
        if self._is_behind or self._looks > _LOOKS:
            self._is_behind, self._looks = False, 0
            await self.stubborn(self.mine.catch_up)
        self.wake_waiters()
        self.mine.check()

    def heard(self, seq: int) -> None:
        """Note that the journal has records up to this one, by this process or another."""
        self._heard_seq = max(seq, self._heard_seq)
        if not self.mine.is_writing:
            self._see_who_it_was()

    def _see_who_it_was(self) -> None:
        """Look again if the journal has announced a record of another process."""
        if self._heard_seq > self.run.seq:
            self.look_again()
        elif self.mine.has_news:
            self.news()
        self.mine.has_news = False

    def look_again(self) -> None:
        """Have the next look read the journal: there may be new records."""
        self._is_behind = True
        self.news()

    def wake_waiters(self) -> None:
        self._moved.set_result(None)
        self._moved = asyncio.get_running_loop().create_future()

    # --- recording ---

    async def record(self, wanted: Wanted, *with_it: Change, release: bool = False) -> list[Event]:
        """Append the events, or the late outcomes that replace them. See `Ownership.record`."""
        return await self.stubborn(lambda: self.mine.record(wanted, *with_it, release=release))

    async def event_at(self, seq: int, kind: type[E]) -> E:
        """Return the event of a record, of which the run keeps only the number."""
        [record] = await self.services.journal.read(self.run.id, after_seq=seq - 1, limit=1)
        assert isinstance(record.event, kind)
        return record.event

    async def begin(self, wanted: Wanted, *with_it: Change) -> list[Event]:
        """Append the events once the gate is open, and return what was recorded.

        The action that they announce may begin only after this returns.

        Raises:
            Interrupted: the run is being unwound.
            OutOfLimits: a limit is reached, and the agent has to finish.
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
            await self.moved()  # a control came first, and the next look obeys it

    async def say(self, part: str, text: str, *, offset: int) -> None:
        """Add text to a part once the gate is open. Return when the text is durable.

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
        """Add text to a part, and return whether the run accepted it in its current state."""
        return await self.stubborn(
            lambda: self.mine.say(part, text, offset=offset, while_pausing=while_pausing)
        )

    async def testify(self, late: LateResult) -> None:
        """Record the late result of a step that began here, for the current owner of the run."""
        await self.services.journal.witness.testify(self.run.id, late)

    # --- waiting ---

    async def may_start(self) -> None:
        """Wait until the gate, the kill switch and the lease all allow a call.

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
        """Return when this process may act, by its own clock.

        That is at once, unless it stood still or could not reach its store for as long as its
        lease. Then it renews the lease first.

        Raises:
            Fenced: another process owns the run now.
        """
        while self.is_lost or self._is_dropped or not self.services.licence.holds:
            if self.is_lost or self._is_dropped:
                epoch, why = self.lease.epoch, "another process has taken it over"
                raise Fenced(self.run.id, epoch=epoch, current_epoch=self.run.epoch, why=why)
            self.services.licence.ask()
            await self.moved()

    def refusal(self) -> str:
        """Return why the kill switch lets nothing start for this run. Empty: it allows starts."""
        return self.services.switch.refusal(*self.whose)

    def mind(self, what: str, goes_on: Callable[[], bool] | StartedWork) -> None:
        """Register work of this run that belongs to no step.

        If it goes on while the kill switch holds the run, the switch names it.
        """
        self.services.mind(self.whose, f"{what} of run {self.run.id}", goes_on)

    async def _heed_the_switch(self) -> None:
        """Read the switch now, and wait for the next look, which obeys it."""
        self.services.switch.look()
        self.news()
        await self.moved()

    async def moved(self) -> None:
        """Wait for the next look at the run. Return at once if this process has let it go."""
        if not self._is_dropped:
            await asyncio.shield(self._moved)

    async def rest(self, seconds: float) -> None:
        """Wait this long, in memory only. A pause or a cancel does not wait for it."""
        alarm = Alarm(self.services.alarms, self.news)
        alarm.set(seconds)
        self.backing_off += 1
        try:
            while alarm.is_set and not self.gate.is_closed:
                await self.moved()
        finally:
            alarm.off()
            self.backing_off -= 1
        await self.gate.passes()

    async def until(self, holds: Callable[[Run], bool]) -> None:
        """Wait until this holds of the run, and then for the gate. The run counts as waiting."""
        self.waiting += 1
        self.news()
        try:
            while not holds(self.run):
                if self.gate.is_closed:
                    break
                await self.moved()
        finally:
            self.waiting -= 1
            self.news()
        await self.gate.passes()

    async def stand_still(self) -> None:
        """Stand at a checkpoint: return at once, or, while the run is paused, after its resume."""
        await self.mine.catch_up()
        is_granted = current_flight() is not None and self.lets_steps_finish
        if self.is_only_unwinding or is_granted:
            return  # it passed this point before, or has time to finish
        if self.run.state is not RunState.RUNNING:
            self.news()
            await self.moved()
        await self.gate.passes()

    @contextmanager
    def busy(self) -> Generator[None]:
        """While inside, a door is at work: the run does not count as waiting or paused."""
        task = asyncio.current_task()
        self.busy_tasks.append(task)
        try:
            yield
        finally:
            self.busy_tasks.remove(task)
            self.news()

    @contextmanager
    def cutting(self, flight: Flight, process: Process) -> Generator[Reach]:
        """While inside, controls reach the process even if this event loop is blocked."""
        reach = Reach(flight.manner, process)
        with self.services.control.cutting(self.run.id, reach.hear, after_seq=flight.begun_seq):
            yield reach

    # --- doing ---

    async def fly(self, flight: Flight, call: Callable[[], Awaitable[Any]]) -> list[Event] | None:
        """Carry out a step whose intent is recorded, and return its recorded outcome."""
        self.flights.add(flight)
        if flight.started:
            flight.started.store = self.services.journal.path
            flight.started.mark = self.services.processes.mark_for_steps
        try:
            # A cancel acknowledged during the record of the intent counts.
            await self.stubborn(self.mine.catch_up)
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
            if not landed.done() or landed.cancelled():  # the agent itself cancelled the call
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
        """Decide a step that the agent cancelled while its intent was being recorded.

        Nothing of it began, so it is recorded as interrupted.
        """
        await self.stubborn(self.mine.catch_up)
        known = self.run.steps.get(step)
        if known and known.status == "started" and all(f.step != step for f in self.flights):
            await self.record(StepInterrupted(step=step, attempt=known.attempt, began=False))
        self.news()

    def aside(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]":
        """Begin work that the agent does not wait for. The run does not complete before it."""
        task = asyncio.create_task(work)
        self.asides.add(task)
        task.add_done_callback(self._side_is_done)
        return task

    def later(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._later.add(task)
        task.add_done_callback(self._later.discard)

    def _land(self, flight: Flight) -> None:
        self.flights.discard(flight)
        what, started = f"what step {flight.name!r} has started", flight.started
        if flight.rung == "abandoned" or (flight.rung and flight.is_working):
            what = f"step {flight.name!r}"
            self.mind(what, lambda: flight.is_working)
        else:
            flight.started = None  # from here on only its running work refers to it
        if started:
            self.mind(what, started)
        is_stopping = self.run.state in (RunState.PAUSING, RunState.CANCELLING)
        if is_stopping and (flight.rung == "abandoned" or not self.rung):
            self.rung = flight.rung
        self.news()

    def _side_is_done(self, task: "asyncio.Task[Any]") -> None:
        self.asides.discard(task)
        if not task.cancelled():
            task.exception()  # its caller gets the error from the result
        self.news()

    async def stubborn(self, work: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `work`. Retry while storage fails, unless a shutdown cannot wait."""
        while True:
            try:
                return await work()
            except StorageFailed as failed:
                if self.leaving == "now" or self._is_dropped:
                    raise
                _log.warning("Run %s holds: %s", self.run.id, failed)
                await asyncio.sleep(self.services.timing.retry_storage_s)

    # --- being let go ---

    def drop(self) -> None:
        """Stop its steps and wake its waiters, and record nothing."""
        self._is_dropped = True
        self.mine.life.ended(self.run)
        self.gate.close()
        self.wake_waiters()
        for flight in self.flights:
            flight.stop()
            if flight.manner.run_in != "process":  # its warden answers for that step
                self.mind(f"step {flight.name!r}", lambda one=flight: one.is_working)
            if flight.landed:  # its late result goes to the current owner
                self.services.waits_for(flight.landed)
        for aside in self.asides:
            aside.cancel()
