"""What the tests of runs share: a runtime with bounded waits, a world outside, and eyes."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final, TypeVar

import pullcord
from pullcord import AgentConfig, Run, RunHandle, RunState, Runtime, Timing
from pullcord.core.events import TAGS, Event, QuestionAsked
from pullcord.core.text.secrets import Registered
from pullcord.journal.store import LiveText
from pullcord.runtime.agents import Foreign, Function
from pullcord.runtime.hooks.hook import Notify
from pullcord.runtime.policy import Policies
from pullcord.testing import ManualClock

E = TypeVar("E", bound=Event)
BOUND_S: Final = 120
PARKING: Final = Timing(park_after_s=0)
HASTY: Final = Timing(stop_grace_s=0.05, shutdown_grace_s=0.05)
UNHURRIED: Final = Timing(quiet_s=0)  # with a ManualClock: `advance(0)` lets it come to rest


@asynccontextmanager
async def runtime_with(
    path: Path | str = ":memory:",
    *,
    clock: ManualClock | None = None,
    timing: Timing | None = None,
    tools: Policies | None = None,
    secrets: Registered | None = None,
    notify: Notify | None = None,
    **agents: "AgentConfig | Function | Foreign",
) -> AsyncGenerator[Runtime]:
    """A runtime that knows these agents. A wait that does not end fails the test, also the wait
    for its shutdown."""
    async with (
        asyncio.timeout(BOUND_S + 5),
        pullcord.open(
            path,
            agents=agents,
            clock=clock,
            timing=timing,
            tools=tools,
            secrets=secrets,
            notify=notify,
        ) as runtime,
        asyncio.timeout(BOUND_S),
    ):
        yield runtime


class OutsideWorld:
    """What agents do to the outside. It remembers everything; steps can be held in it."""

    def __init__(self) -> None:
        self.did: list[Any] = []
        self.entered = 0  # how often an agent was entered from the top
        self.go_on = asyncio.Event()  # the test lets what is held in the world go on
        self.begun = asyncio.Event()  # something in the world has been entered: cut it now
        self.noticed = asyncio.Event()  # somebody in the world has come to where the test wants it

    async def do(self, what: Any) -> Any:
        """An effect that is there at once."""
        self.did.append(what)
        return what

    async def slow(self, what: Any) -> Any:
        """An effect that is there only when the test says so."""
        self.begun.set()
        await self.go_on.wait()
        return await self.do(what)

    async def fails(self, what: str) -> None:
        self.did.append(what)
        raise ValueError(what)


async def seen(run: RunHandle, kind: type[E], /, *, nth: int = 1, **fields: object) -> E:
    """Wait for the n-th such event of the run and return it."""
    found = 0
    async with aclosing(run.events()) as stream:
        async for _, item in stream:
            event = getattr(item, "event", None)
            if isinstance(event, kind) and all(getattr(event, k) == v for k, v in fields.items()):
                found += 1
                if found == nth:
                    return event
    raise AssertionError(f"{run} has ended without {kind.__name__} {fields}")


async def events(runtime: Runtime, run_id: str) -> list[Event]:
    """All events in the run's journal."""
    return [record.event for record in await runtime.journal.read(run_id)]


async def names(runtime: Runtime, run_id: str) -> list[str]:
    """The names of all events in the run's journal: what happened, in order."""
    return [TAGS[type(event)] for event in await events(runtime, run_id)]


async def happened(runtime: Runtime, run_id: str, kind: type[E]) -> list[E]:
    """All events of this kind in the run's journal."""
    return [event for event in await events(runtime, run_id) if isinstance(event, kind)]


async def shown(run: RunHandle, *wanted: str) -> str:
    """Wait until all of that has been shown live, and return all that was."""
    said = ""
    async with aclosing(run.events()) as stream:
        async for _, item in stream:
            if isinstance(item, LiveText):
                said += item.text
                if all(text in said for text in wanted):
                    return said
    raise AssertionError(f"{run} has ended, and only {said!r} was shown")


async def question(run: RunHandle, *, nth: int = 1, **fields: object) -> str:
    """Wait until the run asks somebody, and return the name of the n-th (such) question."""
    return (await seen(run, QuestionAsked, nth=nth, **fields)).question


async def settles(run: RunHandle, clock: ManualClock, *states: RunState) -> None:
    """Let a run on a clock that stands still come to rest, without time passing."""
    while (await run.snapshot()).state not in states:
        clock.advance(0)
        await asyncio.sleep(0.001)


async def unowned(runtime: Runtime, run: RunHandle) -> None:
    """Wait until no process has the run in memory."""
    while (await runtime.journal.head(run.id)).holder.owner:  # noqa: ASYNC110 (no record says so)
        await asyncio.sleep(0.001)


async def children(runtime: Runtime, run: RunHandle) -> list[RunHandle]:
    """The runs started under this one, in the order they were born."""
    return [await runtime.get(child) for child in (await run.snapshot()).children]


async def two_lives(
    path: Path, first: "Function", then: "Function", *answers: object
) -> tuple[Any, Run]:
    """Live until the first question, shut down, be entered anew as `then`, and end.

    The n-th question is answered with the n-th of `answers` (one is enough: "yes").
    """
    async with runtime_with(path, agent=first) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await question(run)
    async with runtime_with(path, agent=then) as runtime:
        run = await runtime.get("r1")
        for nth, answer in enumerate(answers or ("yes",), start=1):
            assert (await run.answer(await question(run, nth=nth), answer)).holds
        return await run.result(), await run.snapshot()
