"""An owner in a process of its own, whose event loop is blocked while its agent's answer comes.

Started as `python -m tests.agents.blocked_owner STORE DIALECT URL HOW WHO`, told to go on through
standard input. HOW: `asleep` or `busy`. WHO pulls the cord: `another` process, or a `thread`.
`warm`: its client has been used before the runtime knew of it.
"""

import asyncio
import select
import sys
import threading
from pathlib import Path
from typing import cast

from pydantic_ai import Agent

import pullcord
from pullcord.core.commands import Cancel
from pullcord.core.events import StepStarted
from pullcord.core.states import TERMINAL
from pullcord.journal.journal import Journal
from tests.agents.provider.dialect_models import model_for
from tests.agents.provider.dialects import Dialect
from tests.promises.owners import hear, say
from tests.runs.observed_runs import seen, shown


def block(how: str) -> None:
    """Hold the event loop until told to go on."""
    if how == "busy":
        while not select.select([0], [], [], 0)[0]:
            pass
    hear()


def cancel_from_a_thread(store: Path) -> threading.Thread:
    async def cancel() -> None:
        async with Journal.open(store) as journal:
            await journal.command("r1", Cancel(by="ana"))

    thread = threading.Thread(target=lambda: asyncio.run(cancel()))
    thread.start()
    return thread


async def main(store: Path, dialect: Dialect, url: str, how: str, who: str, *more: str) -> None:
    async with model_for(dialect, url) as model:
        agent = Agent(model, name="talker")
        if "warm" in more:
            await agent.run("hello")
        async with pullcord.open(store, agents={"agent": agent}) as runtime:
            run = await runtime.start(agent, "go", run_id="r1")
            if "silent" in more:
                await seen(run, StepStarted)
                await asyncio.to_thread(hear)  # until the provider has the request
            else:
                await shown(run, "Grüße")
            thread = cancel_from_a_thread(store) if who == "thread" else None
            say("blocked")
            block(how)
            if thread:
                await asyncio.to_thread(thread.join)
            receipt = await run.receipt()
            say(f"{receipt.state} {receipt.rung} {len(''.join(receipt.partial_text))}")
            if receipt.state not in TERMINAL:
                await run.cancel()
                await run.receipt()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), cast("Dialect", sys.argv[2]), *sys.argv[3:]))
