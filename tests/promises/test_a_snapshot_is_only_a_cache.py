"""Promise: a run loaded from its snapshot is the run its records make. A snapshot that is damaged,
outdated, of another format or of another run costs time and changes nothing.
"""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest

from pullcord.core.commands import Pause
from pullcord.core.events import Created, StepFinished, StepStarted
from pullcord.core.fold import replay
from pullcord.core.run import Run
from pullcord.core.values import dump
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Claim
from tests.promises.store_files import edit

STEPS = 330  # a snapshot each 200 records: the last one is some records behind the end


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncGenerator[Journal]:
    async with Journal.open(tmp_path / "runs.db") as journal:
        for run_id in ("r1", "r2"):
            await fill(journal, run_id)
        yield journal


async def fill(journal: Journal, run_id: str) -> Claim:
    created = Created(agent="churn", thread=run_id)
    await journal.append(Append(run_id=run_id, events=[created], expected_seq=0))
    claim = await journal.acquire(run_id, owner="w1", ttl_s=1000)
    assert claim is not None
    seq = 2
    for number in range(STEPS):
        events = (
            StepStarted(step=f"s{number}", name=run_id),
            StepFinished(step=f"s{number}", result=dump(number)),
        )
        await journal.append(Append(run_id=run_id, events=events, expected_seq=seq, epoch=1))
        seq += 2
    return claim


async def folded(journal: Journal, run_id: str = "r1") -> Run:
    return replay(run_id, await journal.read(run_id))


DAMAGE = {
    "deleted": "DELETE FROM snapshots",
    "flipped": "UPDATE snapshots SET data = CAST(substr(data, 1, 60) || x'FF' || "
    "substr(data, 62) AS BLOB)",
    "truncated": "UPDATE snapshots SET data = substr(data, 1, 100)",
    "empty": "UPDATE snapshots SET data = x''",
    "of another format": "UPDATE snapshots SET format = 999",
    "of another record": "UPDATE snapshots SET seq = seq - 1",
    "newer than the journal": "UPDATE snapshots SET seq = seq + 1000",
    "with another hash": "UPDATE snapshots SET hash = zeroblob(32)",
    "of another run": "UPDATE snapshots SET (seq, hash, data) = "
    "(SELECT seq, hash, data FROM snapshots s WHERE s.run <> snapshots.run)",
}


async def test_from_its_snapshot_a_run_is_what_its_records_make(journal: Journal) -> None:
    assert await journal.load("r1") == await folded(journal)


@pytest.mark.parametrize("damage", DAMAGE)
async def test_an_unsound_snapshot_changes_nothing(
    damage: str, journal: Journal, tmp_path: Path
) -> None:
    before = await folded(journal)
    assert edit(tmp_path / "runs.db", DAMAGE[damage]) == 2
    assert await journal.load("r1") == before
    async with Journal.open(tmp_path / "runs.db") as fresh:  # a writer without a warm cache
        ack = await fresh.command("r1", Pause(by="ana"))
        assert (ack.verdict, ack.seq) == ("applied", before.seq + 1)
        assert await fresh.load("r1") == await folded(fresh)
