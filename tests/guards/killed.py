"""A wanderer in a process of its own, that waits to be killed after so many calls.

Started as `python -m tests.guards.killed STORE CALLS`.
"""

import asyncio
import sys
from pathlib import Path

import pullcord
from pullcord.core.events import StepStarted
from pullcord.testing.scripted import Answer, Call, Delay, ScriptedModel
from tests.guards.lost import wanderer
from tests.promises.owners import say
from tests.runs.observed_runs import seen


async def main(store: Path, calls: int) -> None:
    asked = 0

    def script(_messages: object) -> Answer:
        nonlocal asked
        asked += 1
        return [Call("read", {"path": "a.txt"}) if asked <= calls else Delay()]

    agent = wanderer([], [])
    agent.model = ScriptedModel(script)
    async with pullcord.open(store, agents={"agent": agent}) as runtime:
        run = await runtime.start("agent", "go", run_id="r1")
        await seen(run, StepStarted, nth=calls + 1, model="scripted")
        say(f"called {calls} times")
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1]), int(sys.argv[2])))
