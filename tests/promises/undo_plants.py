"""Bugs planted in the undoing, to show that a crash at every write finds them.

Each is planted in the process that dies and in the one that takes over: `plant(object, name,
value)` is `setattr` in the one and pytest's in the other.
"""

import sys
from collections.abc import Callable
from typing import Any, Final, TypeAlias

from pullcord.core import undo
from pullcord.core.events import StepUndone, UndoFailed, UndoStarted
from pullcord.core.run import Run, Step
from pullcord.journal.rules import ledger
from pullcord.runtime.driving import undoing
from pullcord.runtime.driving.undoing import Undoing, policy_for

Plant: TypeAlias = Callable[[Any, str, Any], None]


def the_oldest_is_undone_first(plant: Plant) -> None:
    honest = undo.to_undo

    def backwards(run: Run) -> list[str]:
        return honest(run)[::-1]

    for name, module in list(sys.modules.items()):  # whoever decides what is undone next
        if name.startswith("pullcord.") and getattr(module, "to_undo", None) is honest:
            plant(module, "to_undo", backwards)


def _careless(*, intent: bool, early: bool) -> Any:
    async def careless(self: Any, step: str) -> None:
        driver = self._live
        known = driver.run.steps[step]
        policy = policy_for(step, known, driver.tools, driver.services.policies)
        call = await self._call(step, known)
        attempt = known.undo_attempt + 1
        if intent:
            await driver.record(UndoStarted(step=step, attempt=attempt))
        if early:
            await driver.record(StepUndone(step=step))
        if not await self._try(step, policy, call, attempt) and not early:
            await driver.record(StepUndone(step=step))

    return careless


def it_is_called_undone_before_it_is(plant: Plant) -> None:
    plant(Undoing, "_undo", _careless(intent=True, early=True))


def it_is_begun_without_an_intent(plant: Plant) -> None:
    plant(Undoing, "_undo", _careless(intent=False, early=False))


def what_was_begun_is_taken_for_done(plant: Plant) -> None:
    honest = Undoing._undo  # pyright: ignore[reportPrivateUsage]

    async def trusting(self: Any, step: str) -> None:
        if self._live.run.steps[step].undo == "started":
            await self._live.record(StepUndone(step=step))
        else:
            await honest(self, step)

    plant(Undoing, "_undo", trusting)


def a_once_undo_that_was_cut_is_called_again(plant: Plant) -> None:
    async def again(self: Any, step: str, _policy: Any, _call: Any) -> None:
        await _careless(intent=True, early=False)(self, step)

    plant(Undoing, "_find_out", again)


def a_once_undo_that_failed_is_called_again(plant: Plant) -> None:
    def any_effect(_undo: Any) -> str:
        return "idempotent"

    plant(undoing, "_effect", any_effect)


def a_failure_is_not_pointed_out(plant: Plant) -> None:
    async def silent(self: Any, step: str, error: str) -> None:
        await self._live.record(UndoFailed(step=step, error=error))

    plant(Undoing, "_give_up", silent)


def one_failure_ends_it_all(plant: Plant) -> None:
    honest = undo.would_undo

    def discouraged(run: Run, **which: Any) -> list[str]:
        has_failed = any(known.undo == "failed" for known in run.steps.values())
        return [] if has_failed else honest(run, **which)

    plant(undo, "would_undo", discouraged)


def what_is_in_doubt_is_left(plant: Plant) -> None:
    def surely_happened(known: Step) -> bool:
        return known.status == "finished"

    plant(undo, "may_have_happened", surely_happened)


def an_ended_run_is_forgotten(plant: Plant) -> None:
    if plant is setattr:
        return  # the one that dies would not come to its end
    honest = ledger._due_ms  # pyright: ignore[reportPrivateUsage]

    def never(run: Run, head: Any, events: Any) -> int:
        return 0 if run.ended else honest(run, head, events)

    plant(ledger, "_due_ms", never)


PLANTED: Final = (
    (the_oldest_is_undone_first, "three_that_can_be_undone"),
    (it_is_called_undone_before_it_is, "three_that_can_be_undone"),
    (it_is_begun_without_an_intent, "three_that_can_be_undone"),
    (what_was_begun_is_taken_for_done, "three_that_can_be_undone"),
    (a_once_undo_that_was_cut_is_called_again, "undone_at_most_once"),
    (a_once_undo_that_failed_is_called_again, "undone_at_most_once"),
    (a_failure_is_not_pointed_out, "one_that_always_fails"),
    (one_failure_ends_it_all, "one_that_always_fails"),
    (what_is_in_doubt_is_left, "one_that_is_cut_by_the_cancel"),
    (an_ended_run_is_forgotten, "undone_later"),
)
