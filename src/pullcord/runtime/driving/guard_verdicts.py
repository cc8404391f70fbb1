"""Carries out a guard's verdict on a run: stop it, and keep the match as evidence.

One transaction has both evidence and stop, so no crash leaves the one without the other. The agent,
people and the log read the guard's name, never its match.
"""

import asyncio
from typing import Final, NoReturn

import msgspec

from pullcord.core.commands import Cancel, Pause
from pullcord.core.events import Event, GuardTripped, StepFailed, StepFinished, StepInDoubt
from pullcord.core.states import RunState
from pullcord.core.text.screening import Hit
from pullcord.core.values import Json, dump
from pullcord.errors import NotDone
from pullcord.journal.rules.ledger import Order
from pullcord.runtime.driving.live_run import LiveRun

RESULT: Final = "result"  # the part name of a run's result or error
_EVIDENCE_CHARS: Final = 2**20


async def trip(live: LiveRun, hit: Hit, *, step: str = "", part: str = "") -> None:
    """Record a guard's match and its stop, even if the caller is cancelled meanwhile."""
    live.memory.trips(step, part, hit.guard)
    await asyncio.shield(asyncio.ensure_future(_trip(live, hit, step, part)))


async def _trip(live: LiveRun, hit: Hit, step: str, part: str) -> None:
    tripped = GuardTripped(
        guard=hit.guard,
        on_hit=hit.on_hit,
        step=step,
        part=part,
        evidence=storable(hit.evidence[:_EVIDENCE_CHARS]),
    )
    by, reason = f"guard {hit.guard}", f"guard {hit.guard} has found what it watches for"
    stop = Pause(by=by, reason=reason, source="guard")
    is_ending = live.run.state is RunState.STOPPING  # a stopping run cannot be resumed
    if hit.on_hit == "cancel" or is_ending:
        stop = Cancel(by=by, reason=reason, source="guard", quarantine=True)
    with live.busy():
        await live.record(tripped, Order(live.run.id, stop))
        await live.mine.catch_up()


async def pass_or_cut(live: LiveRun, said: str | Json, *, part: str) -> None:
    """Return if no guard finds anything in the agent's next text or action.

    Raises:
        NotDone: a guard found something, and a person let the run go on. Each later visit gets the
            same error.
        Interrupted: the run is being unwound.
    """
    if not live.guards:
        return
    if part in live.memory.tripped:
        raise withheld_from(live, part)
    found = live.guards.hit_in(said) if isinstance(said, str) else live.guards.hit_in_json(said)
    if found is not None:
        await cut(live, found, part=part)


async def cut(live: LiveRun, hit: Hit, *, part: str) -> NoReturn:
    """Stop the run in the middle of its text."""
    await trip(live, hit, part=part)
    await live.stand_still()
    raise withheld_from(live, part)


def withheld_from(live: LiveRun, part: str) -> NotDone:
    return NotDone(part, outcome="interrupted", why=words(live.memory.tripped[part]))


def words(guard: str) -> str:
    return f"guard {guard} has cut it"


async def outcome_passed(live: LiveRun, outcome: Event) -> Event:
    """Return a step's outcome as it may be recorded: whole, or without its content.

    The fact that it happened is never withheld, because an undo finds it by that.
    """
    if not isinstance(outcome, StepFinished | StepFailed | StepInDoubt):
        return outcome
    found = _found_in(live, outcome)
    if found is None:
        if isinstance(outcome, StepFinished) and live.run.steps[outcome.step].tool:
            live.guards.hear(outcome.result)
        return outcome
    if outcome.step not in live.memory.tripped:  # its output has not tripped it before
        await trip(live, found, step=outcome.step)
    said = f"guard {found.guard} withholds what came of it"
    step, attempt = outcome.step, outcome.attempt
    if isinstance(outcome, StepInDoubt):
        return StepInDoubt(step=step, attempt=attempt, why=said)
    if isinstance(outcome, StepFailed):
        return msgspec.structs.replace(outcome, error=f"ToolFailed: {said}", at="", traceback="")
    if found.on_hit == "cancel":  # late evidence, for an undo
        return StepFinished(step=step, attempt=attempt, result=dump(said))
    return StepFailed(step=step, attempt=attempt, error=f"ToolFailed: {said}", happened="yes")


def _found_in(live: LiveRun, outcome: StepFinished | StepFailed | StepInDoubt) -> Hit | None:
    known = live.run.steps[outcome.step]
    guards = live.guards.of_tools() if known.tool else live.guards
    match outcome:
        case StepFailed(error=error, traceback=where):
            return guards.hit_in(f"{where}\n{error}" if where else error)
        case StepInDoubt(why=text):
            return guards.hit_in(text)
        case StepFinished() if known.model:
            return None  # checked while it came
        case StepFinished(result=result):
            return guards.hit_in_json(result)


def storable(text: str) -> str:
    """Return text that can be stored: lone surrogates and NUL become replacement characters."""
    return text.encode(errors="replace").decode().replace("\0", "�")
