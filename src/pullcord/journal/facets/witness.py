"""Adds to a run what a process saw that does not own it, or no longer owns it."""

from pullcord.core.events import AttentionRaised, LateResult
from pullcord.journal.change_checks import check_change
from pullcord.journal.facets.seal import Seal
from pullcord.journal.rules.ledger import Append, Ledger
from pullcord.journal.writer import Writer


class Witness:
    """Writes to runs without a lease, and writes nothing twice."""

    def __init__(self, writer: Writer, ledger: Ledger, seal: Seal) -> None:
        self._writer, self._ledger, self._seal = writer, ledger, seal

    async def remark(self, run_id: str, raised: AttentionRaised) -> None:
        """Raise an attention item, or add to an open one, without owning the run.

        The owner may be unable to do it.
        """
        check_change(Append(run_id=run_id, events=[raised], expected_seq=0))
        await self._writer.write(lambda tx: self._ledger.remark(tx, run_id, raised))

    async def testify(self, run_id: str, late: LateResult) -> None:
        """Record the late result of a step that began under a lost lease.

        It is evidence, so it needs no licence.
        """
        late = self._seal.event(late)
        check_change(Append(run_id=run_id, events=[late], expected_seq=0))
        await self._writer.write(lambda tx: self._ledger.testify(tx, run_id, late))
