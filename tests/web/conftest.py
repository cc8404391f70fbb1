"""One Chromium for all tests of the page in a worker; so they share an event loop, and a worker."""

from collections.abc import AsyncGenerator
from inspect import iscoroutinefunction
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser

from tests.web.browser import chromium
from tests.web.staff import Staff

_HERE = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Two browsers would fight over the cores: whatever needs one is done by one worker."""
    for item in items:
        if _HERE in item.path.parents:
            item.add_marker(pytest.mark.xdist_group("chromium"))
            if iscoroutinefunction(getattr(item, "function", None)):
                item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncGenerator[Browser]:
    async with chromium() as started:
        yield started


@pytest.fixture
def staff() -> Staff:
    return Staff()
