"""What the tests of this folder share: the session's server, and a schema of its own for each."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pullcord.journal.postgres.backend import PostgresStore
from tests.postgres.server import Server, a_server, serving


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Server:
    """The one that everybody uses: whoever stops it needs one of their own."""
    monkeypatch.setenv("PULLCORD_STATE", str(tmp_path / "state"))
    return a_server()


@pytest.fixture
def own_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    monkeypatch.setenv("PULLCORD_STATE", str(tmp_path / "state"))
    with serving() as started:
        yield started


@pytest.fixture
def url(server: Server) -> str:
    return server.url()


@pytest.fixture
def store(url: str) -> Iterator[PostgresStore]:
    opened = PostgresStore(url)
    yield opened
    opened.close()
