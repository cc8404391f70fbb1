"""Each test has an exporter of its own: nothing of it is set for the whole program."""

import pytest

from pullcord.runtime import worker
from tests.telemetry.lab import Lab


@pytest.fixture
def lab(monkeypatch: pytest.MonkeyPatch) -> Lab:
    made = Lab()
    monkeypatch.setattr(worker, "observer", made.observer)
    return made
