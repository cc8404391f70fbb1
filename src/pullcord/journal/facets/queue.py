"""Finds the runs that need an owner, and deals with owners that are gone: for housekeeping."""

from collections.abc import Iterable

from pullcord.journal.clock import Clock
from pullcord.journal.rules.ledger import Claim, Ledger
from pullcord.journal.rules.undriven_stops import LetGo, Stopping
from pullcord.journal.rules.undriven_stops_awaited import performed
from pullcord.journal.writer import Writer


class RunQueue:
    """The runs that a process may claim, now or later, and their earlier owners."""

    def __init__(self, writer: Writer, ledger: Ledger, stopping: Stopping, clock: Clock) -> None:
        self._writer, self._ledger, self._stopping = writer, ledger, stopping
        self._clock = clock

    async def claimable(self, *, agents: Iterable[str], limit: int = 50) -> list[str]:
        """Return runs of these agents that need an owner and have none, oldest first."""
        known, now = tuple(agents), self._clock.boot_time()
        return await self._writer.read(
            lambda view: view.claimable(boot=now.boot, now_s=now.seconds, agents=known, limit=limit)
        )

    async def due(self, *, agents: Iterable[str], limit: int = 50) -> list[tuple[str, int]]:
        """Return runs of these agents with a timer, and its due time, soonest first."""
        known = tuple(agents)
        return await self._writer.read(lambda view: view.due(agents=known, limit=limit))

    async def free_the_gone(self) -> list[str]:
        """Take their runs from owners whose process on this machine is dead.

        Return the owners whose wardens have not ended everything yet: ask again soon.
        """
        return await self._writer.write(self._ledger.free_the_gone)

    async def finish_cancelled(self) -> list[str]:
        """End every cancelled run that has no process and needs no agent, and return their ids.

        So a person need not cancel again.
        """
        return await performed(self._stopping.finish_cancelled(), self._writer)

    async def let_go_by(self, claim: Claim) -> LetGo:
        """Have earlier owners let go of a run that this claim took from them.

        Return when their wardens have ended its tools, or do not answer.
        """
        [said] = await performed(self._stopping.let_go([claim]), self._writer)
        return said
