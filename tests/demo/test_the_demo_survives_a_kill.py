"""The demo is killed with `kill -9` after it has posted its line, and opened again."""

import asyncio
import sys
from pathlib import Path

import pytest

from pullcord import RunState
from tests.demo.show import BOTH, allow, posted, show


@pytest.mark.parametrize("name", BOTH)
async def test_killed_and_opened_again_it_posts_nothing_twice(name: str, tmp_path: Path) -> None:
    store = tmp_path / "runs.db"
    victim = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.demo.victim", str(store), name),
        stdout=asyncio.subprocess.PIPE,
    )
    assert victim.stdout is not None
    async with asyncio.timeout(120):
        assert await victim.stdout.readline() == b"posted\n"
    victim.kill()
    await victim.wait()
    assert len(posted()) == 1
    async with show(tmp_path) as runtime:
        run = await runtime.get("r1")
        await allow(run)
        await run.result()
        assert (await run.snapshot()).state is RunState.COMPLETED
        assert len((await run.receipt()).done) == 6
    assert len(posted()) == 1
