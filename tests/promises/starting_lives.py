"""Owners whose steps start processes, and are killed: `python -m … STORE WITNESS WHAT`."""

import asyncio
import multiprocessing
import os
import subprocess
import sys
from pathlib import Path

import pullcord
from pullcord import Context
from tests.promises.lives import say
from tests.promises.starters import TICKS, TICKS_STUBBORN, Witness, forever, ticks

NULL = subprocess.DEVNULL  # whoever keeps our pipes open keeps the test waiting


def quietly(file: str, stop: str) -> None:
    os.dup2(os.open(os.devnull, os.O_RDWR), 1)
    ticks(file, stop)


async def work(file: str, what: str) -> None:
    """Start something, and wait for it; or leave it, if it is `left`."""
    command = [sys.executable, "-c", TICKS_STUBBORN if what == "stubborn" else TICKS, file]
    if what == "forked":
        stop = f"{file}.stop"
        multiprocessing.get_context("fork").Process(target=quietly, args=(file, stop)).start()
    elif what == "shared":
        with pullcord.shared():
            subprocess.Popen(command, stdin=NULL, stdout=NULL)  # noqa: ASYNC220
    else:
        await asyncio.create_subprocess_exec(*command, stdin=NULL, stdout=NULL)
    if what != "left":
        await forever()


async def agent(ctx: Context, given: tuple[str, str]) -> None:
    await ctx.step("work", work, *given, effect="none")
    await ctx.ask("and now?")


async def main(store: str, file: str, what: str) -> None:
    async with pullcord.open(store, agents={"agent": agent}) as runtime:
        run = await runtime.start("agent", [file, what], run_id="r1")
        await Witness(Path(file).parent).acts()
        if what == "left":
            await run.wait_for(pullcord.RunState.WAITING)
        say("acting")
        await forever()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
