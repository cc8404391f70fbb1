"""A process that is stopped in the middle of a write holds up everybody else who writes to the
file. Nothing of ours can end that, but the error says which process it is, and what to do."""

import re
import signal
from contextlib import closing
from pathlib import Path

import pytest

from pullcord.errors import StorageFailed
from pullcord.journal.sqlite.backend import SqliteStore
from tests.promises.children import Child, child
from tests.promises.lease_owners import stopped


async def refused(path: Path) -> str:
    with pytest.raises(StorageFailed) as error, closing(store_at(path)) as store:
        store.write(lambda tx: tx.number())
    return str(error.value)


def store_at(path: Path) -> SqliteStore:
    return SqliteStore(path, busy_timeout_s=0.05)


async def holds(holder: Child) -> int:
    said, pid = (await holder.says()).split()
    assert said == "holds"
    return int(pid)


@pytest.mark.parametrize("where", ["write", "turnstile"])
async def test_a_process_that_is_stopped_is_told_to_go_on(tmp_path: Path, where: str) -> None:
    path = tmp_path / "runs.db"
    async with child("tests.storage.holding", str(path), where, is_own=True) as holder:
        pid = await holds(holder)
        holder.signal(signal.SIGSTOP)
        await stopped(pid)
        said = await refused(path)
        assert f"process {pid}, which stands still, stopped by a signal" in said
        assert f"kill -CONT {pid}" in said
        holder.signal(signal.SIGCONT)


async def test_one_that_works_is_named(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with child("tests.storage.holding", str(path), "write", is_own=True) as holder:
        pid = await holds(holder)
        assert re.search(
            rf"held the file for 0.05 s: process {pid}\. .*ps {pid}", await refused(path)
        )


async def test_who_cannot_be_seen_is_to_be_looked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "runs.db"
    monkeypatch.setattr("pullcord.journal.sqlite.lock_holder._LOCKS", tmp_path / "none")
    async with child("tests.storage.holding", str(path), "write", is_own=True) as holder:
        await holds(holder)
        assert "fuser, lsof" in await refused(path)
