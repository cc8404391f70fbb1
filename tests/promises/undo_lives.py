"""Runs that are cancelled and undone, and that a process is killed in.

What is really done and undone is a line in a book beside the store (`tests.runs.undo_tools`): it is
written by the tools themselves, in whichever process they run, and outlives them all.
"""

import asyncio
import os
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pullcord
from pullcord import Call, Context, RunHandle, Runtime, Timing, ToolContext
from pullcord.core.events import QuestionAsked
from pullcord.core.run import Run
from pullcord.journal.journal import Journal
from pullcord.testing import ManualClock
from pullcord.testing.crashing import Witness
from tests.promises import undo_plants
from tests.runs.undo_tools import QUICK, draft, grant, hold, lend, write

BOUND_S: Final = 120
HABITS: Final = Timing(lease_s=600, stop_grace_s=0.1, quiet_s=0.005, shutdown_grace_s=0)

if planted := os.environ.get("UNDO_PLANT"):  # in the process that is going to die
    getattr(undo_plants, planted)(setattr)


# --- tools that a scenario holds up ---

undoing = asyncio.Event()
go_on: asyncio.Event | None = None
sticking = asyncio.Event()


async def loosen(call: Call) -> None:
    write(call.args["book"], "undo", call.args["name"], call.idempotency_key)
    if go_on is not None:
        undoing.set()
        await go_on.wait()


@pullcord.tool(undo=loosen, undo_retry=QUICK)
async def fasten(ctx: ToolContext, book: str, name: str, fails: int = 0) -> int:
    """Its undo is held up, in the process that is going to die."""
    write(book, "do", name, ctx.idempotency_key)
    return fails


@pullcord.tool(undo=loosen, undo_retry=QUICK)
async def stick(ctx: ToolContext, book: str, name: str, fails: int = 0) -> None:
    """An effect that is there, and a call that never returns."""
    write(book, "do", name, ctx.idempotency_key)
    sticking.set()
    await asyncio.Event().wait()


TOOLS: Final = {tool.name: tool for tool in (draft, grant, hold, lend, fasten, stick)}


# --- agents: what they call is what they are given ---


async def one_by_one(ctx: Context, given: dict[str, Any]) -> None:
    for tool, name, fails in given["calls"]:
        await ctx.tool(TOOLS[tool], given["book"], name, fails)
    await ctx.ask("Go on?")


async def all_at_once(ctx: Context, given: dict[str, Any]) -> None:
    async def one(tool: str, name: str, fails: int) -> None:
        await ctx.branch(name).tool(TOOLS[tool], given["book"], name, fails)

    await asyncio.gather(*(one(*call) for call in given["calls"]))
    await ctx.ask("Go on?")


async def with_a_lock(ctx: Context, given: dict[str, Any]) -> None:
    async def unlock() -> None:
        write(given["book"], "release", "lock", "-")

    await ctx.defer(unlock)
    await one_by_one(ctx, given)


async def with_a_child(ctx: Context, given: dict[str, Any]) -> None:
    first, *rest = given["calls"]
    child = await ctx.spawn("one_by_one", {**given, "calls": rest})
    await ctx.tool(TOOLS[first[0]], given["book"], first[1], first[2])
    await child.result()


AGENTS: Final = {
    agent.__name__: agent for agent in (one_by_one, all_at_once, with_a_lock, with_a_child)
}


def book_of(path: str | Path) -> str:
    return str(Path(path).with_suffix(".book"))


# --- the scenarios ---


@asynccontextmanager
async def stage(
    journal: Journal, *calls: tuple[str, str, int], agent: Any = one_by_one
) -> AsyncGenerator[RunHandle]:
    """A run that is going to make these calls, in the process that is going to die."""
    async with (
        asyncio.timeout(BOUND_S),
        Runtime(journal, agents=AGENTS, timing=HABITS) as runtime,
    ):
        given = {"book": _book(journal), "calls": calls}
        yield await runtime.start(agent.__name__, given, run_id="r1")


def _book(journal: Journal) -> str:
    return book_of(journal._store.name)  # pyright: ignore[reportPrivateUsage]


async def asks(run: RunHandle) -> None:
    """Wait until it asks whether to go on: all its calls are done."""
    async with aclosing(run.events()) as events:
        async for _, item in events:
            if isinstance(getattr(item, "event", None), QuestionAsked):
                return


async def cancel(run: RunHandle, witness: Witness, **how: Any) -> None:
    ack = await run.cancel(by="ana", **how)
    assert ack.holds, ack
    witness(f"cancel {ack.seq}")


async def undone_where_it_asks(run: RunHandle, witness: Witness) -> None:
    await asks(run)
    await cancel(run, witness)
    await run.receipt()


async def three_that_can_be_undone(journal: Journal, witness: Witness) -> None:
    async with stage(journal, *_three("draft")) as run:
        await undone_where_it_asks(run, witness)


async def one_that_fails_once(journal: Journal, witness: Witness) -> None:
    async with stage(journal, *_three("draft", 1)) as run:
        await undone_where_it_asks(run, witness)


async def one_that_fails_twice(journal: Journal, witness: Witness) -> None:
    async with stage(journal, *_three("draft", 2)) as run:
        await undone_where_it_asks(run, witness)


async def one_that_always_fails(journal: Journal, witness: Witness) -> None:
    async with stage(journal, *_three("draft", 999)) as run:
        await undone_where_it_asks(run, witness)


async def three_at_once(journal: Journal, witness: Witness) -> None:
    async with stage(journal, *_three("draft"), agent=all_at_once) as run:
        await undone_where_it_asks(run, witness)


async def undone_in_processes(journal: Journal, witness: Witness) -> None:
    calls = [("hold", "a", 0), ("lend", "b", 0), ("hold", "c", 1)]
    async with stage(journal, *calls) as run:
        await undone_where_it_asks(run, witness)


async def undone_at_most_once(journal: Journal, witness: Witness) -> None:
    calls = [("grant", "a", 0), ("grant", "b", 1), ("grant", "c", 0)]
    async with stage(journal, *calls) as run:
        await undone_where_it_asks(run, witness)


async def one_that_is_cut_by_the_cancel(journal: Journal, witness: Witness) -> None:
    async with stage(journal, *_three("draft"), ("stick", "d", 0)) as run:
        await sticking.wait()
        await cancel(run, witness)
        await run.receipt()


async def one_in_doubt(journal: Journal, witness: Witness) -> None:
    """The first owner's alarms never ring, so that its lease lapses in the middle of a call; the
    second one finds the call in doubt."""
    book, quick = _book(journal), Timing(lease_s=0.05, quiet_s=0.005, shutdown_grace_s=0)
    calls = [("draft", "a", 0), ("stick", "b", 0)]
    async with (
        asyncio.timeout(BOUND_S),
        Runtime(journal, agents=AGENTS, clock=ManualClock(), timing=quick) as first,
    ):
        await first.start("one_by_one", {"book": book, "calls": calls}, run_id="r1")
        await sticking.wait()
        soon = Timing(lease_s=0.5, stop_grace_s=0.1, quiet_s=0.005)
        async with Runtime(journal, agents=AGENTS, timing=soon) as second:
            run = await second.get("r1")
            await asks(run)
            await cancel(run, witness)
            await run.receipt()


async def pressed_again(journal: Journal, witness: Witness) -> None:
    global go_on
    go_on = asyncio.Event()
    calls = [("draft", "a", 1), ("fasten", "b", 0), ("draft", "c", 0)]
    async with stage(journal, *calls) as run:
        await asks(run)
        await cancel(run, witness)
        await undoing.wait()
        await cancel(run, witness, now=True)
        await run.cancel(by="bo", undo=False)
        go_on.set()
        await run.receipt()


async def cut_by_a_shutdown(journal: Journal, witness: Witness) -> None:
    """The process ends by itself, and gives the run back in the middle of an undo."""
    global go_on
    go_on = asyncio.Event()
    calls = [("draft", "a", 0), ("fasten", "b", 0), ("draft", "c", 0)]
    async with stage(journal, *calls) as run:
        await asks(run)
        await cancel(run, witness)
        await undoing.wait()


async def with_something_deferred(journal: Journal, witness: Witness) -> None:
    async with stage(journal, *_three("draft", 1), agent=with_a_lock) as run:
        await undone_where_it_asks(run, witness)


async def with_a_child_run(journal: Journal, witness: Witness) -> None:
    async with stage(journal, *_three("draft"), agent=with_a_child) as run:
        await seen(run, lambda now: len(now.children) == 1 and finished(now) == 1)
        [child] = (await run.snapshot()).children
        await asks(RunHandle(child, journal, run._forks))  # pyright: ignore[reportPrivateUsage]
        await cancel(run, witness)
        await run.receipt()


async def undone_later(journal: Journal, witness: Witness) -> None:
    """Cancelled without undo, and then undone."""
    async with stage(journal, *_three("draft", 1)) as run:
        await asks(run)
        await cancel(run, witness, undo=False)
        await run.receipt()
        assert (await run.undo(by="ana")).holds
        await run.receipt()


async def tried_again(journal: Journal, witness: Witness) -> None:
    """Given up after three attempts, and then tried again until it works: at the eighth."""
    async with stage(journal, *_three("draft", 7)) as run:
        await asks(run)
        await cancel(run, witness)
        while left := await not_undone(run):
            assert (await run.undo(left, by="ana")).holds


def _three(tool: str, fails: int = 0) -> list[tuple[str, str, int]]:
    return [(tool, "a", 0), (tool, "b", fails), (tool, "c", 0)]


async def not_undone(run: RunHandle) -> str:
    """A step that could not be undone, if there is one when that is decided."""
    await run.receipt()
    steps = (await run.snapshot()).steps
    return next((step for step, known in steps.items() if known.undo == "failed"), "")


async def seen(run: RunHandle, holds: Callable[[Run], bool]) -> None:
    async with aclosing(run.events()) as events:
        async for _ in events:
            if holds(await run.snapshot()):
                return


def finished(run: Run) -> int:
    return sum(step.status == "finished" for step in run.steps.values())


SCENARIOS: Final = (
    three_that_can_be_undone,
    one_that_fails_once,
    one_that_fails_twice,
    one_that_always_fails,
    three_at_once,
    undone_in_processes,
    undone_at_most_once,
    one_that_is_cut_by_the_cancel,
    one_in_doubt,
    pressed_again,
    cut_by_a_shutdown,
    with_something_deferred,
    with_a_child_run,
    undone_later,
    tried_again,
)
