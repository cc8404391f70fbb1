"""No false alarm: ordinary runs, and every example, are never paused by a guard: not by those over
runaways, and not by the one over a prompt that speaks of the same things.

The sample has two runs of each of 26 kinds; the full form twelve, 312 in all.
"""

import asyncio
import os
import random
import subprocess
import sys
from pathlib import Path

import pytest

import pullcord
from pullcord import RunState
from pullcord.core.events import PauseRequested
from pullcord.core.states import TERMINAL
from pullcord.guard import canary
from pullcord.limits import Never
from tests.guards.ordinary import KINDS
from tests.runs.observed_runs import happened
from tests.storage.campaign import FULL

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = sorted(path.name for path in (ROOT / "examples").glob("*.py"))
SEEDS = range(12 if FULL else 2)
PROMPT = """You are a careful engineer who works in a small repository. Look at the files before
you change them: list the files, read the ones that you need, and search for how to do it. Write
one file at a time, run the tests after every edit, and stop when they pass. If a page cannot be
fetched, try again up to three times; if a host does not answer, say so. Before and after each
stage of a deployment, to staging, canary and all, check every host and make sure that it is ok.
While a job is running, wait for some seconds and ask how many lines it has done so far. When there
is nothing left to do, say that you are done, and do not go round in circles."""
pytestmark = pytest.mark.campaign


@pytest.mark.parametrize("kind", KINDS)
async def test_an_ordinary_run_is_never_paused(kind: str) -> None:
    agents = {f"agent{seed}": KINDS[kind](random.Random(f"{kind} {seed}")) for seed in SEEDS}
    guards = [canary(PROMPT)[1]]
    async with (
        asyncio.timeout(400 if FULL else 60),
        pullcord.open(":memory:", agents=agents, guards=guards) as runtime,
    ):
        runs = [await runtime.start(name, "go", run_id=name, limits=Never()) for name in agents]
        for run in runs:
            ended = await run.wait_for(RunState.PAUSED, *TERMINAL)
            stopped = await happened(runtime, run.id, PauseRequested)
            assert not stopped, f"{kind}: {stopped[0].reason}"
            assert ended.state is RunState.COMPLETED, ended.error


WATCHING = """
import logging, runpy, sys
from pullcord.core.events import PauseRequested
from pullcord.journal.rules import ledger

evolve = ledger.evolve

def watched(run, record):
    if isinstance(record.event, PauseRequested) and record.event.source == "guard":
        print("PAUSED BY A GUARD:", record.event.reason)
    return evolve(run, record)

ledger.evolve = watched
runpy.run_path(sys.argv[1], run_name="__main__")
"""


@pytest.mark.parametrize("example", EXAMPLES)
def test_no_example_is_ever_paused_by_a_guard(example: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", WATCHING, f"examples/{example}"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}"},
    )
    assert "PAUSED BY A GUARD" not in done.stdout
