"""Promise: each step has one decision and each run one end; the first record to commit is it, and
everyone is told the same (L1 to L6), whatever order things reach the journal in.

The detector is tested too: bugs planted on purpose are each found.
"""

import itertools
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from pullcord.core.states import RunState
from pullcord.errors import PullcordError
from pullcord.journal.memory_store import MemoryStore
from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.journal.store import Store
from pullcord.testing.schedules import ScheduleLoop, Tape, explore, explore_random, run_schedule
from pullcord.testing.schedules import Story as Play
from tests.conftest import FULL
from tests.races.laws import violations
from tests.races.planted import PLANTED, Plant
from tests.races.scheduled_journals import ScheduledJournals
from tests.races.stories import STORIES, Story, cancel_against_completion

RANDOM = 77_000 if FULL else 900  # schedules per story
EXHAUSTIVE = 4_000 if FULL else 300  # depth-first, per story
ON_DISK = 500 if FULL else 12  # on SQLite, per story
SENSITIVITY = 6_000  # a planted bug must show within this many


def told(
    story: Story,
    *,
    patience: int = 24,
    worlds: list[ScheduledJournals] | None = None,
    make_store: Callable[[], Store] = MemoryStore,
) -> Play[ScheduledJournals]:
    async def play(loop: ScheduleLoop) -> ScheduledJournals:
        scheduled = ScheduledJournals(loop, patience=patience, store=make_store())
        if worlds is not None:
            worlds[:] = [scheduled]
        try:
            await story(scheduled)
        finally:
            scheduled.close()
        return scheduled

    return play


def broken(scheduled: ScheduledJournals) -> list[str]:
    return violations(scheduled) + [str(error) for error in scheduled.loop.errors]


@pytest.mark.campaign
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_no_order_of_events_breaks_a_law(story: Story) -> None:
    tapes: set[str] = set()
    ends: Counter[str] = Counter()
    for seed, tape, scheduled in explore_random(told(story), seeds=range(RANDOM)):
        assert not broken(scheduled), f"seed {seed}, schedule {tape}: {broken(scheduled)}"
        tapes.add(str(tape))
        ends[_end(scheduled)] += 1
    print(f"{RANDOM} schedules, {len(tapes)} different, 0 violations, ends: {dict(ends)}")


@pytest.mark.campaign
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_the_first_orders_depth_first_break_no_law(story: Story) -> None:
    count = 0
    for tape, scheduled in explore(told(story, patience=2), limit=EXHAUSTIVE):
        assert not broken(scheduled), f"schedule {tape}: {broken(scheduled)}"
        count += 1
    print(f"{count} schedules, 0 violations")


@pytest.mark.campaign
@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.__name__)
def test_on_a_real_file_no_order_of_events_breaks_a_law(story: Story, tmp_path: Path) -> None:
    """The same rules on SQLite: its transactions, its cache of heads, its version counter."""
    names = itertools.count()
    play = told(story, make_store=lambda: SqliteStore(tmp_path / f"{next(names)}.db"))
    for seed, tape, scheduled in explore_random(play, seeds=range(ON_DISK)):
        assert not broken(scheduled), f"seed {seed}, schedule {tape}: {broken(scheduled)}"
        scheduled.store.close()
    print(f"{ON_DISK} schedules on SQLite, 0 violations")


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__)
def test_a_planted_bug_is_found(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    plant(monkeypatch)
    tried = 0
    for block in range(0, SENSITIVITY // len(STORIES), 50):
        for story in STORIES:
            found = _first_trace(story, range(block, block + 50))
            tried += found[0]
            if found[1]:
                print(f"found after {tried} schedules in {story.__name__}: {found[1]}")
                return
    pytest.fail(f"not found in {tried} schedules")


def test_a_schedule_can_be_played_again() -> None:
    story = told(cancel_against_completion)
    for _, tape, scheduled in explore_random(story, seeds=range(20)):
        replayed = run_schedule(
            story, Tape([int(choice) for choice in str(tape).split()], lambda _: 0)
        )
        assert replayed.controls == scheduled.controls
        assert replayed.moment == scheduled.moment


def _first_trace(story: Story, seeds: range) -> tuple[int, str]:
    """How many schedules were run, and what the first violation was. A crash is a trace too."""
    worlds: list[ScheduledJournals] = []
    for tried, seed in enumerate(seeds, 1):
        crash = ""
        try:
            list(explore_random(told(story, worlds=worlds), seeds=range(seed, seed + 1)))
        except (PullcordError, RuntimeError, KeyError) as error:
            crash = f"{type(error).__name__}: {error}"
        if found := [*broken(worlds[0]), *([crash] if crash else [])]:
            return tried, found[0]
    return len(seeds), ""


def _end(scheduled: ScheduledJournals) -> str:
    (head,) = scheduled.store.read(
        lambda view: view.heads(
            states=RunState, thread="t1", before="c1" if view.head("c1") else None, limit=1
        )
    )
    return head.state.value
