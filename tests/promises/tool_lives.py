"""Processes whose agents call tools, told what to do through standard input."""

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pullcord
from pullcord import Call, Context, Timing
from tests.promises.owners import hear, say
from tests.runs import some_tools


def forget(call: Call) -> None:
    """The undo of a tool that writes to a file."""
    some_tools.happened(call.args["path"], "undone")


async def blocked(path: str, lines: str, says: str) -> None:
    """Have a process tool under way, block the event loop, and say how it all ended."""
    written = str(Path(path).with_suffix(".lines"))
    beats = pullcord.tool(undo=forget, stop_grace_s=1)(some_tools.beats)

    async def agent(ctx: Context) -> Any:
        return await ctx.tool(beats, written, int(lines), 0.005, int(says))

    timing = Timing(stop_grace_s=1)
    async with pullcord.open(path, agents={"agent": agent}, timing=timing) as runtime:
        run = await runtime.start("agent", run_id="r1")
        while not os.path.exists(written):  # noqa: ASYNC110 (only the file can tell)
            await asyncio.sleep(0.005)
        say("blocked")
        while (word := hear()) != "end":
            say(f"on {word}")
            if word == "go":
                receipt = await run.receipt()
                said = [receipt.state, receipt.rung, *receipt.interrupted, *receipt.undone]
                say(" ".join([*said, *receipt.failed, *receipt.under_way]))
            elif word == "result":
                say(str(await run.result()))


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
    os._exit(0)
