"""Killed at any write while a guard stops its run: what it found is never there without the stop,
and whoever goes on shows nothing of it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pullcord import AgentConfig, RunState
from pullcord.core.events import TAGS
from pullcord.errors import RunNotFound
from pullcord.testing.crashing import crash_points
from tests.guards.crashes import STOPPED, cancelled, paused
from tests.guards.watching import Viewer, assert_clean
from tests.runs.observed_runs import names, runtime_with
from tests.storage.campaign import FULL

LIVES: dict[str, tuple[Callable[[], AgentConfig], str]] = {
    "until_paused": (paused, "pause_requested"),
    "until_cancelled": (cancelled, "cancel_requested"),
}


@pytest.mark.campaign
@pytest.mark.parametrize("life", LIVES)
async def test_a_crash_loses_no_stop(life: str, tmp_path: Path) -> None:
    agent, stop = LIVES[life]
    deaths = found = 0
    wanted = f"tests.guards.crashes:{life}"
    for died in crash_points(wanted, tmp_path, pick=lambda at, when: FULL or when == "after"):
        deaths += 1
        async with runtime_with(died.path, agent=agent()) as runtime:
            try:
                run = await runtime.get("r1")
            except RunNotFound:
                continue
            happened = await names(runtime, run.id)
            if "guard_tripped" in happened:
                found += 1
                assert happened[happened.index("guard_tripped") + 1] == stop
            after = await run.wait_for(*STOPPED)
            assert (after.state is RunState.PAUSED) == (stop == "pause_requested")
            viewer = await Viewer().watch(run)
            assert_clean(viewer.bytes)
            happened = await names(runtime, run.id)
            assert "step_finished" not in happened
            assert happened.count("guard_tripped") == happened.count(stop) == 1
    print(f"{deaths} deaths, {found} of them behind the evidence")
    assert deaths > 5
    assert 0 < found < deaths
    assert "guard_tripped" in TAGS.values()
