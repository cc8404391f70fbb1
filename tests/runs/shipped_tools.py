"""Tools that run in a process of their own, and what makes the state that they need."""

import asyncio
import os
from typing import Any

import pullcord
from pullcord import ToolContext

outbox: list[str] = []
sent = 0


def make_desk() -> dict[str, Any]:
    return {"made_in": os.getpid()}


@pullcord.tool
def looks_at_desk(ctx: ToolContext) -> bool:
    """Whether what it was handed was made in its own process."""
    return ctx.deps["made_in"] == os.getpid()


@pullcord.tool(run_in="process")
async def waits_elsewhere() -> int:
    await asyncio.sleep(0)
    return os.getpid()


def mails(text: str) -> None:
    global sent
    outbox.append(text)
    sent += 1


def reads() -> int:
    return len(outbox)
