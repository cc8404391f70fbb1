"""Runs an agent of the demo until its line is posted, says so, and waits to be killed."""

import asyncio
import sys

import pullcord
from pullcord.core.events import StepStarted
from pullcord.demo.agents import agents
from tests.runs.observed_runs import question, seen


async def main(store: str, name: str) -> None:
    async with pullcord.open(store, agents=agents(pace=0)) as runtime:
        run = await runtime.start(name, run_id="r1")
        await seen(run, StepStarted, name="create_draft")
        print("posted", flush=True)
        await question(run, tool="nothing that it ever asks about")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2]))
