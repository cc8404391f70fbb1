"""Who may write to a run, and for how long. Boot time only: no wall clock can end a lease early."""

from typing import Final

from pullcord.core.states import TERMINAL
from pullcord.errors import Fenced
from pullcord.journal.clock import BootTime
from pullcord.journal.store import Head, Holder
from pullcord.process import is_gone

NOBODY: Final = Holder()


def is_held(head: Head, now: BootTime) -> bool:
    """Whether a live lease stands on the run."""
    by = head.holder
    return bool(by.owner) and by.boot == now.boot and by.until_s > now.seconds


def is_driven(head: Head, now: BootTime) -> bool:
    """Whether a living process holds the run."""
    return is_held(head, now) and not is_gone(head.holder.owner)


def licensed(head: Head, epoch: int | None) -> None:
    """Refuse whoever is not the present owner. Asked inside the transaction, by every write."""
    if epoch is None:
        why = "only its owner may append; controls go through command()"
    elif epoch != head.epoch:
        why = "another process has taken it over"
    elif not head.holder.owner and head.state not in TERMINAL:
        why = "its owner has given it back"
    else:
        return
    raise Fenced(head.run_id, epoch=epoch, current_epoch=head.epoch, why=why)


def until(owner: str, now: BootTime, ttl_s: float) -> Holder:
    return Holder(owner, now.boot, now.seconds + ttl_s, now.seconds)


def renewed(holder: Holder, now: BootTime) -> Holder:
    """For as long again as it was given last."""
    return until(holder.owner, now, max(holder.until_s - holder.from_s, 0.0))
