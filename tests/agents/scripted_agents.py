"""What the tests of language-model agents share: an agent with a script, and eyes for both ends."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai import messages as m

from pullcord import Runtime, Timing
from pullcord.adapters.conversation import retold
from pullcord.adapters.past import PastRun
from pullcord.agents.pydantic_ai import check_messages
from pullcord.agents.pydantic_ai.dialect import DIALECT
from pullcord.journal.journal import Journal
from pullcord.runtime.doors.thread_history import earlier_runs
from pullcord.testing.scripted import ScriptedModel
from tests.runs.observed_runs import runtime_with

QUICK = Timing(hold_s=0.0)


@asynccontextmanager
async def runtime_of(
    agent: "Agent[Any, Any]", path: Path | str = ":memory:", **more: Any
) -> AsyncGenerator[Runtime]:
    async with runtime_with(path, agent=agent, **more) as runtime:
        yield runtime


async def said_on(runtime: Runtime, thread: str) -> list[m.ModelMessage]:
    """The whole conversation of a thread, as the next run on it would find it."""
    return await told_on(runtime.journal, thread)


async def told_on(journal: Journal, thread: str) -> list[m.ModelMessage]:
    """The same, from the journal alone."""
    heads = await journal.runs(thread=thread)
    newest = await journal.load(heads[0].run_id)
    known: list[m.ModelMessage] = []
    for records in await earlier_runs(journal, newest):
        known = DIALECT.mended(retold(known, PastRun(records), DIALECT))
    return retold(known, PastRun(await journal.read(newest.id)), DIALECT)


def plain(messages: list[m.ModelMessage]) -> list[tuple[str, Any]]:
    """Messages as short pairs, without times and ids."""
    found: list[tuple[str, Any]] = []
    for message in messages:
        for part in message.parts:
            match part:
                case m.UserPromptPart():
                    found.append(("user", part.content))
                case m.TextPart():
                    found.append(("text", part.content))
                case m.ThinkingPart():
                    found.append(("thinking", part.content))
                case m.ToolCallPart():
                    found.append(("call", part.tool_name))
                case m.ToolReturnPart():
                    found.append(("return", part.content))
                case _:
                    pass
    return found


def assert_valid(model: ScriptedModel) -> None:
    """Every request that the model was sent is one that strict providers take."""
    for request in model.requests:
        assert check_messages(request) == []


class Ledger:
    """What tools did to the outside."""

    def __init__(self) -> None:
        self.did: list[str] = []
        self.begun = asyncio.Event()
        self.go_on = asyncio.Event()

    async def note(self, what: str) -> str:
        """Note something."""
        self.did.append(what)
        return f"noted {what}"

    async def slow(self, what: str) -> str:
        """Do something that takes its time."""
        self.begun.set()
        await self.go_on.wait()
        self.did.append(what)
        return f"done {what}"


async def until_stalled(model: ScriptedModel) -> None:
    await model.stalled.wait()
    model.stalled.clear()
