"""Bugs that are planted on purpose, each in the actors' processes alone, and what finds them.

Production code has no hooks for it: an actor that is born with the name of a plant patches its own
process before it opens the store. Each plant has a scene (see `scenes.py`) that is clean without
it, and the law that the judge must find broken.
"""

import asyncio
import time
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from pullcord.core.events import (
    AttentionRaised,
    Cancelled,
    Event,
    StepInterrupted,
)
from pullcord.runtime.doors import step
from pullcord.runtime.driving import tool_functions, undoing
from pullcord.runtime.driving.driver import Driver
from pullcord.runtime.driving.switch_hold import SwitchHold
from pullcord.runtime.handle import RunHandle
from pullcord.runtime.ownership import Ownership
from pullcord.runtime.processes.warden_client import Process, ToolEnd
from pullcord.runtime.steps import flight
from pullcord.runtime.steps.memory import Memory, Past
from pullcord.server import control_handlers
from tests.world.lives import LEASE_S


class Plant(NamedTuple):
    plant: Callable[[], None]
    scene: str
    law: str
    lease_s: float = LEASE_S


def says_that_a_process_is_over_before_it_is() -> None:
    """The warden is not asked; its answer is made up."""

    def stop(self: Process, grace_s: float = 0.0) -> None:
        def end() -> None:
            if not self.ended.done():
                self.ended.set_result(ToolEnd(began=True, rung="terminated"))

        self.ended.get_loop().call_soon_threadsafe(end)

    _put(Process, "stop", stop)
    _put(Process, "hurry", stop)


def says_that_a_process_is_frozen_before_it_is() -> None:
    def freeze(self: Process) -> None:
        self.is_frozen = True
        self._news()  # pyright: ignore[reportPrivateUsage]

    _put(Process, "freeze", freeze)


def repeats_what_is_in_doubt() -> None:
    def somebody_knows(_: object) -> bool:
        return False

    _put(Past, "is_unknown", property(somebody_knows))


def a_fork_inherits_nothing() -> None:
    def inherit(*_: object) -> None:
        pass

    _put(Memory, "inherit", inherit)


def acts_before_its_intent_is_recorded() -> None:
    honest: Any = step.begin
    early: set[asyncio.Task[Any]] = set()

    async def begin(driver: Any, wish: Any, permit: Any) -> Any:
        first = type("First", (), {"attempt": 1, "step": wish.identity.id})()
        early.add(asyncio.create_task(wish.work(first, permit)))
        await asyncio.sleep(0.3)
        return await honest(driver, wish, permit)

    _put(step, "begin", begin)


def the_switch_is_answered_and_not_obeyed() -> None:
    """A runtime answers that nothing goes on, and goes on."""

    def nothing(*_: object) -> list[tuple[str, str]]:
        return []

    def nobody(*_: object) -> None:
        pass

    _put(SwitchHold, "going_on", nothing)
    _put(Driver, "hold_off", nobody)


def says_undone_and_undoes_nothing() -> None:
    async def about(*_: object) -> None:
        pass

    for module in (tool_functions, undoing):
        _put(module, "about", about)
        _put(module, "about_in_process", about)


def says_done_and_does_nothing() -> None:
    async def carry_out(_self: object, _call: object) -> str:
        return "done"

    _put(flight.Flight, "_carry_out", carry_out)


def calls_what_was_cut_never_begun() -> None:
    _records(
        lambda event: _with(event, began=False) if isinstance(event, StepInterrupted) else event
    )


def lets_go_of_a_thread_without_a_word() -> None:
    def unnamed(event: Event) -> Event | None:
        return None if isinstance(event, AttentionRaised) else _with(event, still_running=())

    _records(unnamed)


def never_says_that_a_cancel_holds() -> None:
    _records(lambda event: None if isinstance(event, Cancelled) else event)


def acknowledges_what_it_did_not_record() -> None:
    """Over HTTP, a control is answered and not written."""
    honest: Any = control_handlers.ask

    async def ask(run: RunHandle, command: Any) -> Any:
        ack = await honest(run, msgspec.structs.replace(command, by="nobody"))
        return msgspec.structs.replace(ack, seq=ack.seq + 1000)

    _put(control_handlers, "ask", ask)


def slow_to_begin() -> None:
    """No bug: between the durable intent and the call a machine may take its time."""
    honest: Any = flight.Flight.take_off

    def take_off(self: flight.Flight, call: Any) -> Any:
        time.sleep(1.0)
        return honest(self, call)

    _put(flight.Flight, "take_off", take_off)


# --- tools of planting --------------------------------------------------------------------------


def _put(where: Any, name: str, value: Any) -> None:
    assert hasattr(where, name), f"{name} is gone: plant it where it is now"
    setattr(where, name, value)


def _with(event: Event, **fields: Any) -> Event:
    known = {name: value for name, value in fields.items() if hasattr(event, name)}
    return msgspec.structs.replace(event, **known) if known else event


def _records(instead: Callable[[Event], Event | None]) -> None:
    """Let owners record something else than they want to, or nothing."""
    honest: Any = Ownership.record

    async def record(self: Ownership, wanted: Any, *with_it: Any, release: bool = False) -> Any:
        def other(run: Any) -> list[Event]:
            asked: Any = wanted(run) if callable(wanted) else (wanted,)
            return [event for one in asked if (event := instead(one)) is not None]

        made = other if callable(wanted) else instead(wanted)
        if made is None:
            return []
        return await honest(self, made, *with_it, release=release)

    _put(Ownership, "record", record)


PLANTS: Final[dict[str, Plant]] = {
    one.plant.__name__: one
    for one in (
        Plant(says_that_a_process_is_over_before_it_is, "cancelled_in_process", "over"),
        Plant(says_that_a_process_is_frozen_before_it_is, "paused_in_process", "over"),
        Plant(repeats_what_is_in_doubt, "killed_in_loop", "once"),
        Plant(a_fork_inherits_nothing, "tried_again_later", "once"),
        Plant(acts_before_its_intent_is_recorded, "cancelled_in_loop", "accounted"),
        Plant(the_switch_is_answered_and_not_obeyed, "pulled_in_loop", "switch"),
        Plant(says_undone_and_undoes_nothing, "undone", "done"),
        Plant(says_done_and_does_nothing, "completed", "done"),
        Plant(calls_what_was_cut_never_begun, "cancelled_in_loop", "accounted"),
        Plant(lets_go_of_a_thread_without_a_word, "cancelled_in_thread", "over"),
        # on a busy machine a short lease lapses, and then another process says it
        Plant(never_says_that_a_cancel_holds, "cancelled_in_vain", "ends", lease_s=60.0),
        Plant(acknowledges_what_it_did_not_record, "told_over_http", "control"),
    )
}
SHIMS: Final = {name: one.plant for name, one in PLANTS.items()} | {"slow_to_begin": slow_to_begin}
"""What an actor can be born with."""
