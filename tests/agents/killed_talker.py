"""A program that is killed while a tool of its agent is under way.

Its arguments: framework, wire, address of the provider, store, and where tools write.
"""

import asyncio
import sys
from typing import Any, cast

import pullcord
from pullcord.core.events import StepFinished, StepStarted
from tests.agents.frameworks import Framework, agent_of
from tests.agents.light_tools import append
from tests.runs.observed_runs import seen


def tools_for(book: str) -> list[Any]:
    async def note(what: str) -> str:
        """Note something."""
        append(book, f"noted {what}")
        return f"noted {what}"

    async def hang(what: str) -> str:
        """Do something that does not end."""
        await asyncio.Event().wait()
        return what

    return [note, hang]


async def main(name: str, wire: str, url: str, store: str, book: str) -> None:
    framework = Framework(cast("Any", name), cast("Any", wire))
    async with (
        agent_of(framework, url, tools_for(book)) as agent,
        pullcord.open(store, agents={"talker": agent}) as runtime,
    ):
        run = await runtime.start("talker", "go", run_id="r1", thread="t1")
        await seen(run, StepStarted, name="hang")
        await seen(run, StepFinished, nth=2)  # of the request, and of what is noted
        print("begun", flush=True)
        await run.result()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
