"""Promise: whoever is killed while runs are forgotten, each of them is forgotten or it is not; what
was acknowledged is; and the same command again finishes it, to the last byte."""

from pathlib import Path

import pytest

from pullcord.core.commands import Forget
from pullcord.journal.journal import Journal
from tests.crash.points import every_point
from tests.crash.scenarios import FORGOTTEN_WORDS, forgets
from tests.promises.store_files import files_of


@pytest.mark.campaign
async def test_a_killed_forget_is_done_or_not(tmp_path: Path) -> None:
    points = halfway = 0
    for report in await every_point(forgets, tmp_path, pick=lambda at, _when: at > 9):
        async with Journal.open(report.path) as journal:
            gone = 0
            for run_id in ("gone-1", "gone-2"):
                run, records = await journal.load(run_id), await journal.read(run_id)
                assert (run.forgotten is not None) == (len(records) == 1)
                assert run.forgotten or f"forgot {run_id}" not in report.acked
                gone += run.forgotten is not None
            halfway += gone == 1
            assert len(await journal.read("kept")) == 5
            for run_id in ("gone-1", "gone-2"):
                assert (await journal.retention.forget(run_id, Forget(by="bo"))).holds
            assert await journal.retention.scrub() == "gone"
        files = files_of(report.path).items()
        left = b"".join(data for name, data in files if name.startswith(report.path.name))
        assert not [word for word in FORGOTTEN_WORDS if word.encode() in left]
        assert b"kept-word" in left
        points += 1
    assert points >= 6
    assert halfway
    print(f"{points} crash points, {halfway} between two runs, 0 half")
