"""Agents that the command-line tests run, in processes of their own."""

import asyncio
import gc
import os
import sys
import time
from collections.abc import AsyncIterator
from contextlib import suppress
from pathlib import Path

from pullcord import Call, Context, tool


async def note(what: str) -> str:
    """An effect in the world: a line in a file, if one is named."""
    if where := os.environ.get("NOTES"):
        with Path(where).open("a") as notes:  # noqa: ASYNC230
            notes.write(f"{what}\n")
    return what


async def stuck(what: str) -> str:
    await note(what)
    await asyncio.sleep(3600)
    return what


async def quick(ctx: Context, given: object) -> object:
    await ctx.say("hello\n")
    return [given, await ctx.step("note", note, "once")]


async def collects(ctx: Context) -> bool:
    """Whether garbage is collected where it is driven."""
    return gc.isenabled()


async def planned(ctx: Context) -> list[str]:
    told = [await ctx.step(i.title, note, i.instruction) async for i in ctx.plan(["one", "two"])]
    return [*told, await ctx.ask("ship it?")]


async def asks_first(ctx: Context) -> list[str]:
    sure = await ctx.ask("ship it?")
    return [sure, *[i.instruction async for i in ctx.plan(["one", "two"])]]


async def hangs(ctx: Context) -> str:
    return await ctx.step("charge", stuck, "charged")


async def deaf() -> None:
    for _ in range(360_000):
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0.01)


async def stays_on(ctx: Context) -> None:
    await ctx.step("deaf", deaf)


async def waits_in_a_thread(ctx: Context) -> None:
    async def wait() -> None:
        await asyncio.to_thread(time.sleep, 3600)

    await ctx.step("wait", wait)


async def talks(ctx: Context) -> str:
    return await ctx.say(_words())


async def _words() -> AsyncIterator[str]:
    yield "half a \x1b[31msentence "
    await asyncio.sleep(3600)


async def fails(ctx: Context) -> None:
    await ctx.step("note", note, "once")
    raise ValueError("no such month")


async def remembers(ctx: Context) -> int:
    return len(await ctx.history())


assert sys.version_info >= (3, 11)


async def hangs_between(ctx: Context) -> None:
    async for item in ctx.plan(["one", "two"]):
        await ctx.step(item.title, stuck, item.title)


async def starts_another(ctx: Context) -> str:
    child = await ctx.spawn("asks_first", detached=True)
    return child.run_id


async def take_back(call: Call) -> None:
    await note(f"took {call.result} back")


@tool(undo=take_back)
async def draft(text: str) -> str:
    return await note(text)


async def drafts(ctx: Context) -> str:
    await ctx.tool(draft, "a draft")
    return await ctx.ask("ship it?")
