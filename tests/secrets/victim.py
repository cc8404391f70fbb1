"""An agent that is killed in the midst of handling secrets, as a program of its own."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from typing import Any

import pullcord
from pullcord import Context
from tests.runs.observed_runs import shown
from tests.secrets import doors
from tests.secrets.vault import LOOSE, SECRETS

PLACES = ("saying", "calling", "working")


def courier(path: str, dies: str = "") -> Any:
    """The agent. It kills its process while it is `dies`."""

    async def courier(ctx: Context, given: str) -> Any:
        echoed = await ctx.tool(doors.in_process, path, given)

        async def words() -> AsyncIterator[str]:
            middle = len(LOOSE) // 2
            for start in range(0, len(LOOSE), 7):
                if start > middle and dies == "saying":
                    os.kill(os.getpid(), signal.SIGKILL)
                yield LOOSE[start : start + 7]

        said = await ctx.say(words())
        probed = doors.probed if dies == "calling" or doors.was_called(path, "probed") else None
        found = await ctx.tool(probed, path, given) if probed else given
        if dies == "working":
            await ctx.exec(
                "sh", "-c", 'printf "%s" "$1"; kill -9 "$2"', "sh", LOOSE, str(os.getpid())
            )
        return [echoed["echo"], said, found]

    return courier


async def main(store: str, path: str, dies: str) -> None:
    reaches_us = pullcord.Timing(fence="sweep")  # in a namespace a tool could not kill us
    async with pullcord.open(
        store, agents={"courier": courier(path, dies)}, secrets=SECRETS, timing=reaches_us
    ) as runtime:
        run = await runtime.start("courier", LOOSE, run_id="r1")
        if dies == "working":
            await shown(run, "half-done")
            os.kill(os.getpid(), signal.SIGKILL)
        await run.result()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
