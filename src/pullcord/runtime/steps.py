"""Carrying a step out at most once: answered from memory, tried, tried again, or asked about."""

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, Final, get_args

import msgspec

from pullcord.core.events import Effect, Event, StepFailed, StepFinished, StepStarted
from pullcord.core.run import Run
from pullcord.core.values import dump, load
from pullcord.errors import Interrupted, InvalidInput, StepError
from pullcord.runtime.driver import Driver
from pullcord.runtime.flight import Flight, described
from pullcord.runtime.identity import Identity
from pullcord.runtime.memory import Past
from pullcord.runtime.questions import ask_until_chosen, ask_what_happened

_FIRST_WAIT_S: Final = 0.5


class Retry(msgspec.Struct, frozen=True, kw_only=True):
    """How often a step is tried, and how long the waits between are: doubled each time."""

    attempts: int = 3
    wait_s: float = _FIRST_WAIT_S
    wait_max_s: float = 30.0

    def wait(self, attempt: int) -> float:
        return min(self.wait_s * 2 ** (attempt - 1), self.wait_max_s)


class Wish(msgspec.Struct, frozen=True):
    """A step as the agent asks for it."""

    identity: Identity
    function: Callable[..., Awaitable[Any]]
    args: tuple[Any, ...]
    effect: Effect
    retry: Retry
    timeout_s: float | None

    def check(self) -> None:
        name = self.identity.name
        called = getattr(self.function, "__qualname__", repr(self.function))
        if self.effect not in get_args(Effect):
            raise InvalidInput(
                f"Step {name!r} cannot have the effect {self.effect!r}: it is 'once', 'idempotent' "
                "or 'none'. Nothing was started."
            )
        if not inspect.iscoroutinefunction(self.function):
            raise InvalidInput(
                f"Step {name!r} cannot be carried out: {called} is not an async function, "
                "and one that blocks could not be stopped. Nothing was started. "
                "Make it async."
            )
        if self.retry.attempts > 1 and self.effect == "once":
            raise InvalidInput(
                f"Step {name!r} cannot be retried: its effect is 'once', so a second attempt could "
                "do it twice. Nothing was started. If that is harmless, say so with "
                "effect='idempotent' (or 'none', if it only reads)."
            )


async def carry_out(driver: Driver, wish: Wish) -> Any:
    """Return the step's result, of this life or an earlier one.

    Raises:
        StepError: it raised, as often as it may.
        Interrupted: the run is being unwound.
    """
    past = driver.memory.steps.get(wish.identity.id)
    if past is not None:
        past.is_met = True
    if past is None:
        past = await _changed(driver, wish)
    while past is not None:
        match past:
            case Past(status="finished"):
                return load(past.result)
            case Past(status="failed") if past.failures >= wish.retry.attempts:
                raise StepError(wish.identity.name, error=past.error)
            case Past(skipped=True):
                return None
            case Past(rerun=False) if _nobody_knows(past):
                past = await ask_what_happened(driver, wish.identity, past)
            case _:
                break
    return await _try(driver, wish, past.failures if past else 0)


def _nobody_knows(past: Past) -> bool:
    return past.effect == "once" and past.status in ("in_doubt", "interrupted", "started")


async def _changed(driver: Driver, wish: Wish) -> Past | None:
    """A step at a place where one with other arguments stood: the code was changed."""
    who = wish.identity
    before = driver.memory.changed(who.scope, who.name, who.place, who.digest)
    if before is None or before.status == "failed":
        return None
    if wish.effect != "once":
        before.is_met = True
        return None
    text = (
        f"Step {who.name!r} was carried out before with other arguments. "
        "Run it with the new ones, or skip it and go on with the earlier result?"
    )
    choice, _ = await ask_until_chosen(driver, f"changed-{who.id}"[:64], text, ("run", "skip"))
    if choice == "run":
        return None
    before.is_met = True
    return before if before.status == "finished" else msgspec.structs.replace(before, skipped=True)


async def _try(driver: Driver, wish: Wish, failures: int) -> Any:
    who = wish.identity
    while True:
        flight = await _begin(driver, wish)
        outcome = await driver.fly(flight, lambda: wish.function(*wish.args))
        match outcome:
            case [StepFinished()]:
                return load(dump(flight.value))
            case [StepFailed(error=error)]:
                failures += 1
                if failures >= wish.retry.attempts:
                    raise StepError(who.name, error=error) from flight.error
                await driver.rest(wish.retry.wait(failures))
            case _:  # interrupted, in doubt, late, or lost: the run stops, or it is begun again
                if driver.run.cancel is None and wish.effect != "once" and outcome is not None:
                    continue
                await driver.gate.passes()
                if flight.error is not None:
                    raise StepError(who.name, error=described(flight.error))
                raise Interrupted(f"step {who.name!r} was interrupted")


async def _begin(driver: Driver, wish: Wish) -> Flight:
    """Record the intent, when the gate lets it: only then may anything happen."""
    who = wish.identity
    args = dump(list(wish.args))

    def intent(run: Run) -> list[Event]:
        before = run.steps.get(who.id)
        return [
            StepStarted(
                step=who.id,
                name=who.name,
                attempt=before.attempt + 1 if before else 1,
                effect=wish.effect,
                digest=who.digest,
                args=args,
                scope=who.scope,
                place=who.place,
            )
        ]

    await driver.begin(intent)
    return Flight(
        who.id,
        who.name,
        driver.run.steps[who.id].attempt,
        wish.effect,
        record=driver.record,
        later=driver.later,
        alarms=driver.site.alarms,
        timeout_s=wish.timeout_s,
    )
