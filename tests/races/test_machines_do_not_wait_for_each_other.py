"""Promise: machines that write to one store at the same time, each relying on what it has read, get
what they would have got one after the other (L1 to L6, and the laws of families, budgets, threads).

Every process has an optimistic transaction of its own. The tape places other people's commits
between any two questions of a job, and behind every step of its commit. The detector is tested too.
"""

import logging
from collections import Counter

import pytest

from pullcord.errors import PullcordError
from pullcord.journal.optimistic import Contended
from pullcord.testing.schedules import ScheduleLoop, explore, explore_random
from pullcord.testing.schedules import Story as Play
from pullcord.testing.shared_memory_store import SharedMemoryStore
from tests.conftest import FULL
from tests.races.laws import violations
from tests.races.machine_laws import machine_violations
from tests.races.machine_stories import MACHINE_STORIES
from tests.races.planted_in_transactions import PLANTED_IN_TRANSACTIONS, Planted
from tests.races.run_stories import RUN_STORIES
from tests.races.scheduled_journals import ScheduledJournals
from tests.races.scheduled_runtimes import Story as RunStory
from tests.races.scheduled_runtimes import played
from tests.races.stories import STORIES, Story

RANDOM = 4_000 if FULL else 60  # schedules per story
EXHAUSTIVE = 1_000 if FULL else 20  # depth-first, per story
OF_RUNS = 500 if FULL else 5  # of whole runtimes, per story
SENSITIVITY = 4_000  # a planted bug must show within this many
_STEPS_MAX = 20_000
ALL_STORIES = (*MACHINE_STORIES, *STORIES)


def told(
    story: Story, *, patience: int = 24, worlds: list[ScheduledJournals] | None = None
) -> Play[ScheduledJournals]:
    async def play(loop: ScheduleLoop) -> ScheduledJournals:
        loop.patience = _STEPS_MAX
        scheduled = ScheduledJournals(loop, patience=patience, store=SharedMemoryStore())
        if worlds is not None:
            worlds[:] = [scheduled]
        try:
            await story(scheduled)
        finally:
            scheduled.close()
        return scheduled

    return play


def broken(scheduled: ScheduledJournals) -> list[str]:
    if found := machine_violations(scheduled):
        return found
    return violations(scheduled) + [str(error) for error in scheduled.loop.errors]


@pytest.mark.campaign
@pytest.mark.parametrize("story", ALL_STORIES, ids=lambda story: story.__name__)
def test_no_order_of_events_breaks_a_law(story: Story) -> None:
    tapes, met = set[str](), Counter[str]()
    for seed, tape, scheduled in explore_random(told(story), seeds=range(RANDOM)):
        assert not broken(scheduled), f"seed {seed}, schedule {tape}: {broken(scheduled)}"
        tapes.add(str(tape))
        met["put off"] += sum(process.put_off() for process in scheduled.processes)
    print(f"{RANDOM} schedules, {len(tapes)} different, 0 violations, {dict(met)}")


@pytest.mark.campaign
@pytest.mark.parametrize("story", ALL_STORIES, ids=lambda story: story.__name__)
def test_the_first_orders_depth_first_break_no_law(story: Story) -> None:
    count = 0
    for tape, scheduled in explore(told(story, patience=2), limit=EXHAUSTIVE):
        assert not broken(scheduled), f"schedule {tape}: {broken(scheduled)}"
        count += 1
    print(f"{count} schedules, 0 violations")


@pytest.mark.campaign
@pytest.mark.parametrize("story", RUN_STORIES, ids=lambda story: story.__name__)
def test_whole_runs_obey_on_many_machines(story: RunStory) -> None:
    logging.getLogger("pullcord.runtime").propagate = False
    tapes = set[str]()
    for seed, tape, found in explore_random(played(story, SharedMemoryStore), seeds=range(OF_RUNS)):
        assert not found, f"seed {seed}, schedule {tape}: {found}"
        tapes.add(str(tape))
    print(f"{OF_RUNS} schedules, {len(tapes)} different, 0 violations")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(
    "planted", PLANTED_IN_TRANSACTIONS, ids=lambda planted: planted.plant.__name__
)
def test_a_planted_bug_is_found(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    planted.plant(monkeypatch)
    for seed in range(SENSITIVITY):
        if trace := _trace(planted.story, seed):
            print(f"found after {seed + 1} schedules in {planted.story.__name__}: {trace}")
            return
    pytest.fail(f"not found in {SENSITIVITY} schedules of {planted.story.__name__}")


def _trace(story: Story, seed: int) -> str:
    """What the law says of one schedule. A crash or a story without an end is a trace too."""
    worlds: list[ScheduledJournals] = []
    try:
        list(explore_random(told(story, worlds=worlds), seeds=range(seed, seed + 1)))
        return next(iter(broken(worlds[0])), "")
    except (PullcordError, Contended, RuntimeError, KeyError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"[:200]
