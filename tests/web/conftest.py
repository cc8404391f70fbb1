"""One Chromium for all tests of the page; so they share an event loop, and a worker."""

import os
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
    for item in items:
        is_async = iscoroutinefunction(getattr(item, "function", None))
        if _HERE in item.path.parents and is_async:
            item.add_marker(pytest.mark.asyncio(loop_scope="session"), append=False)


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Browser]:
    if "PYTEST_XDIST_WORKER" in os.environ:  # no other worker has one: tests.conftest.TOGETHER
        (tmp_path_factory.getbasetemp().parent / "chromium").touch(exist_ok=False)
    async with chromium() as started:
        yield started


@pytest.fixture
def staff() -> Staff:
    return Staff()
