"""A server in a process of its own, to be killed; and the agent in it, which outlives that."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

from pullcord import Context

_ROOT = Path(__file__).parent.parent.parent


async def lasting(ctx: Context) -> None:
    """Does one thing once, and then talks for as long as it may."""
    await ctx.step("look around", _look_around)
    await ctx.say(_words())


async def _look_around() -> int:
    return os.getpid()


async def _words() -> AsyncGenerator[str]:
    yield f"This is process {os.getpid()}. "
    while True:
        yield "and on "
        await asyncio.sleep(0.02)


class Serving:
    """Made by `serving`."""

    def __init__(self, process: asyncio.subprocess.Process, url: str) -> None:
        self._process, self.url = process, url
        self.pid = process.pid
        self.base = url.partition("#")[0]
        self.port = self.base.rstrip("/").rpartition(":")[2]

    async def kill(self) -> None:
        """As the kernel does it: without a word."""
        self._process.kill()
        await self._process.wait()


@asynccontextmanager
async def serving(store: Path, port: str = "0") -> AsyncGenerator[Serving]:
    """`pullcord serve`, until it is killed, or else to the end of this."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pullcord", "serve", __file__,
        "--store", str(store), "--port", port, "--json",
        stdout=asyncio.subprocess.PIPE, cwd=_ROOT,
    )  # fmt: skip
    assert process.stdout
    try:
        yield Serving(process, json.loads(await process.stdout.readline())["url"])
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()
