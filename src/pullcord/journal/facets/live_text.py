"""Stores live text: a part shows it at once, and one record replaces it at the part's end."""

from pullcord.core.values import check_id, check_text
from pullcord.journal.facets.seal import Seal
from pullcord.journal.rules.ledger import Lease, Ledger
from pullcord.journal.rules.live_text import SaidPiece
from pullcord.journal.store import LiveText
from pullcord.journal.writer import Writer


class LiveTexts:
    """The live text of all runs."""

    def __init__(self, writer: Writer, ledger: Ledger, seal: Seal) -> None:
        self._writer, self._ledger, self._seal = writer, ledger, seal

    async def say(
        self, lease: Lease, part: str, text: str, *, offset: int, keep_held: bool = True
    ) -> str:
        """Add live text to a part, and return `shown`, `held` (the run is pausing) or `refused`.

        It returns when the text is durable; viewers see it only then. A record ends the part.
        Without `keep_held`, held text is not added: say it again when the run goes on.
        """
        check_id(self._seal.text(part), kind="part")
        check_text(text, field="text")
        text = self._seal.text(text)  # a caller that says it in pieces has sealed it: see `Sealer`
        said = SaidPiece(part=part, offset=offset, text=text, keep_held=keep_held)
        return await self._writer.write(lambda tx: self._ledger.say(tx, lease, said))

    async def unended(self, run_id: str) -> list[LiveText]:
        """Return the live text of parts that have not ended.

        After a crash, the next owner records these parts as cut.
        """
        return await self._writer.read(lambda view: view.live(run_id, after_pos=0))

    async def said_in(self, run_id: str, part: str) -> str:
        """Return the live text of one part that has not ended."""
        return await self._writer.read(lambda view: view.live_said(run_id, part))
