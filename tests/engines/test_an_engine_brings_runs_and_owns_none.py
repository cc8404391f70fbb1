"""Every engine keeps the contract: the one in the process, and a queue that is as bad as may be."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import RunState
from pullcord.core.events import CancelRequested
from pullcord.engines import Engine, InProcess
from pullcord.runtime.runtime import worker_of
from pullcord.testing.engine_contract import CONTRACT, Check
from tests.engines.queue_engine import Queue, QueueEngine
from tests.runs.observed_runs import OutsideWorld, happened


def a_queue(**faults: int) -> Callable[[], Engine]:
    queue = Queue(**faults)
    return lambda: QueueEngine(queue)


@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
@pytest.mark.parametrize("kind", ["in process", "queue", "queue that loses", "queue that cancels"])
async def test_it_keeps_the_contract(kind: str, check: Check, tmp_path: Path) -> None:
    makes: dict[str, Callable[[], Engine]] = {
        "in process": InProcess,
        "queue": a_queue(),
        "queue that loses": a_queue(loses=3),
        "queue that cancels": a_queue(cancels=3),
    }
    await check(makes[kind], tmp_path)


class Silent(InProcess):
    """Brings nothing: the test does."""

    async def wake(self, run_id: str) -> None:
        pass


@pytest.mark.parametrize("is_begun", [True, False])
async def test_a_delivery_that_is_cancelled_cancels_no_run(is_begun: bool) -> None:
    """The run is given back at a place where another delivery can go on with it."""
    world = OutsideWorld()

    async def agent(ctx: pullcord.Context) -> None:
        await ctx.step("slow", world.slow, "it")
        await ctx.step("last", world.do, "the last")

    agents: Any = {"agent": agent}
    async with pullcord.open(":memory:", agents=agents, engine=Silent()) as runtime:
        worker = worker_of(runtime)
        run = await runtime.start("agent")
        assert (await run.snapshot()).state is RunState.QUEUED
        delivery = asyncio.create_task(worker.drive(run.id))
        await (world.begun.wait() if is_begun else asyncio.sleep(0))
        delivery.cancel()
        await asyncio.wait({delivery})
        assert delivery.cancelled()
        if is_begun:
            assert not await worker.drive(run.id), "the first delivery has not let go of it"
        world.go_on.set()
        await worker.let_go(run.id)
        assert (await run.snapshot()).state is RunState.QUEUED
        assert await worker.drive(run.id)
        assert world.did == ["it", "the last"]
        assert not await worker.drive(run.id), "it has ended"
        assert not await happened(runtime, run.id, CancelRequested)


async def test_a_run_that_nobody_knows_here_is_not_driven_here(tmp_path: Path) -> None:
    async def agent(_ctx: pullcord.Context) -> None: ...

    path = tmp_path / "runs.db"
    one: Any = {"one": agent}
    other: Any = {"other": agent}
    async with (
        pullcord.open(path, agents=one, engine=Silent()) as starts,
        pullcord.open(path, agents=other, engine=Silent()) as runtime,
    ):
        run = await starts.start("one")
        assert not await worker_of(runtime).drive(run.id)
        with pytest.raises(pullcord.errors.RunNotFound):
            await worker_of(runtime).drive("nothing")
        assert await worker_of(starts).drive(run.id)


async def test_an_engine_that_fails_is_asked_again(caplog: pytest.LogCaptureFixture) -> None:
    """Its error is logged, and housekeeping goes on."""

    class Failing(InProcess):
        wakes = 0

        async def wake(self, run_id: str) -> None:
            self.wakes += 1
            if self.wakes < 3:
                raise ConnectionError("the queue is down")
            await super().wake(run_id)

    async def agent(_ctx: pullcord.Context) -> str:
        return "done"

    agents: Any = {"agent": agent}
    async with pullcord.open(":memory:", agents=agents, engine=Failing()) as runtime:
        first = await runtime.start("agent")
        await runtime.start("agent")  # each start is one more look
        await runtime.start("agent")
        assert await first.result() == "done"
    assert "the queue is down" in caplog.text
