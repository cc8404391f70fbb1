"""The store is away for a while: no tool is killed for it, and nobody is asked anything.

Longer than the lease, and shorter; PostgreSQL stalls or refuses, and a file is locked. What a
process tool did meanwhile it goes on with, or stands still and goes on; it is begun once.
"""

import asyncio
from typing import Final

import pytest

from pullcord.core import events as e
from pullcord.core.states import TERMINAL
from tests.conftest import FULL
from tests.world.effects import TICK_S
from tests.world.judge import judge, summary
from tests.world.nemesis import gathered
from tests.world.places import State
from tests.world.scenes import Scene
from tests.world.stage import world

CASES: Final[list[tuple[str, State, bool]]] = [
    ("postgres", "stalled", True),
    ("postgres", "cut", True),
    ("sqlite", "cut", True),
    ("postgres", "stalled", False),
    *([("postgres", "cut", False), ("sqlite", "cut", False)] if FULL else []),
]
"""The store, what becomes of it, and whether its owner is the only process there."""
LEASE_S: Final = 30.0 if FULL else 1.0
AWAY_S: Final = [7.0, 60.0] if FULL else [2.5]  # shorter than a lease, and longer
WAYS: Final = ("in_process", "exec", "in_loop", "to_thread")


async def is_unharmed(
    store: str, how: State, *, away_s: float, lease_s: float, alone: bool
) -> None:
    """All kinds of calls are under way when the store goes away, and end well after it is back."""
    async with world(store, lease_s=lease_s, actors=2) as made:
        scene = Scene(made)
        await scene.opens()
        ticks = round((away_s + 2) / TICK_S)
        for number, kind in enumerate(WAYS):
            await scene.starts((kind, ticks), run=f"r{number}")
        if not alone:
            await scene.second_enters()
        await asyncio.to_thread(made.place.away, 0, how)
        await asyncio.sleep(away_s)  # that is the fault: nothing is waited for
        made.place.back()
        for number in range(len(WAYS)):
            await scene.reaches(*TERMINAL, run=f"r{number}", within_s=away_s + 60)
        evidence = await gathered(made, scene.hand, "away", scene.offset_s)
    found = judge(evidence)
    assert not found, summary(found)
    for run, records in evidence.records.items():
        events = [record.event for record in records]
        assert not [x for x in events if isinstance(x, e.QuestionAsked | e.AttentionRaised)], run
        assert not [x for x in events if isinstance(x, e.StepInterrupted | e.StepInDoubt)], run
        assert isinstance(events[-1], e.Completed), (run, events[-1])
    begun = [one for one in evidence.effects if one.what == "begin"]
    assert len(begun) == len(WAYS), "a call was begun twice"


@pytest.mark.campaign
@pytest.mark.parametrize("away_s", AWAY_S)
async def test_no_tool_is_killed_and_nobody_is_asked(away_s: float) -> None:
    """For its only owner, and with another process there that could take the runs over."""
    async with asyncio.TaskGroup() as all_at_once:
        for store, how, alone in CASES:
            work = is_unharmed(store, how, away_s=away_s, lease_s=LEASE_S, alone=alone)
            all_at_once.create_task(work)
