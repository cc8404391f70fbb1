"""Promise: a record that was changed, deleted or moved behind the journal's back is never taken for
true: reading it is refused, with its number, and nothing is decided on it.

The end of a journal cut off is *not* found by the chain alone: that needs a witness outside the
file, which the stop log will bring.
"""

from hashlib import sha256
from pathlib import Path

import pytest

from pullcord.core.commands import Cancel
from pullcord.core.events import Created, StepFinished, StepStarted
from pullcord.core.values import dump
from pullcord.errors import ChainBroken, FormatUnknown
from pullcord.journal.chain import link
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append
from tests.promises.store_files import edit

EDITS = {
    "a result changed": "UPDATE records SET payload = CAST(replace(payload, '42', '43') AS BLOB) "
    "WHERE seq = 4",
    "a record deleted": "DELETE FROM records WHERE seq = 3",
    "two records swapped": "UPDATE records SET payload = (SELECT payload FROM records r "
    "WHERE r.seq = 7 - records.seq) WHERE seq IN (3, 4)",
    "a time moved": "UPDATE records SET at_ms = at_ms + 1 WHERE seq = 2",
    "an epoch raised": "UPDATE records SET epoch = 7 WHERE seq = 4",
    "a hash overwritten": "UPDATE records SET hash = zeroblob(32) WHERE seq = 5",
    "not an event": "UPDATE records SET payload = x'00' WHERE seq = 4",
    "a payload gone": "UPDATE records SET payload = NULL, digest = zeroblob(32) WHERE seq = 4",
    "renumbered": "UPDATE records SET seq = seq + 1 WHERE seq = 6",
}


@pytest.fixture
async def path(tmp_path: Path) -> Path:
    async with Journal.open(tmp_path / "runs.db") as journal:
        created = Created(agent="churn", thread="t1")
        await journal.append(Append(run_id="r1", events=[created], expected_seq=0))
        await journal.acquire("r1", owner="w1", ttl_s=1000)
        for seq, step in ((2, "a"), (4, "b")):
            finished = StepFinished(step=step, result=dump(42))
            events = (StepStarted(step=step, name=step), finished)
            await journal.append(Append(run_id="r1", events=events, expected_seq=seq, epoch=1))
    return tmp_path / "runs.db"


@pytest.mark.parametrize("name", EDITS)
async def test_an_edit_is_found_and_nothing_is_decided_on_it(name: str, path: Path) -> None:
    assert edit(path, EDITS[name]) > 0
    async with Journal.open(path) as journal:
        with pytest.raises(ChainBroken, match="Keep the file as evidence"):
            await journal.read("r1")
        with pytest.raises(ChainBroken):
            await journal.command("r1", Cancel(by="ana"))
        with pytest.raises(ChainBroken):
            await journal.load("r1")


async def test_a_record_of_a_newer_build_keeps_this_build_away(path: Path) -> None:
    """Not damage: the run is left alone, and the message names the type."""
    payload = b'{"type":"teleported"}'
    async with Journal.open(path) as journal:
        head = await journal.head("r1")
    digest = link(head.hash, "r1", 7, head.updated_at_ms, 1, sha256(payload).digest(), None)
    edit(
        path,
        "INSERT INTO records (run, seq, at_ms, epoch, payload, hash) VALUES "
        f"(1, 7, {head.updated_at_ms}, 1, x'{payload.hex()}', x'{digest.hex()}')",
    )
    async with Journal.open(path) as journal:
        with pytest.raises(FormatUnknown, match="teleported"):
            await journal.load("r1")
        with pytest.raises(FormatUnknown, match="teleported"):
            await journal.command("r1", Cancel(by="ana"))
        assert (await journal.head("r1")).seq == 7
