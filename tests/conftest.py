"""Settings every test shares: campaigns are seeded samples unless PULLCORD_CAMPAIGN=full."""

import os
import signal
from typing import Any
from zlib import crc32

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadscope import LoadScopeScheduling  # pyright: ignore[reportMissingTypeStubs]

# A shell starts what it puts in the background with Ctrl-C ignored, `nohup` starts it with a hangup
# ignored, and every process of the tests would inherit that: those that are to be interrupted would
# never end.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

FULL = os.environ.get("PULLCORD_CAMPAIGN") == "full"

settings.register_profile(
    "sample",
    deadline=None,  # machines are shared: only a hang is a failure
    derandomize=True,  # the same examples everywhere; `make soak` draws new ones
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile(
    "full",
    deadline=None,
    max_examples=500,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("full" if FULL else "sample")

WHOLE = (
    *("architecture", "core", "contracts", "corpus", "docs", "models"),
    *("test_a_driver_moves_by_a_table.py", "test_a_control_means_one_thing.py"),
)
"""Where a case is a function call, or unlike all others: folders, and files in others. Elsewhere
it has processes, sockets or a browser of its own: of each long list of like cases every fifth is
run, always the same, so that the same tree has the same result tomorrow; `make soak` runs all of
them."""
TOGETHER = (
    "tests/web/",  # two browsers would fight over the cores
    "tests/world/",  # as would two worlds
    "tests/agents/test_generation_stops_on_a_real_server.py",  # and two model servers
)
"""What one worker does alone, and begins with. (The marks of `--dist loadgroup` have no effect from
pytest 9.2 on: pytest-xdist 3.8 writes the group into a name that pytest no longer reads.)"""
LONG = 4
PARTS = 5
PART = int(os.environ.get("PULLCORD_PART", "0")) % PARTS


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    lists: dict[str, list[pytest.Item]] = {}
    for item in sorted(items, key=lambda item: item.nodeid):
        is_whole = item.path.parent.name in WHOLE or item.path.name in WHOLE
        if not is_whole and "[" in item.name:
            lists.setdefault(item.nodeid.partition("[")[0], []).append(item)
    long = [cases for cases in lists.values() if len(cases) >= LONG]
    for item in (item for cases in long for item in cases):
        item.add_marker(pytest.mark.campaign)
    if FULL or len(items) < 2000:  # somebody runs a part of it
        return
    left_out = [
        item for cases in long for n, item in enumerate(cases) if n % PARTS != PART % len(cases)
    ]
    for base, cases in lists.items():  # behind each fence some tests, and each test behind one
        if len(cases) == 3 and all("fence" in vars(case)["callspec"].params for case in cases):
            left_out += cases[: crc32(base.encode()) % 3] + cases[crc32(base.encode()) % 3 + 1 :]
    gone = {item.nodeid for item in left_out}
    config.hook.pytest_deselected(items=left_out)
    items[:] = [item for item in items if item.nodeid not in gone]


class Scheduling(LoadScopeScheduling):
    """Hands out tests one by one, but those of one place in `TOGETHER` to one worker, and first."""

    def _split_scope(self, nodeid: str) -> str:
        return next((place for place in TOGETHER if nodeid.startswith(place)), nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Scheduling:
    return Scheduling(config, log)
