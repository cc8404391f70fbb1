"""The same run paused and resumed at every one of its checkpoints ends as the undisturbed one."""

import asyncio
from collections.abc import AsyncIterator
from typing import get_args

import pytest

from pullcord import Context
from pullcord.core.events import Paused, StepFinished, TextEnded
from pullcord.core.states import RunState
from pullcord.testing import at_every_checkpoint
from pullcord.testing.checkpoints import Disturbance, Disturbed


class EveryDoor:
    """An agent that uses every door, and what it did in the world."""

    def __init__(self) -> None:
        self.done: list[str] = []

    async def do(self, what: str) -> str:
        self.done.append(what)
        return what.upper()

    async def report(self, ctx: Context, month: str) -> dict[str, object]:
        stamp = await ctx.now()
        texts: list[str] = []
        await ctx.defer(self.do, "unlock")
        async for item in ctx.plan(["fetch", "join"]):
            texts.append(await ctx.step(item.title, self.do, f"{item.title} {month}"))
        both = await asyncio.gather(
            ctx.branch("eu").step("score", self.do, "score eu"),
            ctx.branch("us").step("score", self.do, "score us", effect="idempotent"),
        )
        child = await ctx.spawn("memo", month)
        await ctx.sleep(0.001)
        sure = await ctx.ask("send it?")
        said = await ctx.say(self.words())
        return {
            "steps": [*texts, *both],
            "memo": await child.result(),
            "sure": sure,
            "said": said,
            "same time": stamp == await ctx.step("stamp", self.echo, stamp, effect="none"),
        }

    async def memo(self, ctx: Context, month: str) -> str:
        return await ctx.step("write", self.do, f"memo {month}")

    async def words(self) -> AsyncIterator[str]:
        for word in ("all ", "is ", "well"):
            yield word

    async def echo(self, value: float) -> float:
        return value


def told(run: Disturbed) -> dict[str, object]:
    """What must be the same, however often it was disturbed."""
    return {
        "result": run.result,
        "state": run.run.state,
        "error": run.run.error,
        "finished": sum(isinstance(r.event, StepFinished) for r in run.records),
        "whole": [text for r in run.records for text in _whole(r.event)],
        "attention": run.run.attention,
    }


def _whole(event: object) -> list[str]:
    return [event.text] if isinstance(event, TextEnded) and event.complete else []


@pytest.mark.parametrize("disturbance", get_args(Disturbance))
async def test_a_run_paused_and_resumed_at_every_checkpoint_ends_as_the_undisturbed_one(
    disturbance: Disturbance,
) -> None:
    doors = EveryDoor()
    agents = {"report": doors.report, "memo": doors.memo}
    wanted: tuple[dict[str, object], list[str]] | None = None
    paused = 0
    async for run in at_every_checkpoint(agents, "report", "May", disturbance=disturbance):
        found = (told(run), sorted(doors.done))
        doors.done.clear()
        wanted = wanted or found
        assert found == wanted, (run.at, run.when)
        paused += any(isinstance(record.event, Paused) for record in run.records)
    assert wanted is not None
    assert wanted[0]["state"] is RunState.COMPLETED
    assert paused > 30  # it was really disturbed
