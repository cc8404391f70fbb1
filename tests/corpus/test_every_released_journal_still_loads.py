"""Promise: a journal of every released version opens and replays to the state it had then."""

import shutil
from pathlib import Path

import msgspec
import pytest

from pullcord.core.fold import replay
from pullcord.journal.journal import Journal
from tests.corpus.make import FOLDER, fingerprint

STORED = sorted(FOLDER.glob("*/*.db"))


@pytest.mark.parametrize("stored", STORED, ids=lambda path: f"{path.parent.name}/{path.stem}")
async def test_a_stored_journal_replays_to_the_state_it_had(stored: Path, tmp_path: Path) -> None:
    kinds = dict[str, dict[str, str]]
    expected = msgspec.json.decode((stored.parent / "expected.json").read_bytes(), type=kinds)
    shutil.copy(stored, tmp_path / stored.name)
    async with Journal.open(tmp_path / stored.name) as journal:
        for run_id, state in expected[stored.name].items():
            assert fingerprint(await journal.load(run_id)) == state
            records = await journal.read(run_id)
            assert fingerprint(replay(run_id, records)) == state


def test_there_is_something_to_load() -> None:
    assert len(STORED) >= 8
