"""What every journal must do. A new backend joins by adding one line to `STORES`."""

from collections.abc import Callable
from pathlib import Path

import pytest

from pullcord.journal.memory_store import MemoryStore
from pullcord.journal.postgres.backend import PostgresStore
from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.journal.store import Store
from pullcord.testing.journal_contract import CONTRACT, Check
from pullcord.testing.shared_memory_store import SharedMemoryStore
from tests.postgres.server import a_server

STORES: dict[str, Callable[[Path], Store]] = {
    "memory": lambda _: MemoryStore(),
    "shared memory": lambda _: SharedMemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / "runs.db"),
    "postgres": lambda _: PostgresStore(a_server().url()),
}


@pytest.mark.parametrize("store", STORES)
@pytest.mark.parametrize("check", CONTRACT, ids=lambda check: check.__name__)
async def test_the_contract(
    check: Check, store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PULLCORD_STATE", str(tmp_path))
    await check(lambda: STORES[store](tmp_path))
