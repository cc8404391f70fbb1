"""Each test has the folder of the demo to itself, and undoes without waiting."""

from pathlib import Path

import pytest

from pullcord.demo import tools
from pullcord.demo.office import FILES


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "files"
    monkeypatch.setenv(FILES, str(folder))
    monkeypatch.setattr(tools, "UNDO_S", 0)
    return folder
