"""Agents that the tests of the terminal run. They wait at gates that a test opens: no sleeping."""

import asyncio
import os
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pullcord
from pullcord import Context
from pullcord.cli.live.session import KeySession


def _is_open(name: str) -> bool:
    return (Path(os.environ["GATES"]) / name).exists()


async def gate(name: str) -> str:
    while not _is_open(name):  # noqa: ASYNC110 (opened by another process)
        await asyncio.sleep(0.01)
    return name


async def planned(ctx: Context) -> list[str]:
    return [await ctx.step(item.title, gate, item.title) async for item in ctx.plan(["one", "two"])]


async def speaks(ctx: Context) -> str:
    return await ctx.say(_words())


async def _words() -> AsyncIterator[str]:
    yield "first words\n"
    await gate("more")
    for number in range(100):
        yield f"line {number}\n"
    yield "without an end"
    await gate("end")


async def asks(ctx: Context) -> str:
    return await ctx.ask("ship it?")


@pullcord.tool(approve="always")
async def pay(eur: int, to: str) -> str:
    return f"paid {eur} to {to}"


async def pays(ctx: Context) -> str:
    try:
        return await ctx.tool(pay, eur=5, to="bo")
    except pullcord.NotDone as refused:
        return f"told: {refused}"


async def pays_a_lot(ctx: Context) -> str:
    return await ctx.tool(pay, eur=5, to="x" * 20_000)


async def counts(ctx: Context) -> int:
    for number in range(4):
        await ctx.step(f"turn {number}", _nothing)
    return 4


async def _nothing() -> None:
    pass


async def blocks(ctx: Context) -> str:
    await ctx.say("before\n")
    (Path(os.environ["GATES"]) / "held").touch()
    while not _is_open("loop"):
        time.sleep(0.01)  # noqa: ASYNC251 (it is about that)
    return "after"


async def stubborn(ctx: Context) -> str:
    return await ctx.step("charge", _holds_on)


async def _holds_on() -> str:
    while not _is_open("charge"):
        try:
            await gate("charge")
        except asyncio.CancelledError:
            continue  # it will not be told
    return "charged"


_BEHIND: set[asyncio.Task[str]] = set()


async def leaves_something_behind(ctx: Context) -> None:
    """Its own task, which ignores being cancelled: the process waits for it for a moment."""
    _BEHIND.add(asyncio.create_task(_holds_on()))
    await ctx.step("wait", gate, "end")


async def prints(ctx: Context) -> str:
    print("printed by \x1b[31many code", flush=True)
    os.write(2, b"\x1b]52;c;aGk=\x07also by hand\n")
    return await ctx.ask("seen it?")


async def fails(ctx: Context) -> None:
    raise ValueError("no such month")


async def breaks_the_bar(ctx: Context) -> str:
    """Plants a fault in what draws, which is in this process too."""

    def breaks(*_: object) -> None:
        raise RuntimeError("planted")

    KeySession.bar = breaks  # type: ignore[method-assign]
    return await ctx.step("wait", gate, "end")


async def fills_rows(ctx: Context) -> str:
    return await ctx.say(_rows())


async def _rows() -> AsyncIterator[str]:
    for number in range(4):
        await gate(f"row-{number}")
        yield f"{number}" * 40
    await gate("end")
