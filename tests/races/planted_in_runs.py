"""Bugs planted in the runtime on purpose. Each is one that peers really have, or that was ours."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
import pytest

from pullcord.core import decide, undo
from pullcord.core.commands import Deny
from pullcord.core.events import ChildBorn, Event, StepStarted
from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.errors import Fenced
from pullcord.journal.rules.ledger import Ledger
from pullcord.journal.watch import Changed
from pullcord.runtime.doors import step
from pullcord.runtime.driving.agent_entry import AgentEntry
from pullcord.runtime.driving.driver import Driver
from pullcord.runtime.driving.live_run import LiveRun
from pullcord.runtime.driving.undoing import Undoing
from pullcord.runtime.housekeeping import Housekeeper
from pullcord.runtime.ownership import Ownership
from pullcord.runtime.steps.flight import Flight
from pullcord.runtime.steps.memory import Memory, Past

Plant = Callable[[pytest.MonkeyPatch], None]


def starts_a_step_before_its_intent_is_durable(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(step, "begin", _a_flight_without_intent)


async def _a_flight_without_intent(driver: LiveRun, wish: Any, _permit: Any) -> Flight:
    who = wish.identity
    await driver.gate.passes()
    intent = StepStarted(step=who.id, name=who.name, effect=wish.manner.effect)
    driver.later(_quietly(driver.record(intent)))
    return Flight(
        who.id,
        who.name,
        1,
        wish.manner,
        record=driver.record,
        later=driver.later,
        alarms=driver.services.alarms,
        clock=driver.services.clock,
        licensed=driver.licensed,
        testify=driver.testify,
    )


async def _quietly(work: Awaitable[object]) -> None:
    await work


def forgets_what_is_finished(patch: pytest.MonkeyPatch) -> None:
    honest = Memory.of.__func__  # pyright: ignore

    def of(cls: Any, records: Any) -> Memory:
        memory: Memory = honest(cls, records)
        memory.steps.clear()
        return memory

    patch.setattr(Memory, "of", classmethod(of))


def repeats_what_is_in_doubt(patch: pytest.MonkeyPatch) -> None:
    def somebody_knows(_past: object) -> bool:
        return False

    patch.setattr(Past, "is_unknown", property(somebody_knows))


def takes_the_end_of_an_unwound_agent_for_its_own(patch: pytest.MonkeyPatch) -> None:
    honest = AgentEntry._ended  # pyright: ignore[reportPrivateUsage]

    def ended(self: AgentEntry, agent: Any) -> None:
        honest(self, agent)
        self.is_done = True

    patch.setattr(AgentEntry, "_ended", ended)


def records_the_outcome_in_the_task_that_is_cut(patch: pytest.MonkeyPatch) -> None:
    async def fly(self: Flight, call: Any) -> list[Event] | None:
        self._inner = asyncio.current_task()  # pyright: ignore[reportPrivateUsage]
        inner: asyncio.Future[Any] = asyncio.ensure_future(call())
        await asyncio.wait({inner})
        return await self._record(self._outcome(inner))  # type: ignore  # pyright: ignore

    patch.setattr(Flight, "_fly", fly)


def passes_no_control_on_to_children(patch: pytest.MonkeyPatch) -> None:
    def pass_on(*_: object) -> None:
        pass

    patch.setattr(Ledger, "_pass_on", pass_on)


def waits_although_the_answer_has_come(patch: pytest.MonkeyPatch) -> None:
    honest = LiveRun.until

    async def until(self: LiveRun, holds: Callable[[Run], bool]) -> None:
        await self.moved()
        first = self.run.woken_seq
        await honest(self, lambda run: holds(run) and run.woken_seq > first)

    patch.setattr(LiveRun, "until", until)


def hears_nothing_of_what_others_do(patch: pytest.MonkeyPatch) -> None:
    def changed(_self: Housekeeper, _runs: Changed) -> None:
        pass

    patch.setattr(Housekeeper, "_changed", changed)


def parks_without_giving_the_run_back(patch: pytest.MonkeyPatch) -> None:
    honest = Driver._give_back  # pyright: ignore[reportPrivateUsage]

    async def give_back(self: Driver) -> None:
        run = self.live.run
        if run.state is RunState.PAUSED and not self.live.leaving:
            raise Fenced(run.id, epoch=0, current_epoch=0, why="forgotten")
        await honest(self)

    patch.setattr(Driver, "_give_back", give_back)


def takes_a_refusal_for_a_loss(patch: pytest.MonkeyPatch) -> None:
    honest = Ownership.retake

    async def retake(self: Ownership, **more: Any) -> bool:
        if not await honest(self, **more):
            raise Fenced(self.run.id, epoch=self.lease.epoch, current_epoch=0, why="lost")
        return True

    patch.setattr(Ownership, "retake", retake)


def catches_up_without_a_turn(patch: pytest.MonkeyPatch) -> None:
    async def catch_up(self: Ownership) -> int:
        return await self._catch_up()  # pyright: ignore[reportPrivateUsage]

    patch.setattr(Ownership, "catch_up", catch_up)


def spawns_after_the_cancel(patch: pytest.MonkeyPatch) -> None:
    honest = LiveRun.begin

    async def begin(self: LiveRun, wanted: Any, *more: Any) -> list[Event]:
        if isinstance(wanted, ChildBorn):
            await self.services.journal.append(*more)
        return await honest(self, wanted, *more)

    patch.setattr(LiveRun, "begin", begin)


def forgets_an_effect_that_came_too_late(patch: pytest.MonkeyPatch) -> None:
    def only_what_finished(known: Any) -> bool:
        return known.status == "finished"

    patch.setattr(undo, "may_have_happened", only_what_finished)


def gives_an_undo_up_when_it_is_hurried(patch: pytest.MonkeyPatch) -> None:
    def hurry(self: Undoing) -> None:
        if self._attempt:  # pyright: ignore[reportPrivateUsage]
            self._attempt.cut()  # pyright: ignore[reportPrivateUsage]

    patch.setattr(Undoing, "hurry", hurry)


def takes_any_answer_for_a_yes(patch: pytest.MonkeyPatch) -> None:
    honest = decide._judge  # pyright: ignore[reportPrivateUsage]

    def judge(run: Run, command: Any, now_ms: int) -> Any:
        decision = honest(run, command, now_ms)
        if not isinstance(command, Deny):
            return decision
        said = [msgspec.structs.replace(e, verdict="approved") for e in decision.events]
        return msgspec.structs.replace(decision, events=tuple(said))

    patch.setattr(decide, "_judge", judge)


PLANTED_IN_RUNS: Final[tuple[Plant, ...]] = (
    starts_a_step_before_its_intent_is_durable,
    forgets_what_is_finished,
    repeats_what_is_in_doubt,
    takes_the_end_of_an_unwound_agent_for_its_own,
    records_the_outcome_in_the_task_that_is_cut,
    passes_no_control_on_to_children,
    waits_although_the_answer_has_come,
    hears_nothing_of_what_others_do,
    parks_without_giving_the_run_back,
    takes_a_refusal_for_a_loss,
    catches_up_without_a_turn,
    spawns_after_the_cancel,
    forgets_an_effect_that_came_too_late,
    gives_an_undo_up_when_it_is_hurried,
    takes_any_answer_for_a_yes,
)
