"""Code that holds the event loop is named, by file and line, while it holds it; controls are
answered meanwhile."""

import asyncio
import logging
import threading
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import aclosing, asynccontextmanager, contextmanager
from pathlib import Path

import pytest

import pullcord
from pullcord import Ack, Context, RunState, Timing
from pullcord.core.commands import Cancel, Pause
from pullcord.core.events import AttentionRaised
from pullcord.journal.journal import Journal
from pullcord.runtime.agents import Function
from tests.guards import holds
from tests.runs.observed_runs import happened, runtime_with

HOLDS = Path(holds.__file__)


def line_of(mark: str) -> int:
    lines = HOLDS.read_text().splitlines()
    return next(n for n, line in enumerate(lines, start=1) if mark in line)


class Heard(logging.Handler):
    """What the runtime has warned of. Others may wait for it, in their own threads."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.said: list[str] = []
        self.is_named = threading.Event()

    def emit(self, record: logging.LogRecord) -> None:
        self.said.append(record.getMessage())
        if "event loop" in self.said[-1]:
            self.is_named.set()


@pytest.fixture
def heard() -> Generator[Heard]:
    log, handler = logging.getLogger("pullcord.runtime"), Heard()
    log.addHandler(handler)
    holds.go_on.clear()
    try:
        yield handler
    finally:
        holds.go_on.set()
        log.removeHandler(handler)


@contextmanager
def meanwhile(work: Callable[[], None]) -> Generator[None]:
    """Do something in a thread; whatever becomes of it, the loop is let go on afterwards."""
    failed: list[BaseException] = []

    def carry_out() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)
        finally:
            holds.go_on.set()

    thread = threading.Thread(target=carry_out)
    thread.start()
    try:
        yield
    finally:
        thread.join()
    if failed:
        raise failed[0]


@asynccontextmanager
async def seen_from_outside(path: Path) -> AsyncGenerator[tuple[Journal, AttentionRaised]]:
    """The store as another process sees it, once the run says that something is wrong."""
    async with (
        asyncio.timeout(holds.BOUND_S),
        Journal.open(path) as journal,
        aclosing(journal.changes.subscribe("r1")) as items,
    ):
        async for _, item in items:
            event = getattr(item, "event", None)
            if isinstance(event, AttentionRaised):
                yield journal, event
                return


async def test_a_tool_that_holds_the_loop_is_named_and_controls_are_answered(
    tmp_path: Path, heard: Heard
) -> None:
    path = tmp_path / "runs.db"
    acks: list[Ack] = []
    raised: list[AttentionRaised] = []

    async def outside() -> None:
        assert await asyncio.to_thread(heard.is_named.wait, holds.BOUND_S)
        async with seen_from_outside(path) as (journal, item):
            raised.append(item)
            acks.append(await journal.command("r1", Pause(by="ana")))
            acks.append(await journal.command("r1", Cancel(by="ana")))
        assert not holds.go_on.is_set()  # all that while it was held

    with meanwhile(lambda: asyncio.run(outside())):
        async with runtime_with(path, agent=holds.calls_it) as runtime:
            run = await runtime.start("agent", run_id="r1")
            await run.receipt()
            ended = await run.wait_for(RunState.CANCELLED)
            await until(lambda: len(heard.said) >= 2)
            items = await happened(runtime, "r1", AttentionRaised)
    here = f"{HOLDS}:{line_of('HERE')} in impolite"
    assert here in heard.said[0]
    assert "Run r1: " in heard.said[0]
    assert "(step 'impolite')" in heard.said[0]
    assert [ack.verdict for ack in acks] == ["applied", "applied"]
    assert here in raised[0].text
    assert "Controls are still answered" in raised[0].text
    assert f"{here} held the event loop for " in heard.said[1]
    assert {item.item for item in items} == {raised[0].item}  # one item, said anew at its end
    assert ended.attention.keys() <= {raised[0].item}


async def test_an_agent_that_holds_the_loop_itself_is_named(heard: Heard) -> None:
    with meanwhile(lambda: named(heard)):
        async with runtime_with(agent=holds.holds_itself) as runtime:
            run = await runtime.start("agent", run_id="r1")
            assert await run.result() == "done"
    assert f"Run r1: {HOLDS}:{line_of('THERE')} in holds_itself" in heard.said[0]


@pytest.mark.parametrize(("agent", "name"), [(holds.is_deaf, "deaf"), (holds.counts, "spins")])
async def test_whatever_it_does_meanwhile_its_function_is_named(
    agent: Function, name: str, heard: Heard
) -> None:
    """It sleeps, or it is busy: many lines in turns."""
    with meanwhile(lambda: named(heard)):
        async with runtime_with(agent=agent) as runtime:
            assert await (await runtime.start("agent")).result() == "done"
    assert f"{HOLDS}:" in heard.said[0]
    assert f" in {name} holds the event loop (step '{name}')" in heard.said[0]


async def test_what_belongs_to_no_run_is_named_all_the_same(heard: Heard) -> None:
    """While a run is driven: something else in the same loop."""

    async def waits(ctx: Context) -> str:
        return await ctx.ask("well?")

    with meanwhile(lambda: named(heard)):
        async with runtime_with(agent=waits) as runtime:
            run = await runtime.start("agent")
            await run.wait_for(RunState.WAITING)
            holds.go_on.wait(holds.BOUND_S)
            assert not await happened(runtime, run.id, AttentionRaised)
    assert heard.said[0].startswith(f"{__file__}:")


async def test_nobody_watches_who_was_not_asked_to(heard: Heard) -> None:
    async def looks(_ctx: Context) -> list[str]:
        return [thread.name for thread in threading.enumerate()]

    for timing, watchmen in ((Timing(), 1), (Timing(blocked_after_s=0), 0)):
        await until(lambda: all(t.name != "pullcord-watchman" for t in threading.enumerate()))
        async with pullcord.open(":memory:", agents={"agent": looks}, timing=timing) as runtime:
            before = [thread.name for thread in threading.enumerate()]
            assert "pullcord-watchman" not in before  # nothing is driven yet
            names: list[str] = await (await runtime.start("agent")).result()
            assert names.count("pullcord-watchman") == watchmen
    assert not heard.said


def named(heard: Heard) -> None:
    assert heard.is_named.wait(holds.BOUND_S)


async def until(holds_true: Callable[[], bool]) -> None:
    async with asyncio.timeout(holds.BOUND_S):
        while not holds_true():  # noqa: ASYNC110 (threads tell nobody)
            await asyncio.sleep(0.005)
