"""An owner's hold on one run: it records what happens, and finds out when it was overtaken.

Controls are decided in the store, so an owner never has to ask "was I cancelled?" before it
writes. It writes; if something came first the append conflicts, the owner reads what came and
decides again, with `admit`, what may still be recorded.
"""

from typing import cast

from pullcord.core.decide import admit
from pullcord.core.events import Event, Record
from pullcord.core.run import Run, evolve
from pullcord.errors import Conflict
from pullcord.journal.journal import Journal
from pullcord.journal.ledger import Append, Appended, Change, Claim, Lease


class Ownership:
    """The owner's side of a claimed run. Used by one task at a time."""

    def __init__(self, journal: Journal, claim: Claim) -> None:
        self._journal = journal
        self.lease: Lease = claim.lease
        self.run: Run = claim.run

    async def record(self, event: Event, *with_it: Change, release: bool = False) -> list[Event]:
        """Record `event`, or what has become of it, and return what was recorded.

        Empty: a control or another decision overtook it and nothing was written; in particular a
        `StepStarted` that comes back empty must not start. `with_it` are changes to other runs in
        the same transaction; they are left out with it.

        Raises:
            Fenced: another process owns the run now. Abandon it.
        """
        while events := list(admit(self.run, event)):
            mine = Append(
                run_id=self.run.id,
                events=events,
                expected_seq=self.run.seq,
                epoch=self.lease.epoch,
                release=release,
            )
            try:
                results = await self._journal.append(mine, *with_it)
            except Conflict as conflict:
                if conflict.run_id != self.run.id:
                    raise
                await self.catch_up()
                continue
            self._follow(events, cast("Appended", results[0]))
            return events
        return []

    async def catch_up(self) -> Run:
        """Take in what others have recorded since."""
        for record in await self._journal.read(self.run.id, after_seq=self.run.seq):
            evolve(self.run, record)
        return self.run

    def _follow(self, events: list[Event], appended: Appended) -> None:
        for event in events:
            seq = self.run.seq + 1
            record = Record(self.run.id, seq, appended.at_ms, self.lease.epoch, event)
            evolve(self.run, record)
