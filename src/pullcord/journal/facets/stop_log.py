"""Reads and extends the stop log: one chain of every stop, over all runs."""

from pullcord.core.stops import Act
from pullcord.journal.facets.seal import Seal
from pullcord.journal.rules.ledger import Ledger
from pullcord.journal.store import StopRow
from pullcord.journal.stored_runs.run_records import ALL
from pullcord.journal.writer import Writer


class StopLog:
    """The stop log. Adds only acts that no record of a run reports."""

    def __init__(self, writer: Writer, ledger: Ledger, seal: Seal) -> None:
        self._writer, self._ledger, self._seal = writer, ledger, seal

    async def note(self, act: Act, run_id: str = "") -> None:
        """Add an act that is not a record of a run. `run_id` names the run that it concerns."""
        act = self._seal.act(act)
        await self._writer.write(lambda tx: self._ledger.note(tx, act, run_id))

    async def rows(self, *, run: str | None = None, after: int = 0) -> list[StopRow]:
        """Return the stored entries after a number, of all runs or of one run."""
        return await self._writer.read(lambda view: view.stops(after=after, limit=ALL, run=run))
