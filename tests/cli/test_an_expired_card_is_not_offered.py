"""A card that nobody can answer any more is not shown as one that can be answered."""

from pathlib import Path

import pytest

from pullcord import RunState
from pullcord.testing import ManualClock
from tests.cli.terminal import Terminal
from tests.runs.approving import Bank, card, payer
from tests.runs.observed_runs import UNHURRIED, runtime_with, settles


async def expired_long_ago(folder: Path) -> str:
    """A run that waits for an approval whose time has passed while no process ran."""
    clock = ManualClock()
    agent = payer(Bank().pay(approve_within_s=60.0))
    async with runtime_with(
        folder / "runs.db", agent=agent, clock=clock, timing=UNHURRIED
    ) as runtime:
        run = await runtime.start("agent", run_id="r1")
        asked = await card(run)
        await settles(run, clock, RunState.WAITING)
    return asked.question


async def test_an_expired_card_is_not_among_the_approvals(tmp_path: Path) -> None:
    name = await expired_long_ago(tmp_path)
    terminal = Terminal(tmp_path)
    assert f"pullcord approve r1 {name}" not in terminal("approvals").out
    assert terminal("approvals", "--json").json == []


@pytest.mark.parametrize("verb", ["approve", "deny"])
async def test_whoever_answers_it_all_the_same_is_told_that_it_has_expired(
    verb: str, tmp_path: Path
) -> None:
    name = await expired_long_ago(tmp_path)
    said = Terminal(tmp_path)(verb, "r1", name)
    assert said.status != 0
    assert "has expired" in said.out + said.err
