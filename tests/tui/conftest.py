"""A store with runs in it, for each test."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest_asyncio

from tests.tui.store import Office


@pytest_asyncio.fixture
async def office(tmp_path: Path) -> AsyncGenerator[Office]:
    there = Office(tmp_path / "runs.db")
    yield there
    await there.journal.aclose()
