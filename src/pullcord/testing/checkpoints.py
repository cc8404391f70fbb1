"""The same run, disturbed at each of its durable boundaries in turn. Production code has no hooks:
the control is put into the store right before or right after the n-th write."""

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import aclosing
from typing import Any, Literal, NamedTuple, TypeAlias, TypeVar

from pullcord.core.commands import Command, Pause
from pullcord.core.events import Record
from pullcord.core.run import Run
from pullcord.core.states import TERMINAL, RunState
from pullcord.journal.journal import Journal
from pullcord.journal.memory_store import MemoryStore
from pullcord.journal.rules.ledger import Ledger
from pullcord.journal.store import Store, Transaction
from pullcord.journal.stored_runs.run_records import Cursor
from pullcord.runtime.agents import AgentConfig, Function
from pullcord.runtime.handle import RunHandle
from pullcord.runtime.runtime import Runtime
from pullcord.runtime.services import Timing
from pullcord.testing.crashing import WrappedStore

T = TypeVar("T")
Disturbance: TypeAlias = Literal["pause", "park", "restart"]
Answers: TypeAlias = Callable[[str], Any]
_RUN = "disturbed"


class Disturbed(NamedTuple):
    """How a run ended that was disturbed at its n-th write. `at` 0: it was left alone."""

    at: int
    when: Literal["before", "after"]
    run: Run
    result: Any
    records: list[Record]


class _MeddlingStore(WrappedStore):
    """A store in which somebody pulls the cord at the n-th write to the run."""

    def __init__(self, inner: Store, command: Command, *, at: int, before: bool) -> None:
        super().__init__(inner)
        self._command, self._at, self._before = command, at, before
        self.meddled = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self._ledger = Ledger(inner.clock)

    def write(self, job: Callable[[Transaction], T]) -> T:
        self.writes += 1
        if self.writes != self._at:
            return self._inner.write(job)
        if self._before:
            self._meddle()
            return self._inner.write(job)
        result = self._inner.write(job)
        self._meddle()
        return result

    def _meddle(self) -> None:
        def pull(tx: Transaction) -> None:
            if tx.head(_RUN):
                self._ledger.command(tx, _RUN, self._command)

        self._inner.write(pull)
        self._loop.call_soon_threadsafe(self.meddled.set)


async def at_every_checkpoint(
    agents: Mapping[str, "AgentConfig | Function"],
    agent: str,
    given: Any = None,
    *,
    disturbance: Disturbance = "pause",
    answer: Answers = lambda _: "yes",
) -> AsyncIterator[Disturbed]:
    """Run an agent once undisturbed, then once for each of its writes with a pause there, resumed
    when it is in effect. Yields how each ended, the undisturbed one first.

    `park`: the coroutine is unwound and the agent entered again. `restart`: the runtime is closed,
    too, and another one goes on. `answer` answers what the agent asks, by the question's text.
    """
    alone = await _play(agents, agent, given, disturbance, answer, at=0, before=False)
    yield alone[0]
    for at in range(1, alone[1] + 1):
        for before in (True, False):
            yield (await _play(agents, agent, given, disturbance, answer, at=at, before=before))[0]


async def _play(
    agents: Mapping[str, "AgentConfig | Function"],
    agent: str,
    given: Any,
    disturbance: Disturbance,
    answer: Answers,
    *,
    at: int,
    before: bool,
) -> tuple[Disturbed, int]:
    timing = Timing(park_after_s=60.0 if disturbance == "pause" else 0.0, quiet_s=0.002)
    kept = MemoryStore()
    store = _MeddlingStore(kept, Pause(by="tester"), at=at, before=before)
    async with Runtime(Journal(store), agents=agents, timing=timing) as runtime:
        run = await runtime.start(agent, given, run_id=_RUN)
        seeing = asyncio.create_task(_see_through(runtime.journal, run, answer))
        if disturbance == "restart":
            meddled = asyncio.create_task(store.meddled.wait())
            await asyncio.wait({seeing, meddled}, return_when=asyncio.FIRST_COMPLETED)
            meddled.cancel()
        else:
            await seeing
        seeing.cancel()
        await asyncio.wait({seeing})
    async with Runtime(Journal(kept), agents=agents, timing=timing) as runtime:
        run = await runtime.get(_RUN)
        ended = await _see_through(runtime.journal, run, answer)
        records = await runtime.journal.read(_RUN)
        result = await run.result() if ended.state is RunState.COMPLETED else None
    return Disturbed(at, "before" if before else "after", ended, result, records), store.writes


async def _see_through(journal: Journal, run: RunHandle, answer: Answers) -> Run:
    """Resume it when it is paused, answer what it asks, until it has ended."""
    while True:
        now = await run.wait_for(*TERMINAL, RunState.PAUSED, RunState.WAITING)
        if now.ended:
            return now
        if now.state is RunState.PAUSED:
            await run.resume(by="tester")
            continue
        for name in now.open_questions():
            if now.questions[name].kind != "timer":
                await run.answer(name, answer(now.questions[name].text), by="tester")
        async with aclosing(journal.changes.subscribe(_RUN, after=Cursor(now.seq))) as more:
            await anext(more)
