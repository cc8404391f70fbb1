"""Connects the kill switch and the journal: the runs that it holds, and the record of its use.

The switch itself is not in the store (`flags`). No transaction reads it: the caller reads it
before.
"""

import asyncio
import math

from pullcord.journal.clock import Clock
from pullcord.journal.rules.ledger import Ledger
from pullcord.journal.rules.switch_pauses import (
    check_engaged,
    held_runs,
    lower,
    outcomes,
    to_hold,
    unnoted,
)
from pullcord.journal.rules.undriven_stops import Stopping
from pullcord.journal.rules.undriven_stops_awaited import performed
from pullcord.journal.unreached import unasked
from pullcord.journal.writer import Writer
from pullcord.killswitch.flags import Flags, Raised, Scope
from pullcord.killswitch.pulled import Pulled


class KillSwitch:
    """Pauses the runs that the switch reaches, and records who has engaged and released it."""

    def __init__(
        self,
        flags: Flags,
        writer: Writer,
        ledger: Ledger,
        stopping: Stopping,
        *,
        clock: Clock,
        side: str,
    ) -> None:
        """`side`: the folder of the processes that the switch asks when it is pulled."""
        self.flags = flags
        self._writer, self._ledger, self._stopping = writer, ledger, stopping
        self._clock, self._side = clock, side

    async def hold(self, *, within_s: float = math.inf) -> list[str]:
        """Pause the living runs that the kill switch reaches, and return which it paused.

        It pauses as many as there is time for. The rest cannot start either.
        """
        raised = await self._raised()
        found = await self._writer.read(lambda view: to_hold(view, raised))
        for flag in await self._writer.read(lambda view: unnoted(view, raised)):
            await self._writer.write(lambda tx, f=flag: self._ledger.engaged(tx, f, raised))
        steps = self._stopping.hold(found, within_s=within_s)
        held, trouble = await performed(steps, self._writer)
        if trouble:
            raise trouble
        return held

    async def answered(self, scope: Scope, pulled: Pulled) -> Pulled:
        """Record the outcome of pulling the kill switch, and return it.

        It then also names the processes that the switch did not ask, as far as the journal knows
        them.
        """
        now, raised = self._clock.boot_time(), await self._raised()
        others = await self._writer.read(lambda view: unasked(view, raised, now, self._side))
        known = pulled._replace(left=[*pulled.left, *others])
        await self._writer.write(lambda tx: self._ledger.answered(tx, scope, known, raised))
        return known

    async def held(self) -> tuple[list[str], list[Pulled]]:
        """Return every living run that the kill switch reaches, and the outcomes of pulling it."""
        raised = await self._raised()
        return await self._writer.read(
            lambda view: (held_runs(view, raised), outcomes(view, raised))
        )

    async def release(self, scope: Scope, *, by: str, reason: str, via: str) -> None:
        """Record the release of the kill switch for this scope, and then release it.

        Raises:
            InvalidInput: the switch is not engaged for this scope.
            StorageFailed: the switch stays engaged.
        """
        raised = await self._raised()
        check_engaged(raised, scope)
        await self.hold()  # runs that are not paused yet would start after the release
        await self._writer.write(
            lambda tx: self._ledger.released(tx, scope, raised, by=by, reason=reason, via=via)
        )
        lower(self.flags, scope)

    async def told(self, said: str) -> str:
        """Return a refusal of the switch, with the person who engaged it and the reason."""
        return (await self._raised()).told(said)

    async def _raised(self) -> Raised:
        return await asyncio.to_thread(self.flags.look)
