"""Which limits a run starts with, and the conditions that only its own process can ask."""

import inspect
import logging
from collections.abc import Awaitable, Callable
from functools import cache
from importlib import import_module
from typing import Any, Final

import msgspec

from pullcord.core.conditions import (
    Condition,
    Deadline,
    Spent,
    When,
    as_condition,
    changed,
    leaves,
)
from pullcord.core.events import ConditionMet
from pullcord.core.limits import (
    DEFAULT,
    DEFAULT_OF_MODELS,
    Limits,
    Then,
    check_condition,
    check_then,
    price_in,
)
from pullcord.core.run import Run
from pullcord.errors import InvalidInput
from pullcord.runtime.agents import AgentConfig, Priced
from pullcord.runtime.driving.live_run import LiveRun

_log: Final = logging.getLogger("pullcord.runtime")
Given = Condition | Callable[..., Any] | None


def limits_for(
    agent: AgentConfig, given: Given, then: Then | None, *, model: str, now_ms: int, wall_ms: int
) -> Limits:
    """What a run of this agent starts with: what it is given, what its agent has, or the default.

    Raises:
        InvalidInput: it cannot be kept, or not be found again. Nothing was started.
    """
    own = given if given is not None else agent.limits
    default = DEFAULT_OF_MODELS if isinstance(agent.body, Priced) else DEFAULT
    condition = default.condition if own is None else check_condition(as_condition(own))
    condition = _priced_by(agent, condition) if not model else condition
    for leaf in leaves(condition):
        match leaf:
            case Spent(price=None, lenient=False):
                _check_price(agent, model, leaf)
            case When(where):
                _function(where)
            case _:
                pass

    def due(leaf: Condition) -> Condition:
        if not isinstance(leaf, Deadline):
            return leaf
        ahead_ms = (leaf.at_ms or 0) - wall_ms if leaf.in_s is None else round(leaf.in_s * 1000)
        return msgspec.structs.replace(leaf, due_ms=max(now_ms + ahead_ms, 1))

    follows = check_then(then or agent.on_exhausted or default.then)
    return Limits(changed(condition, due), follows)


def _priced_by(agent: AgentConfig, condition: Condition) -> Condition:
    """With what the agent's own limits say that its model costs: a cap that somebody gives a run
    need not say it again."""
    own = agent.limits
    price = price_in(Limits(as_condition(own))) if own is not None else None

    def say(leaf: Condition) -> Condition:
        if not isinstance(leaf, Spent) or leaf.price is not None:
            return leaf
        return msgspec.structs.replace(leaf, price=price)

    return changed(condition, say) if price is not None else condition


def _check_price(agent: AgentConfig, model: str, leaf: Spent) -> None:
    if isinstance(agent.body, Priced) and not agent.body.is_priced(model):
        raise InvalidInput(
            f"Cannot keep {leaf}: nobody knows what the model of {agent.name} costs. Nothing was "
            f"started. Say it, in US dollars for a million tokens read and written: "
            f"Spent(usd={leaf.usd:g}, price=Price(1.0, 4.0)); or limit Tokens instead."
        )


async def ask_own_conditions(live: LiveRun) -> None:
    """Ask the functions among the conditions of a run. What one has said once holds for good."""
    limits = live.run.limits
    if limits is None:
        return
    for leaf in leaves(limits.condition):
        if isinstance(leaf, When) and str(leaf) not in live.run.met and await _says(leaf, live):
            await live.begin(ConditionMet(condition=str(leaf)))


async def _says(leaf: When, live: LiveRun) -> bool:
    try:
        said: bool | Awaitable[bool] = _function(leaf.where)(live.run.copy())
        return bool(await said if inspect.isawaitable(said) else said)
    except Exception:  # a limit that cannot be asked is one that is reached
        _log.exception("The limit %s of run %s cannot be asked.", leaf, live.run.id)
        return True


@cache
def _function(where: str) -> Callable[[Run], Any]:
    module, _, name = where.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise InvalidInput(
            f"The limit When({where}) cannot be found: {error}. Nothing was started. It has to "
            "stand at the top of a module that every process of this agent can import."
        ) from None
