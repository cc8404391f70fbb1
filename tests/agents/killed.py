"""The same conversation in a process that is killed, with `kill -9`, and in the one after it.

What the model is sent, what tools do and what people see is told to the witness before anything
else happens: what the dead process really did is known to the letter.
"""

import asyncio
import json
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, asynccontextmanager
from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai import messages as m
from pydantic_ai.models import ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings

import pullcord
from pullcord import RunHandle, RunState, Runtime, Timing
from pullcord.errors import RunNotFound
from pullcord.journal.journal import Journal
from pullcord.journal.store import LiveText
from pullcord.journal.stored_runs.run_records import Cursor
from pullcord.testing.crashing import CrashReport, Witness
from pullcord.testing.scripted import ScriptedModel
from tests.agents.interrupted_conversation import (
    NEXT_PROMPT,
    NEXT_RUN,
    PROMPT,
    RUN,
    THREAD,
    Happened,
    Script,
    call_of,
    planner,
)
from tests.agents.scripted_agents import told_on

HABITS: Final = Timing(quiet_s=0.005, lease_s=600, stop_grace_s=0.1)
BOUND_S: Final = 120


class _Heard(ScriptedModel):
    """A model that tells what it was sent before it answers."""

    def __init__(self, tell: Callable[[list[m.ModelMessage]], None]) -> None:
        script = Script()
        script.has_failed = True  # nobody has to wait for a line that is gone
        super().__init__(script)
        self._tell = tell

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[m.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        self._tell(messages)
        async with super().request_stream(
            messages, model_settings, model_request_parameters, run_context
        ) as stream:
            yield stream


async def a_conversation(journal: Journal, witness: Witness) -> None:
    """Until it ends by itself, or its process does."""

    async def do(call: str, turns: int) -> None:
        witness(f"did {call}")
        for _ in range(turns):
            await asyncio.sleep(0)

    def tell(messages: list[m.ModelMessage]) -> None:
        witness(f"sent {m.ModelMessagesTypeAdapter.dump_json(messages).decode()}")

    agents = {"planner": planner(_Heard(tell), do)}
    async with (
        asyncio.timeout(BOUND_S),
        Runtime(journal, agents=agents, timing=HABITS) as runtime,
    ):
        run = await runtime.start("planner", PROMPT, run_id=RUN, thread=THREAD)
        witness("started")
        viewing = asyncio.create_task(_view(run, witness))
        await see_through(run, journal, [])
        await viewing


async def _view(run: RunHandle, witness: Witness) -> None:
    async with aclosing(run.events()) as stream:
        async for _, item in stream:
            if isinstance(item, LiveText):
                witness(f"shown {json.dumps([item.part, item.offset, item.text])}")


async def see_through(run: RunHandle, journal: Journal, did: list[str]) -> None:
    """Allow it, and tell what is asked, as somebody would who knows the world."""
    while not (now := await run.snapshot()).ended:
        for name in now.open_questions():
            asked = now.questions[name]
            if asked.kind == "approval":
                await run.approve(name, by="bo")
            elif asked.kind == "doubt":
                call = call_of(asked.step, await journal.read(run.id))
                said: Any = {"happened": f"saw {call}"} if call in did else "run"
                await run.answer(name, said, by="bo")
        async with aclosing(journal.changes.subscribe(run.id, after=Cursor(now.seq))) as more:
            await anext(more)


async def aftermath(report: CrashReport) -> Happened | None:
    """Have another process go on with what a dead one left. None: it had not begun."""
    it = Happened(mode="kill")
    for line in report.acked:
        what, _, told = line.partition(" ")
        match what:
            case "did":
                it.did.append(told)
            case "sent" if told.endswith("]"):  # else it died while it told it
                it.requests.append(m.ModelMessagesTypeAdapter.validate_json(told))
            case "shown" if told.endswith("]"):
                part, offset, text = json.loads(told)
                it.shown.append(LiveText(0, part, offset, text, 0))
            case _:
                pass

    async def do(call: str, turns: int) -> None:
        it.did.append(call)
        for _ in range(turns):
            await asyncio.sleep(0)

    agents = {"planner": planner(_Heard(lambda sent: it.requests.append(list(sent))), do)}
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(report.path, agents=agents, timing=HABITS) as runtime,
    ):
        try:
            run = await runtime.get(RUN)
        except RunNotFound:
            assert "started" not in report.acked
            return None
        await see_through(run, runtime.journal, it.did)
        it.runs[RUN] = await run.snapshot()
        if it.runs[RUN].state is RunState.COMPLETED:
            it.results[RUN] = await run.result()
        after = await runtime.start("planner", NEXT_PROMPT, run_id=NEXT_RUN, thread=THREAD)
        await after.result()
        it.runs[NEXT_RUN] = await after.snapshot()
        it.records = await runtime.journal.read(RUN)
        it.history = await told_on(runtime.journal, THREAD)
    return it
