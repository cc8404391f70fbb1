"""Promise: a run paused under one version of its code finishes under the next one.

Also if that one has a step more before the place where the run was parked: the new step is
carried out, no finished one is repeated, and the journal names both versions.
"""

import os
import signal
from pathlib import Path

import pytest

import pullcord
from pullcord.core.events import Claimed
from pullcord.core.states import RunState
from tests.promises.children import child
from tests.promises.lives import effects

LIVES = "tests.promises.lives"


@pytest.mark.parametrize("end", ["closed", "killed"])
async def test_a_run_paused_under_version_1_finishes_under_version_2(
    end: str, tmp_path: Path
) -> None:
    path = tmp_path / "runs.db"
    async with child(LIVES, "deployed", str(path), "1") as first:
        said, pid = (await first.says()).split()
        assert said == "paused"
        if end == "killed":
            os.kill(int(pid), signal.SIGKILL)
        else:
            await first.tell("close")
    assert effects(path) == ["fetch-v1", "charge-v1"]

    async with child(LIVES, "deployed", str(path), "2") as second:
        assert await second.says() == "fetch check charge mail"

    assert effects(path) == ["fetch-v1", "charge-v1", "check-v2", "mail-v2"]
    async with pullcord.open(path) as runtime:
        run = await (await runtime.get("r1")).snapshot()
        records = await runtime.journal.read("r1")
    assert run.state is RunState.COMPLETED
    assert not run.attention
    claims = [record.event for record in records if isinstance(record.event, Claimed)]
    assert [claim.code_version for claim in claims] == ["1", "2"]
