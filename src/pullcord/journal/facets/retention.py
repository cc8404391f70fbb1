"""Deletes the content of runs that have ended."""

import asyncio

from pullcord.core.acks import Ack
from pullcord.core.commands import Forget, check_command
from pullcord.core.values import check_id
from pullcord.journal.facets.seal import Seal
from pullcord.journal.rules.ledger import Ledger
from pullcord.journal.store import Scrubbed, Store
from pullcord.journal.stored_runs.retention import Candidate, Wanted, candidates
from pullcord.journal.writer import Writer


class Retention:
    """Forgets runs in three steps: find the runs, forget each, scrub the store's files once."""

    def __init__(self, store: Store, writer: Writer, ledger: Ledger, seal: Seal) -> None:
        self._store, self._writer, self._ledger, self._seal = store, writer, ledger, seal

    async def forgettable(self, wanted: Wanted) -> list[Candidate]:
        """Return the wanted runs, each with the reason if it cannot be forgotten now."""
        return await self._writer.read(lambda view: candidates(view, wanted))

    async def forget(self, run_id: str, command: Forget) -> Ack:
        """Delete the content of an ended run that no other run needs, and return the answer.

        A refusal is an `Ack` too. After the last run, call `scrub` once.

        Raises:
            RunNotFound, InvalidInput: there is nothing to decide.
            ChainBroken: the run is damaged, so it is evidence. Nothing was deleted.
        """
        check_id(run_id)
        check_command(command)
        written = self._seal.command(command)
        return await self._writer.write(lambda tx: self._ledger.forget(tx, run_id, written))

    async def scrub(self, *, rewrite: bool = False) -> Scrubbed:
        """Remove deleted content from the store's files.

        Return `gone`, or why it is not gone yet. See `Store.scrub`.
        """
        return await asyncio.to_thread(self._store.scrub, rewrite=rewrite)
