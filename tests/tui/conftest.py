"""A store with runs in it, for each test."""

from collections.abc import AsyncGenerator
from pathlib import Path

import pytest_asyncio

from tests.tui.sample_store import SampleStore


@pytest_asyncio.fixture
async def sample(tmp_path: Path) -> AsyncGenerator[SampleStore]:
    there = SampleStore(tmp_path / "runs.db")
    yield there
    await there.journal.aclose()
