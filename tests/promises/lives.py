"""Processes that drive runs, told what to do through standard input.

What a step does to the world is a line in a file beside the store, so that it outlives whoever
did it and says who that was.
"""

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pullcord
from pullcord import AgentConfig, Context, RunState, Runtime, Timing

Do = Callable[[], Awaitable[str]]


def say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


async def told() -> str:
    return (await asyncio.to_thread(sys.stdin.readline)).strip()


def effects(path: Path) -> list[str]:
    """What has happened to the world, in order."""
    kept = path.with_suffix(".effects")
    return kept.read_text().split() if kept.exists() else []


def happens(path: str, what: str) -> None:
    kept = os.open(Path(path).with_suffix(".effects"), os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(kept, what.encode() + b"\n")
    os.close(kept)


# --- a deploy -----------------------------------------------------------------------------------


def billing(path: str, version: str, charging: asyncio.Event, bank: asyncio.Event) -> AgentConfig:
    """Version 1 fetches, charges and mails; version 2 checks before it charges."""

    def doing(what: str) -> Do:
        async def do() -> str:
            happens(path, f"{what}-v{version}")
            if what == "charge":
                charging.set()
                await bank.wait()
            return what

        return do

    async def bill(ctx: Context) -> list[str]:
        names = (
            ["fetch", "charge", "mail"] if version == "1" else ["fetch", "check", "charge", "mail"]
        )
        return [await ctx.step(name, doing(name)) for name in names]

    return AgentConfig(bill, version=version)


async def deployed(path: str, version: str) -> None:
    """Version 1 is paused while it charges; version 2 goes on."""
    charging, bank = asyncio.Event(), asyncio.Event()
    known = {"bill": billing(path, version, charging, bank)}
    async with pullcord.open(path, agents=known) as runtime:
        if version == "1":
            run = await runtime.start("bill", run_id="r1")
            await charging.wait()
            await run.pause(by="ana", reason="deploy")
            bank.set()
            await run.wait_for(RunState.PAUSED)
            say(f"paused {os.getpid()}")
            await told()
        else:
            run = await runtime.get("r1")
            await run.resume(by="ana")
            say(" ".join(await run.result()))


# --- two that want one run ----------------------------------------------------------------------


def mailing(path: str, who: str, gate: asyncio.Event) -> AgentConfig:
    async def mail() -> str:
        happens(path, f"mail-{who}")
        await gate.wait()
        return "mailed"

    async def agent(ctx: Context) -> Any:
        return await ctx.step("mail", mail)

    return AgentConfig(agent)


async def resuming(path: str, who: str, times: str) -> None:
    """Resume a run so many times at once, and say what the answers were."""
    gate = asyncio.Event()
    async with pullcord.open(path, agents={"mail": mailing(path, who, gate)}) as runtime:
        run = await runtime.get("r1")
        say("ready")
        await told()
        acks = await asyncio.gather(*(run.resume(by=f"{who}{n}") for n in range(int(times))))
        count = Counter(ack.verdict for ack in acks)
        say(f"{count['applied']} {count['already']}")
        await told()
        gate.set()
        await run.result()


# --- one that freezes ---------------------------------------------------------------------------


class Freezer:
    """Charges, then mails. The first owner stops dead in the middle of the charge."""

    def __init__(self, path: str, who: str) -> None:
        self.path, self.who = path, who
        self.charging, self.mailing = asyncio.Event(), asyncio.Event()
        self.charged, self.mailed, self.unwound = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def charge(self) -> str:
        happens(self.path, f"charge-{self.who}")
        self.charging.set()
        await self.charged.wait()
        return "charged"

    async def mail(self) -> str:
        happens(self.path, f"mail-{self.who}")
        self.mailing.set()
        await self.mailed.wait()
        return "mailed"

    async def agent(self, ctx: Context) -> Any:
        try:
            await ctx.step("charge", self.charge)
            return await ctx.step("mail", self.mail)
        finally:
            self.unwound.set()


async def freezing(path: str, lease_s: str, step: str) -> None:
    """Freeze in the middle of a step, which finishes as soon as it is thawed or goes on for ever;
    say when the agent was unwound."""
    world = Freezer(path, "first")
    async with _freezer(world, lease_s) as runtime:
        await runtime.start("freezer", run_id="r1")
        await world.charging.wait()
        say(f"charging {os.getpid()}")
        # Behind a write of its own: frozen inside of one it would lock everybody out.
        await runtime.journal.queue.free_the_gone()
        os.kill(os.getpid(), signal.SIGSTOP)
        if step == "finishes":
            world.charged.set()
        await world.unwound.wait()
        say("unwound")
        await told()
    say("closed")


async def taking_over(path: str, lease_s: str) -> None:
    world = Freezer(path, "second")
    async with _freezer(world, lease_s) as runtime:
        run = await runtime.get("r1")
        await world.mailing.wait()
        say("mailing")
        await told()
        world.mailed.set()
        say(str(await run.result()))


def _freezer(world: Freezer, lease_s: str) -> Runtime:
    timing = Timing(lease_s=float(lease_s))
    return pullcord.open(world.path, agents={"freezer": world.agent}, timing=timing)


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
