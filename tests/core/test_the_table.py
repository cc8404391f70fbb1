"""Properties of the state table itself."""

from pullcord.core.events import TAGS, Created
from pullcord.core.states import ASKS, LIVING, NEEDS_OWNER, OFFERED, TABLE, TERMINAL, RunState


def test_every_state_can_be_reached_and_every_living_state_can_end() -> None:
    def reachable_from(start: RunState) -> set[RunState]:
        reached: set[RunState] = set()
        todo = [start]
        while todo:
            state = todo.pop()
            if state not in reached:
                reached.add(state)
                todo.extend(TABLE[state].on.values())
        return reached

    assert reachable_from(RunState.QUEUED) == set(RunState)
    for state in LIVING:
        assert reachable_from(state) & TERMINAL


def test_the_ends_are_the_four_ends() -> None:
    assert {
        RunState.CANCELLED, RunState.COMPLETED, RunState.FAILED, RunState.STOPPED
    } == TERMINAL  # fmt: skip


def test_every_living_state_offers_cancel_and_ended_ones_only_what_outlives_them() -> None:
    for state in LIVING:
        assert "cancel" in OFFERED[state]
    for state in TERMINAL:
        # What needs attention outlives the run, and so does its title.
        assert OFFERED[state] - {"undo"} == {"settle", "rename"}
    # What completed is no longer provisional.
    assert "undo" not in OFFERED[RunState.COMPLETED]


def test_the_table_and_the_events_know_the_same_names() -> None:
    in_table = {event for row in TABLE.values() for event in row.on}
    assert in_table == set(TAGS.values()) - {TAGS[Created]}
    assert set(ASKS.values()) <= in_table


def test_once_cancelling_nothing_starts_and_the_only_way_on_is_cancelled() -> None:
    row = TABLE[RunState.CANCELLING]
    assert set(row.on.values()) == {RunState.CANCELLING, RunState.CANCELLED}
    assert not {"step_started", "asked", "child_born", "completed", "failed"} & row.on.keys()
    assert row.text == "refused"


def test_steps_start_only_while_running() -> None:
    for event in ("asked", "child_born"):
        assert [state for state, row in TABLE.items() if event in row.on] == [RunState.RUNNING]
    starts = [state for state, row in TABLE.items() if "step_started" in row.on]
    assert starts == [RunState.RUNNING, RunState.STOPPING]  # there only one last request (`admit`)


def test_what_needs_no_owner_has_nothing_to_drive() -> None:
    assert {
        RunState.QUEUED,
        RunState.RUNNING,
        RunState.PAUSING,
        RunState.STOPPING,
        RunState.CANCELLING,
    } == NEEDS_OWNER


def test_every_state_says_what_it_means() -> None:
    for row in TABLE.values():
        assert row.label.istitle()
        assert row.says.endswith(".")
