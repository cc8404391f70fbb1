"""An error of our own in an undo or a release ends the driving: the driver does not spin."""

from typing import Any

import pytest

import pullcord
from pullcord import RunState
from pullcord.runtime.driving.releasing import Releasing
from pullcord.runtime.driving.undoing import Undoing
from pullcord.runtime.runtime import worker_of
from tests.runs.observed_runs import OutsideWorld, runtime_with


@pytest.mark.parametrize(("kind", "method"), [(Undoing, "_undo"), (Releasing, "_release")])
async def test_what_breaks_in_an_undo_or_a_release_is_tried_once_for_each_lease(
    kind: Any, method: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world, tries = OutsideWorld(), 0

    async def breaks(*_: Any) -> None:
        nonlocal tries
        tries += 1
        raise AttributeError("this is an error of ours")

    monkeypatch.setattr(kind, method, breaks)

    async def take_back(_call: pullcord.Call) -> None:
        world.did.append("taken back")

    @pullcord.tool(undo=take_back)
    async def draft() -> None:
        world.did.append("drafted")

    async def agent(ctx: pullcord.Context) -> None:
        await ctx.defer(world.do, "released")
        await ctx.tool(draft)
        world.begun.set()
        await ctx.ask("go on?")

    async with runtime_with(agent=agent) as runtime:
        worker = worker_of(runtime)
        run = await runtime.start("agent")
        await world.begun.wait()
        await run.cancel(by="ana")
        await worker.let_go(run.id)
        assert tries == 1
        assert "this is an error of ours" in caplog.text
        assert (await run.snapshot()).state is RunState.CANCELLING
