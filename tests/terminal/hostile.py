"""Agents that say, name, plan, ask and fail with every payload there is."""

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pullcord
from pullcord import AgentConfig, Context
from tests.terminal.payloads import PAYLOADS

ALL = list(PAYLOADS.values())


async def _split() -> AsyncIterator[str]:
    """Each payload once for every place where it can be cut in two."""
    for payload in ALL:
        for at in range(len(payload) + 1):
            yield payload[:at]
            yield payload[at:]
            yield "\n"


async def _result(payload: str) -> dict[str, str]:
    return {"found": payload, payload: "key"}


async def _fails(payload: str) -> None:
    raise ValueError(payload)


@pullcord.tool(approve="always")
async def pay(given: dict[str, str], to: str) -> str:
    return to


async def _gate(name: str) -> None:
    while not (Path(os.environ["GATES"]) / name).exists():  # noqa: ASYNC110 (opened by another process)
        await asyncio.sleep(0.01)


async def speaks(ctx: Context) -> str:
    said = await ctx.say(_split())
    await _gate("end")
    return said


async def speaks_in_halves(ctx: Context) -> str:
    """A word whose second half comes when the bar has been drawn behind the first."""

    async def halves() -> AsyncIterator[str]:
        yield "appr"
        await _gate("half")
        yield "oved\n"

    said = await ctx.say(halves())
    await _gate("end")
    return said


async def works(ctx: Context) -> str:
    """Tool output, names of steps, plan items, errors."""
    for payload in ALL:
        await ctx.step(payload, _result, payload)
        try:
            await ctx.step(f"fails {payload}", _fails, payload)
        except pullcord.StepError:
            pass
    async for _ in ctx.plan([f"item {payload}" for payload in ALL]):
        pass
    print("".join(ALL), flush=True)
    await ctx.ask("".join(ALL))
    raise ValueError("".join(ALL))


async def pays(ctx: Context) -> str:
    arguments = {payload: payload for payload in ALL}
    return await ctx.tool(pay, arguments, "".join(ALL))


hostile_name = AgentConfig(works)
