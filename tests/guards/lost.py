"""Agents that lose their way, and a short way to write down what a run has done."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from pydantic_ai import Agent, ModelRetry
from pydantic_ai import messages as m

from pullcord.core.action_trail import Runaway
from pullcord.core.events import (
    Claimed,
    Created,
    Event,
    Record,
    StepFailed,
    StepFinished,
    StepStarted,
)
from pullcord.core.fold import replay
from pullcord.core.run import Run
from pullcord.core.values import dump
from pullcord.testing.scripted import Answer, Call, ScriptedModel


def calls_for_ever(calls: Iterable[Call]) -> Callable[[list[m.ModelMessage]], Answer]:
    """A model that makes these calls, over and over. It does not hear what comes of them."""
    coming = itertools.cycle(calls)
    return lambda _: [next(coming)]


def wanderer(calls: Iterable[Call], did: list[str]) -> "Agent[Any, Any]":
    """An agent that reads and tests for ever, and never learns anything."""

    async def read(path: str) -> str:
        did.append(f"read {path}")
        return f"the text of {path}"

    async def test() -> str:
        did.append("test")
        return "1 failed"

    async def fails(what: str) -> str:
        did.append(f"fails {what}")
        raise ModelRetry(f"there is no {what}")

    model = ScriptedModel(calls_for_ever(calls), keep=False)
    return Agent(model, name="wanderer", tools=[read, test, fails], retries=1000)


_numbers = itertools.count(1)


def call(tool: str, args: Any = None, result: Any = "same", *, error: str = "") -> list[Event]:
    """A call and what came of it."""
    step = f"s{next(_numbers)}"
    started = StepStarted(step=step, name=tool, tool=tool, args=dump(args))
    if error:
        return [started, StepFailed(step=step, error=error)]
    return [started, StepFinished(step=step, result=dump(result))]


def coming(tool: str, args: Any = None, *, attempt: int = 1) -> StepStarted:
    return StepStarted(step="next", name=tool, tool=tool, args=dump(args), attempt=attempt)


def asked() -> list[Event]:
    """A request to a model: from here on it is a model that chooses what is called."""
    step = f"s{next(_numbers)}"
    return [StepStarted(step=step, name="model", model="scripted"), StepFinished(step=step)]


def lived(*happened: Iterable[Event], runaway: Runaway | None = None, every_ms: int = 10) -> Run:
    """A run in which that has happened, a record every so often."""
    events: list[Event] = [
        Created(agent="a", thread="t", runaway=runaway),
        Claimed(owner="w", epoch=1),
    ]
    events += itertools.chain(*happened)
    return replay(
        "r1", [Record("r1", n, n * every_ms, 1, event) for n, event in enumerate(events, start=1)]
    )
