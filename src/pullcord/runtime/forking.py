"""The birth of a run that goes on from what another has done."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, TypeAlias

from pullcord.core.events import Created
from pullcord.core.limits import Limits, Then, inherited, price_in
from pullcord.core.run import Run
from pullcord.core.values import dump
from pullcord.errors import InvalidInput
from pullcord.journal.journal import Journal
from pullcord.runtime.starting_limits import Given
from pullcord.runtime.steps.identity import LONG_IDS

LimitsFor: TypeAlias = Callable[[str, Given, Then | None, str], Awaitable[Limits]]
"""Agent, limits as they are given, what happens then, model: what that makes."""


class Fork(NamedTuple):
    """What is asked for. See `RunHandle.fork` and `RunHandle.ask_aside`."""

    by: str
    at: int | None
    aside: str | None
    limits: Given
    on_exhausted: Then | None
    made: str  # its id, and its thread


async def born_of(journal: Journal, run_id: str, fork: Fork, limits_for: LimitsFor) -> Created:
    """Return the first record of the new run.

    Raises:
        InvalidInput: there is nothing there that may be gone on from.
        RunForgotten: there is nothing there any more.
    """
    first = await journal.families.reusable(run_id, what="fork")
    source = await journal.load(run_id)
    place = source.seq if fork.at is None else fork.at
    if not 1 <= place <= source.seq:
        raise InvalidInput(
            f"Cannot fork run {run_id} at record {fork.at}: it has {source.seq}. Nothing was "
            f"started. See its records: pullcord show {run_id}"
        )
    is_aside = fork.aside is not None  # a question: a run out of budget can be asked too
    bound = await journal.families.budgets_of(run_id)
    known, used = inherited(bound) if bound else (None, await journal.families.used(run_id))
    own = await _limits_like(source, known, fork, limits_for)
    return Created(
        agent=first.agent,
        thread=fork.made,
        input=first.input if fork.aside is None else dump(fork.aside),
        code_version=first.code_version,
        target=first.target,
        cwd=first.cwd,
        by=fork.by,
        forked_from=run_id,
        forked_at=place,
        aside=is_aside,
        model=first.model,
        limits=own,
        price=price_in(own) or source.price,
        used=None if is_aside else used,
        runaway=first.runaway,
        ids=LONG_IDS if is_aside else first.ids,  # it knows again what its source has done
    )


async def _limits_like(
    source: Run, known: Limits | None, fork: Fork, limits_for: LimitsFor
) -> Limits:
    """Those that bind the run that another goes on from, or others."""
    given, then = fork.limits, fork.on_exhausted
    if known is not None and fork.aside is None:
        if given is None and then is None:
            return known
        given, then = known.condition if given is None else given, then or known.then
    return await limits_for(source.agent, given, then, source.model)
