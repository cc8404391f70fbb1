"""Text that is being said: live rows, shown as they come, until one record takes over from them."""

from collections.abc import Callable, Mapping

import msgspec

from pullcord.core.events import TextEnded
from pullcord.core.states import TABLE
from pullcord.errors import ImpossibleEvent
from pullcord.journal.store import Head, Transaction


class SaidPiece(msgspec.Struct, frozen=True, kw_only=True):
    """A piece of text that an owner wants said. `keep_held`: also while its run is pausing."""

    part: str
    offset: int
    text: str
    keep_held: bool = True


def add_live(
    tx: Transaction, head: Head, said: SaidPiece, *, ended: Callable[[], Mapping[str, bool]]
) -> str:
    """Add it, and return its fate.

    Text is refused from the record of a cancel on: what was not accepted was never said. What is
    held is added too, unless its owner keeps it until the run goes on.
    """
    fate = TABLE[head.state].text
    if fate == "refused" or (fate == "held" and not said.keep_held):
        return fate
    if said.part in ended():
        raise ImpossibleEvent(head.run_id, event="text", why=f"part {said.part} has ended")
    end = tx.live_end(head.run_id, said.part)
    if said.offset != end:
        why = f"part {said.part} ends at {end}, and this text begins at {said.offset}"
        raise ImpossibleEvent(head.run_id, event="text", why=why)
    tx.add_live(head.run_id, said.part, offset=said.offset, text=said.text, after_seq=head.seq)
    return fate


def replace_live(tx: Transaction, head: Head, event: TextEnded) -> None:
    """The record takes over from the live rows. It must hold all that was shown; and where no
    text is accepted any more, nothing else."""
    shown = tx.live_said(head.run_id, event.part)
    if TABLE[head.state].text == "refused" and (event.text != shown or event.complete):
        why = (
            f"no text is accepted any more: part {event.part} was cut after {len(shown)} characters"
        )
        raise ImpossibleEvent(head.run_id, event="text_ended", why=why)
    if not event.text.startswith(shown):
        why = f"part {event.part} would lose text that was already shown"
        raise ImpossibleEvent(head.run_id, event="text_ended", why=why)
    tx.drop_live(head.run_id, event.part)
