"""Carrying a step out at most once: answered from memory, tried, tried again, or asked about."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, get_args

import msgspec

from pullcord.core.events import (
    DoubtSettled,
    Effect,
    Event,
    Remembered,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
)
from pullcord.core.limits import Reserve
from pullcord.core.run import Run
from pullcord.core.text.secrets import Secrets, names_a_secret
from pullcord.core.values import Json, dump, load
from pullcord.errors import Interrupted, InvalidInput, NotDone, OutOfLimits, StepError
from pullcord.runtime.doors.questions import (
    ask_about_inherited,
    ask_until_chosen,
    ask_what_happened,
)
from pullcord.runtime.driving.guard_verdicts import outcome_passed, pass_or_cut
from pullcord.runtime.driving.live_run import LiveRun
from pullcord.runtime.policy import Retry
from pullcord.runtime.processes.started_work import StartedWork
from pullcord.runtime.starting_limits import ask_own_conditions
from pullcord.runtime.steps.failures import described
from pullcord.runtime.steps.flight import Flight
from pullcord.runtime.steps.identity import Identity
from pullcord.runtime.steps.manner import Manner
from pullcord.runtime.steps.memory import PROBED, Past


class Permit(msgspec.Struct, frozen=True):
    """What a step may begin with: its arguments, and by whose word, if it needed one."""

    args: Json
    approval: str = ""
    call: str = ""


class Probed(msgspec.Struct, frozen=True):
    """What a probe has found out."""

    happened: bool
    result: Json


class Intent(msgspec.Struct, frozen=True, kw_only=True):
    """What is recorded before a step may begin. `with_it`: what is recorded together with it."""

    identity: Identity
    manner: Manner
    with_it: Callable[[Run], list[Event]] | None = None
    undoable: bool = False
    tool: str = ""
    where: str = ""
    home: str | None = None  # the file of its function, if what that starts belongs to the step
    model: str = ""
    reserve: Reserve | None = None
    wraps_up: bool = False
    continues: bool = False


class Wish(Intent, frozen=True, kw_only=True):
    """A step as the agent asks for it.

    `work` carries one attempt out; `permit` says, right before the first, with which arguments it
    may begin, or raises; `probe` says whether an attempt that was cut off has happened.
    """

    work: Callable[[Flight, Permit], Awaitable[Any]]
    permit: Callable[[], Awaitable[Permit]]
    retry: Retry
    probe: Callable[[Json], Awaitable[Probed | None]] | None = None


def plain_step(
    identity: Identity,
    function: Callable[..., Awaitable[Any]],
    args: tuple[Any, ...],
    manner: Manner,
    retry: Retry,
    secrets: Secrets,
) -> Wish:
    """An async function of the agent's own, as it is; called with what references stand for.

    Raises:
        InvalidInput: it cannot be carried out like that.
    """
    name = identity.name
    if manner.effect not in get_args(Effect):
        raise InvalidInput(
            f"Step {name!r} cannot have the effect {manner.effect!r}: it is 'once', 'idempotent' "
            "or 'none'. Nothing was started."
        )
    if inspect.iscoroutine(function):
        called = function.__name__
        function.close()  # else Python says that it was never awaited, which is true of ours too
        raise InvalidInput(
            f"Step {name!r} cannot be carried out: it was given {called}(...), which is called "
            "already, instead of the function: a step calls it itself, again after a restart. "
            f"Nothing was started. Write: ctx.step({name!r}, {called}, ...) with its arguments "
            "behind it."
        )
    if not inspect.iscoroutinefunction(function):
        called = getattr(function, "__qualname__", repr(function))
        raise InvalidInput(
            f"Step {name!r} cannot be carried out: {called} is not an async function, "
            "and one that blocks could not be stopped. Nothing was started. "
            "Make it async, or call it as a tool, in a process of its own: ctx.tool(...)"
        )
    if retry.attempts > 1 and manner.effect == "once":
        raise InvalidInput(
            f"Step {name!r} cannot be retried: its effect is 'once', so a second attempt could "
            "do it twice. Nothing was started. If that is harmless, say so with "
            "effect='idempotent' (or 'none', if it only reads)."
        )
    given = Permit(dump(list(args)))

    async def permit() -> Permit:
        return given

    async def work(_flight: Flight, _permit: Permit) -> Any:
        if names_a_secret(given.args):
            return await function(*secrets.reveal_value(args, tool=name))
        return await function(*args)

    home = function.__code__.co_filename
    return Wish(identity=identity, work=work, permit=permit, manner=manner, retry=retry, home=home)


async def carry_out_step(live: LiveRun, wish: Wish) -> Any:
    """Return the step's result, of this life or an earlier one.

    Raises:
        StepError: it raised, as often as it may.
        NotDone: nobody allowed it, or it was stopped.
        Interrupted: the run is being unwound.
    """
    past = live.memory.steps.get(wish.identity.id)
    if told := live.memory.refused.get(wish.identity.id):
        raise NotDone(told.name, outcome=told.outcome, why=told.why)
    if past is not None:
        past.is_met = True
    if past is None:
        past = await _changed(live, wish)
    while past is not None:
        match past:
            case Past(status="finished"):
                return load(past.result)
            case Past(status="failed") if past.failures >= wish.retry.attempts:
                raise _failed(wish, past)
            case Past(status="failed", happened="yes"):
                raise _failed(wish, past)
            case Past(redirected=True):
                raise _redirected(wish)
            case Past(skipped=True):
                return None
            case Past(rerun=False) if past.is_unknown:
                past = await _find_out(live, wish, past)
            case _:
                break
    return await _try(live, wish, past.failures if past else 0)


def _failed(wish: Wish, past: Past) -> StepError:
    return StepError(wish.identity.name, error=past.error, at=past.at, happened=past.happened)


def _redirected(wish: Wish) -> NotDone:
    return NotDone(wish.identity.name, outcome="interrupted", why="it was stopped by a redirect")


async def _find_out(live: LiveRun, wish: Wish, past: Past) -> Past:
    """Ask the tool itself what became of a call that was cut off, or else a person."""
    who = wish.identity
    if past.inherited:
        return await _find_out_of_another_run(live, wish, past)
    mine = live.run.steps.get(who.id)
    is_open = mine is not None and mine.status == "in_doubt" and not mine.settled
    if wish.probe and is_open and (found := await wish.probe(past.args)) is not None:
        choice = "happened" if found.happened else "run"
        result = live.services.secrets.seal_json(found.result, screen=True)
        by = f"probe of {wish.tool}"
        await live.begin(
            DoubtSettled(by=by, source="policy", step=who.id, choice=choice, result=result)
        )
        if found.happened:
            return msgspec.structs.replace(past, status="finished", result=result)
        return msgspec.structs.replace(past, rerun=True)
    return await ask_what_happened(live, who, past)


async def _find_out_of_another_run(live: LiveRun, wish: Wish, past: Past) -> Past:
    """The same of a step of a run that this one goes on from. What its tool says is remembered
    here; a person is asked about all such steps at once."""
    who = wish.identity
    key = f"{PROBED}{who.id}"
    found = live.memory.values.get(key)
    if wish.probe and found is None and (said := await wish.probe(past.args)) is not None:
        result = live.services.secrets.seal_json(said.result, screen=True)
        found = dump({"result": load(result)} if said.happened else {})
        await live.begin(Remembered(key=key, value=found))
    if found is None:
        return await ask_about_inherited(live, who.id)
    match load(found):
        case {"result": result}:
            return msgspec.structs.replace(past, status="finished", result=dump(result))
        case _:
            return msgspec.structs.replace(past, rerun=True)


async def _changed(live: LiveRun, wish: Wish) -> Past | None:
    """A step at a place where one with other arguments stood: the code was changed."""
    who = wish.identity
    before = live.memory.changed(who.scope, who.name, who.place, who.digest)
    if before is None or (before.status == "failed" and not before.happened):
        return None
    if wish.manner.effect != "once":
        before.is_met = True
        return None
    text = (
        f"Step {who.name!r} was carried out before with other arguments. "
        "Run it with the new ones, or skip it and go on with the earlier result?"
    )
    choice, _ = await ask_until_chosen(live, f"changed-{who.id}"[:64], text, ("run", "skip"))
    if choice == "run":
        return None
    before.is_met = True
    if before.status == "finished":
        return before
    status = "in_doubt" if before.status == "failed" else before.status
    return msgspec.structs.replace(before, status=status, skipped=True)


async def _try(live: LiveRun, wish: Wish, failures: int) -> Any:
    who = wish.identity
    while True:
        permit = await wish.permit()
        await pass_or_cut(live, permit.args, part=f"args-{who.id}")
        flight = await begin(live, wish, permit)
        outcome = await live.fly(flight, lambda f=flight, p=permit: wish.work(f, p))
        match outcome:
            case [StepFinished(result=result)]:
                return load(result)  # as it was recorded: what later lives are told
            case [StepFailed(error=error, happened=happened, at=at)]:
                failures += 1
                if flight.is_withheld:
                    await live.stand_still()  # the run is stopped for it, also if it could fail
                if failures >= wish.retry.attempts or happened == "yes":
                    raise StepError(
                        who.name, error=error, at=at, happened=happened
                    ) from flight.error
                await live.rest(wish.retry.wait(failures))
            case _:  # interrupted, in doubt, late, or lost: the run stops, or it is begun again
                await _after_a_cut(live, wish, flight, outcome)
                if outcome and isinstance(outcome[0], StepInDoubt):
                    past = Past(who.name, who.digest, wish.manner.effect, flight.attempt)
                    past.status, past.args = "in_doubt", permit.args
                    past.scope, past.error = who.scope, outcome[0].why
                    live.memory.steps[who.id] = past
                    return await carry_out_step(live, wish)


async def _after_a_cut(
    live: LiveRun, wish: Wish, flight: Flight, outcome: list[Event] | None
) -> None:
    """Return if there is something to be done about a step that was cut; else raise."""
    name = wish.identity.name
    if flight.is_redirected and outcome is not None and live.run.cancel is None:
        raise _redirected(wish)
    is_in_doubt = outcome is not None and isinstance(outcome[0], StepInDoubt)
    last = outcome[0] if outcome else None
    is_unbegun = isinstance(last, StepInterrupted) and not last.began
    may_go_on = wish.manner.effect != "once" or is_in_doubt or is_unbegun
    if live.run.cancel is None and may_go_on and outcome is not None:
        return
    await live.gate.passes()
    if flight.error is not None:
        raise StepError(name, error=described(flight.error))
    raise Interrupted(f"step {name!r} was interrupted")


async def begin(live: LiveRun, wish: Intent, permit: Permit) -> Flight:
    """Record the intent, when the gate lets it: only then may anything happen."""
    who = wish.identity

    def intent(run: Run) -> list[Event]:
        before = run.steps.get(who.id)
        return [
            *(wish.with_it(run) if wish.with_it else ()),
            StepStarted(
                step=who.id,
                name=who.name,
                attempt=before.attempt + 1 if before else 1,
                effect=wish.manner.effect,
                undoable=wish.undoable,
                digest=who.digest,
                args=permit.args,
                scope=who.scope,
                place=who.place,
                tool=wish.tool,
                where=wish.where,
                run_in=wish.manner.run_in,
                approval=permit.approval,
                call=permit.call,
                model=wish.model,
                reserve=wish.reserve,
                wraps_up=wish.wraps_up,
                cut_by_redirect=not wish.model and wish.manner.on_redirect == "cancel",
                continues=wish.continues,
            ),
        ]

    try:
        if not wish.wraps_up:
            await ask_own_conditions(live)
        await live.begin(intent)
    except OutOfLimits as limit:
        raise OutOfLimits(who.name, leaves=limit.leaves) from None
    except asyncio.CancelledError:
        await asyncio.shield(asyncio.ensure_future(live.never_mind(who.id)))
        raise
    known = live.run.steps[who.id]
    is_watched = wish.home is not None and live.services.timing.watch_starts
    return Flight(
        who.id,
        who.name,
        known.attempt,
        wish.manner,
        begun_seq=known.started_seq,
        record=live.record,
        later=live.later,
        alarms=live.services.alarms,
        clock=live.services.clock,
        passed=(lambda outcome: outcome_passed(live, outcome)) if live.guards else None,
        refusal=live.refusal,
        licensed=live.licensed,
        testify=live.testify,
        started=StartedWork(live.run.id, who.id, wish.home or "") if is_watched else None,
    )
