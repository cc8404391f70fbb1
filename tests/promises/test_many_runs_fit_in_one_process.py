"""Promise: a thousand live runs fit in one process, and all of them come to their end.

Live: entered, each in the middle of a step of its own. Measured in a process that does nothing
else. (`make bench` has the figures, and a hundred thousand parked runs beside them.)
"""

import asyncio
from pathlib import Path

from tests.promises.children import child

LIVE = 1000


async def test_a_thousand_live_runs_take_sixty_kib_each_and_complete(tmp_path: Path) -> None:
    async with (
        asyncio.timeout(90),
        child("bench.scale", "alive", str(tmp_path / "runs.db"), str(LIVE)) as process,
    ):
        began_s, each, ended_s, completed = map(float, (await process.says()).split())
    print(f"{each / 1024:.1f} KiB per live run; begun in {began_s:.1f} s, ended in {ended_s:.1f} s")
    assert completed == LIVE
    assert 0 < each <= 60 * 1024
