"""Tools and an agent that hold the event loop, until the test lets them go on."""

import threading
import time
from typing import Final

from pullcord import Context

BOUND_S: Final = 120.0
go_on = threading.Event()


async def impolite() -> str:
    """It says that it is async, and is not."""
    go_on.wait(BOUND_S)  # HERE it holds
    return "done"


async def deaf() -> str:
    """It sleeps, and hears of no cancel: there is no await in it."""
    until = time.monotonic() + BOUND_S
    while not go_on.is_set() and time.monotonic() < until:
        time.sleep(0.01)  # noqa: ASYNC251 (that is the point)
    return "done"


async def spins() -> str:
    """It never sleeps: it only counts."""
    until = time.monotonic() + BOUND_S
    while not go_on.is_set() and time.monotonic() < until:
        pass
    return "done"


async def calls_it(ctx: Context) -> str:
    return await ctx.tool(impolite)


async def holds_itself(_ctx: Context) -> str:
    go_on.wait(BOUND_S)  # THERE it holds
    return "done"


async def is_deaf(ctx: Context) -> str:
    return await ctx.tool(deaf)


async def counts(ctx: Context) -> str:
    return await ctx.tool(spins)
