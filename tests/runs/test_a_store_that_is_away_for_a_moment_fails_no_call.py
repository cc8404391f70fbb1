"""While a call is in the air, the store may be away: the call goes on, and controls reach it when
the store is back. (A call was recorded as failed, and its process went on: found by P25's worlds.)
"""

import asyncio
from typing import Any, Final

import pytest

import pullcord
from pullcord import Context
from pullcord.core.events import Record, StepFinished
from pullcord.errors import StorageFailed
from pullcord.journal.facets.changes import Changes
from tests.runs import some_tools

TIMES: Final = 25


@pytest.fixture
def away(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The first looks for controls fail, whoever asks. What has failed is listed."""
    honest, failed = Changes.read_now, list[str]()

    def read_now(changes: Changes, run_id: str, *, after_seq: int = 0) -> list[Record]:
        if len(failed) < TIMES:
            failed.append(run_id)
            raise StorageFailed("Reading", path="runs.db", why="cut off", instead="Wait.")
        return honest(changes, run_id, after_seq=after_seq)

    monkeypatch.setattr(Changes, "read_now", read_now)
    return failed


async def test_a_tool_in_a_process_is_carried_out(away: list[str]) -> None:
    async def agent(ctx: Context) -> Any:
        return await ctx.tool(pullcord.tool(some_tools.add), 1, 2)

    async with pullcord.open(":memory:", agents={"agent": agent}) as runtime:
        run = await runtime.start("agent")
        assert await run.result() == 3
        records = await runtime.journal.read(run.id)
    assert away
    assert [r.event.attempt for r in records if isinstance(r.event, StepFinished)] == [1]


async def test_a_cancel_reaches_it_when_the_store_is_back(away: list[str]) -> None:
    async def agent(ctx: Context) -> None:
        await ctx.exec("sleep", "3600")

    async with pullcord.open(":memory:", agents={"agent": agent}) as runtime:
        run = await runtime.start("agent")
        async with asyncio.timeout(60):
            while len(away) < TIMES:  # noqa: ASYNC110 - the control thread looks again
                await asyncio.sleep(0.01)
            await run.cancel(by="ana")
            receipt = await run.receipt()
    assert receipt.interrupted == ("sleep",)
    assert not receipt.failed
