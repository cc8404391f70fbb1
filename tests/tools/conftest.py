"""Fences, and dens that must be empty when a test is over."""

from collections.abc import AsyncGenerator, Iterator
from pathlib import Path

import pytest
import pytest_asyncio

from pullcord.runtime.processes.warden_client import Processes
from tests.tools.cages import FENCES
from tests.tools.census import rid


@pytest.fixture(scope="module", params=FENCES)
def fence(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def held(fence: str) -> AsyncGenerator[Processes]:
    """One warden for all the tools of a module: none of them may do it any harm."""
    processes = Processes(fence=fence)
    yield processes
    await processes.aclose()


@pytest.fixture
def den(tmp_path: Path) -> Iterator[Path]:
    """Where a tool works, or several in dens below it. Nobody may be left in it."""
    place = tmp_path / "den"
    yield place
    assert not rid(str(place))
