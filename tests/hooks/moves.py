"""The moves in a run's records, found without the code that tells of them: by the table alone."""

from collections.abc import Iterable

from pullcord import Record
from pullcord.core.events import TAGS
from pullcord.core.states import TABLE, RunState


def moves_in(records: Iterable[Record]) -> list[tuple[int, str, str]]:
    """The number of each record that moves the run, the state before and the state after."""
    found: list[tuple[int, str, str]] = []
    state: RunState | None = None
    for record in records:
        after = TABLE[state].on[TAGS[type(record.event)]] if state else RunState.QUEUED
        if after is not state:
            found.append((record.seq, state.value if state else "", after.value))
        state = after
    return found
