"""All that is left of a run, to be looked at."""

import logging
from pathlib import Path

import pytest

from tests.secrets.eyes import Everything


@pytest.fixture
def everything(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Everything:
    caplog.set_level(logging.DEBUG)
    return Everything(tmp_path / "store.db", caplog)
