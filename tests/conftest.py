"""Settings every test shares: campaigns are seeded samples unless PULLCORD_CAMPAIGN=full."""

import os
from datetime import UTC, datetime

import pytest
from hypothesis import HealthCheck, settings

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

SAMPLED = {
    # long lists of like cases, each with processes of its own: a third of them, another one each
    # day; `make soak` runs all
    "test_a_frozen_tool_does_not_move_and_can_be_stopped",
    "test_a_killed_run_goes_on_to_the_end_it_must_have",
    "test_a_stopped_tool_is_gone_with_all_it_has_started",
    "test_a_tool_that_ends_by_itself_leaves_nobody",
    "test_a_tool_that_is_killed_is_gone_with_all_it_has_started",
    "test_after_a_crash_anywhere_only_approved_calls_are_made_and_each_once",
    "test_an_interrupt_before_any_turn_of_the_loop",
    "test_it_is_said_and_has_its_exit_status",
    "test_it_runs",
    "test_nothing_more_is_generated",
    "test_nothing_of_a_secret_that_comes_in_small_pieces",
    "test_what_is_looked_at_or_refused_reads_the_same",
}
THIRD = int(os.environ.get("PULLCORD_DAY") or datetime.now(UTC).toordinal()) % 3


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    numbers: dict[str, int] = {}
    left_out: list[pytest.Item] = []
    for item in sorted(items, key=lambda item: item.nodeid):
        name = getattr(item, "originalname", item.name)
        if name in SAMPLED:
            item.add_marker(pytest.mark.campaign)
            numbers[name] = numbers.get(name, 0) + 1
            if not FULL and numbers[name] % 3 != THIRD and len(items) > 2000:
                left_out.append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        gone = {item.nodeid for item in left_out}
        items[:] = [item for item in items if item.nodeid not in gone]
