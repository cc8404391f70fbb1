"""Owners that are stopped, cut off or blocked, told what to do through standard input.

A process that is stopped inside a write transaction would lock everybody else out of SQLite, and
the test would show that instead: so these stop themselves between two transactions.
"""

import asyncio
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pullcord
from pullcord import Context, RunState, Runtime, Timing
from pullcord.journal.journal import Journal
from pullcord.runtime.steps.flight import Flight
from tests.promises.lives import happens, say, told

_between_writes = threading.Lock()


def ticks(path: str) -> str:
    """A process tool that acts all the time: each tick says when, and in which process."""
    file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    end = Path(f"{path}.end")
    while not end.exists():
        now = time.clock_gettime(time.CLOCK_BOOTTIME)
        os.write(file, f"{now:.3f} {os.getpid()}\n".encode())
        time.sleep(0.01)
    return "ticked"


async def ticker(ctx: Context, path: str) -> Any:
    return await ctx.tool(ticks, path)


class Charger:
    """Charges, in this very process, and does so at the latest when it is cancelled: code that
    cannot be stopped between two lines."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.charging, self.unwound = asyncio.Event(), asyncio.Event()

    async def charge(self) -> str:
        self.charging.set()
        with suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        happens(self.path, f"charge-{os.getpid()}")
        return "charged"

    async def agent(self, ctx: Context) -> Any:
        try:
            return await ctx.step("charge", self.charge)
        finally:
            self.unwound.set()


def opened(path: str, lease_s: str, **agents: Any) -> Runtime:
    journal = Journal.open(path)
    store: Any = journal._store  # pyright: ignore[reportPrivateUsage]
    write: Callable[[Any], Any] = store.write

    def one_at_a_time(job: Any) -> Any:
        with _between_writes:
            return write(job)

    store.write = one_at_a_time
    return Runtime(journal, agents=agents, timing=Timing(lease_s=float(lease_s)))


def stand_still() -> None:
    """Be stopped, as by SIGSTOP from outside."""
    with _between_writes:
        os.kill(os.getpid(), signal.SIGSTOP)


async def ticking(path: str, lease_s: str, tool: str) -> None:
    """Drive a run with a process tool; stand still when told to."""
    async with opened(path, lease_s, ticker=ticker) as runtime:
        run = await runtime.start("ticker", tool, run_id="r1")
        say(f"driving {os.getpid()}")
        while (said := await told()) == "stand still":
            stand_still()
            say("goes on")
        if said == "result":
            say(str(await run.result()))
            await told()


async def charging(path: str, lease_s: str) -> None:
    """Stand still inside of a step that is already acting."""
    world = Charger(path)
    async with opened(path, lease_s, charger=world.agent) as runtime:
        await runtime.start("charger", run_id="r1")
        await world.charging.wait()
        say(f"charging {os.getpid()}")
        stand_still()
        await world.unwound.wait()
        say("unwound")
    say("closed")


async def about_to_charge(path: str, lease_s: str) -> None:
    """Stand still between a step's durable intent and its call."""
    world, carry_out = Charger(path), Flight._carry_out  # pyright: ignore[reportPrivateUsage]

    async def stands_still_first(self: Flight, call: Any) -> Any:
        say(f"charging {os.getpid()}")
        stand_still()
        return await carry_out(self, call)

    Flight._carry_out = stands_still_first  # pyright: ignore[reportPrivateUsage]
    async with opened(path, lease_s, charger=world.agent) as runtime:
        await runtime.start("charger", run_id="r1")
        await world.unwound.wait()
        say("unwound")
        await told()
    say("closed")


async def blocking(path: str, lease_s: str) -> None:
    """Hold the event loop for three leases."""

    async def holds_the_loop() -> str:
        time.sleep(3 * float(lease_s))  # noqa: ASYNC251 (that is what is tested)
        return "held"

    async def agent(ctx: Context) -> Any:
        return await ctx.step("hold", holds_the_loop)

    async with opened(path, lease_s, blocker=agent) as runtime:
        run = await runtime.start("blocker", run_id="r1")
        say("driving")
        say(str(await run.result()))


class Booker:
    """Books, and takes the booking back in this very process, with what was deferred: code that
    cannot be stopped between two lines. `goes_on` lets it come to its end."""

    def __init__(self, path: str, which: str, *, goes_on: bool) -> None:
        self.path, self.which = path, which
        self.acting, self._goes_on = asyncio.Event(), asyncio.Event()
        if goes_on:
            self._goes_on.set()

    async def _acts(self, *_: object) -> None:
        self.acting.set()
        with suppress(asyncio.CancelledError):
            await self._goes_on.wait()
        happens(self.path, f"{self.which}-{os.getpid()}")

    async def agent(self, ctx: Context) -> None:
        async def book() -> str:
            return "booked"

        if self.which == "release":
            await ctx.defer(self._acts)
        else:
            await ctx.tool(pullcord.tool(undo=self._acts)(book))
        await ctx.ask("and now?")


async def taking_back(path: str, lease_s: str, which: str) -> None:
    """Stand still inside of an undo or a release."""
    world = Booker(path, which, goes_on=False)
    async with opened(path, lease_s, booker=world.agent) as runtime:
        run = await runtime.start("booker", run_id="r1")
        await run.wait_for(RunState.WAITING)
        await run.cancel(by="ana")
        await world.acting.wait()
        say(f"acting {os.getpid()}")
        stand_still()
        await told()
    say("closed")


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
