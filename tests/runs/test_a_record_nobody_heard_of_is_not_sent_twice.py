"""The storage has taken a record and said that it failed: at any write of a run, the run goes on as
if nothing had been, and nothing is begun or recorded twice."""

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from pullcord import Context, RunState, Timing
from pullcord.core.events import StepFinished, StepStarted
from pullcord.errors import StorageFailed
from pullcord.journal.journal import Journal
from pullcord.journal.memory_store import MemoryStore
from pullcord.journal.store import Store, Transaction
from pullcord.runtime.runtime import Runtime
from pullcord.testing.crashing import WrappedStore

T = TypeVar("T")
WRITES = 10  # from when the run is there until it is over


class UnheardStore(WrappedStore):
    """Carries out everything, and does not say so of one write."""

    def __init__(self, inner: Store) -> None:
        super().__init__(inner)
        self._at = 0

    def say_nothing(self, *, after: int) -> None:
        """About the write that comes after so many others."""
        self._at = self.writes + after

    def write(self, job: Callable[[Transaction], T]) -> T:
        self.writes += 1
        result = self._inner.write(job)
        if self.writes == self._at:
            raise StorageFailed("Writing to", path="it", why="nobody answers", instead="Wait.")
        return result


@pytest.mark.parametrize("after", range(1, WRITES + 1))
async def test_a_run_goes_on(after: int) -> None:
    did: list[int] = []

    async def work(number: int) -> int:
        did.append(number)
        return number

    async def agent(ctx: Context) -> list[int]:
        return [await ctx.step("work", work, number) for number in range(3)]

    timing = Timing(lease_s=1, retry_storage_s=0.01)
    journal = Journal(store := UnheardStore(MemoryStore()))
    async with Runtime(journal, agents={"agent": agent}, timing=timing) as runtime:
        run = await runtime.start("agent", run_id="r1")
        store.say_nothing(after=after)
        async with asyncio.timeout(120):
            assert await run.result() == [0, 1, 2]
        assert (await run.snapshot()).state is RunState.COMPLETED
        events = [record.event for record in await journal.read("r1")]
    assert did == [0, 1, 2]
    assert sum(isinstance(event, StepStarted) for event in events) == 3
    assert sum(isinstance(event, StepFinished) for event in events) == 3
