"""Reads a run with its relatives: the runs that work for it, and the runs that go on from it.

Each read covers several runs in one look at the store.
"""

from pullcord.core.conditions import Used
from pullcord.core.events import Created
from pullcord.core.limits import Limits
from pullcord.core.run import Run
from pullcord.journal.clock import Clock
from pullcord.journal.monotonic import monotonic_now
from pullcord.journal.rules.limit_checks import budgets_of, used_of
from pullcord.journal.store import View
from pullcord.journal.stored_runs.families import (
    Effect,
    effects_to_undo,
    finding,
    members,
    undone_of,
    works_for,
)
from pullcord.journal.stored_runs.run_records import birth, existing, reusable
from pullcord.journal.stored_runs.snapshots import load
from pullcord.journal.writer import Writer


class Families:
    """Reads a run and its relatives as one."""

    def __init__(self, writer: Writer, clock: Clock) -> None:
        self._writer, self._clock = writer, clock

    # --- the runs that work for it ---

    async def members(self, run_id: str) -> list[tuple[Run, bool]]:
        """Return every run that works or worked for this one, each with whether its effects are
        final. See `stored_runs.families.members`."""

        def look(view: View) -> list[tuple[Run, bool]]:
            return list(members(load(view, existing(view, run_id)), finding(view)))

        return await self._writer.read(look)

    async def works_for(self, run_id: str, above: str) -> bool:
        """Return whether it is the run `above`, or was started under it at any depth."""
        return await self._writer.read(lambda view: works_for(view, run_id, above))

    async def effects_to_undo(self, run_id: str) -> list[Effect]:
        """Return the effects still to undo, of the run and of those that worked for it.

        The newest of all comes first.
        """
        return await self._writer.read(lambda view: effects_to_undo(view, run_id))

    async def undone_of(self, run_id: str) -> int:
        """Return how many steps are undone, of the run and of those that worked for it."""
        return await self._writer.read(lambda view: undone_of(view, run_id))

    async def used(self, run_id: str) -> Used:
        """Return the usage of this run and of the runs that work for it."""
        return await self._writer.read(
            lambda view: used_of(view, run_id, monotonic_now(view, self._clock))
        )

    async def budgets_of(self, run_id: str) -> list[tuple[Limits, Used]]:
        """Return the limits that bind the run, each with its usage, the nearest first.

        They are its own limits and those of the runs that it works or worked for.
        """
        return await self._writer.read(
            lambda view: budgets_of(view, run_id, monotonic_now(view, self._clock))
        )

    # --- the runs that go on from it ---

    async def birth(self, run_id: str, *, what: str) -> Created:
        """Return the first event of the run, for a run that goes on from it (`what`: in which way).

        Raises:
            RunForgotten: it, or a run that it goes on from, is forgotten.
        """
        return await self._writer.read(lambda view: birth(view, run_id, what=what))

    async def reusable(self, run_id: str, *, what: str) -> Created:
        """Return `birth`, for a run that begins with the input or the steps of this one.

        Raises:
            InvalidInput: it, or a run that it goes on from, is quarantined.
            RunForgotten: it, or a run that it goes on from, is forgotten.
        """
        return await self._writer.read(lambda view: reusable(view, run_id, what=what))
