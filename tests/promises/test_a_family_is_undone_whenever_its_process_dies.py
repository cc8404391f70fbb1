"""Promise: a cancelled family is undone as one, whenever the process dies.

A process that drives a run, its children and theirs, and cancels and undoes all of it, is killed
before, inside and after each of its writes. Another goes on. Everything that any of them had done
is gone, the newest first over the whole family, and the root's receipt says so.
"""

import asyncio
import random
from pathlib import Path
from typing import Final

import pytest

import pullcord
from pullcord import RunState, Timing
from pullcord.errors import RunNotFound
from pullcord.testing import crash_points
from pullcord.testing.crashing import CrashReport, When
from tests.conftest import FULL
from tests.promises.family_lives import AGENTS
from tests.promises.undo_lives import book_of
from tests.runs.undo_tools import did

SAMPLED: Final = 0.04


@pytest.mark.campaign
async def test_everything_that_the_family_did_is_undone_newest_first(tmp_path: Path) -> None:
    seed = random.Random("families")

    def pick(_at: int, _when: When) -> bool:
        return FULL or seed.random() < SAMPLED

    deaths = 0
    points = crash_points("tests.promises.family_lives:cancelled", tmp_path, pick=pick)
    while report := await asyncio.to_thread(next, points, None):
        await undone_by_the_next(report)
        deaths += 1
    assert deaths >= 3


async def undone_by_the_next(report: CrashReport) -> None:
    quick = Timing(stop_grace_s=0.1, quiet_s=0.005)
    async with (
        asyncio.timeout(120),
        pullcord.open(report.path, agents=AGENTS, timing=quick) as runtime,
    ):
        try:
            run = await runtime.get("r1")
        except RunNotFound:
            return  # it died before there was one
        await run.cancel(by="bo")
        receipt = await run.receipt()
    lines = did(book_of(report.path))
    done = list(dict.fromkeys(line.removeprefix("do ") for line in lines if line[:3] == "do "))
    undone = [line.removeprefix("undo ") for line in lines if line.startswith("undo ")]
    last = list(dict.fromkeys(reversed(undone)))  # an undo that was cut off is called again
    assert receipt.state is RunState.CANCELLED, report
    assert [name for name in last if name in done] == done, report
    assert (receipt.done, receipt.could_not_undo, receipt.attention) == ((), (), ()), report
    assert len(receipt.undone) >= len(done), report
