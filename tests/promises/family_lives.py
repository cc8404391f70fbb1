"""A family that is cancelled and undone, and that a process is killed in."""

import asyncio
from pathlib import Path
from typing import Any, Final

from pullcord import Context, Runtime
from pullcord.journal.journal import Journal
from pullcord.testing.crashing import Witness
from tests.promises.undo_lives import BOUND_S, HABITS, asks, book_of, cancel
from tests.runs.undo_tools import draft


async def kid(ctx: Context, given: dict[str, Any]) -> None:
    if more := given.get("more"):
        await (await ctx.spawn("kid", {**given, "names": more, "more": []})).result()
    for name in given["names"]:
        await ctx.tool(draft, given["book"], name, 0)


async def head(ctx: Context, book: str) -> None:
    """Does a, e, h; children do d, f, g in between, and one of theirs b, c."""
    await ctx.tool(draft, book, "a", 0)
    await (await ctx.spawn("kid", {"book": book, "names": ["d"], "more": ["b", "c"]})).result()
    await ctx.tool(draft, book, "e", 0)
    await (await ctx.spawn("kid", {"book": book, "names": ["f", "g"]})).result()
    await ctx.tool(draft, book, "h", 0)
    await ctx.ask("Go on?")


AGENTS: Final = {"kid": kid, "head": head}


async def cancelled(journal: Journal, witness: Witness) -> None:
    book = book_of(Path(journal._store.name))  # pyright: ignore[reportPrivateUsage]
    async with asyncio.timeout(BOUND_S), Runtime(journal, agents=AGENTS, timing=HABITS) as runtime:
        run = await runtime.start("head", book, run_id="r1")
        await asks(run)
        await cancel(run, witness)
        await run.receipt()
