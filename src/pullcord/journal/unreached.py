"""Who drives runs of a store on this machine and hears nothing of its kill switch."""

from contextlib import suppress

from pullcord.core.states import LIVING, RunState
from pullcord.journal.clock import BootTime
from pullcord.journal.rules.leases import is_held
from pullcord.journal.rules.switch_pauses import runs_in_reach
from pullcord.journal.store import View
from pullcord.killswitch.flags import Raised
from pullcord.killswitch.presence import present
from pullcord.killswitch.pulled import Left
from pullcord.process import is_here


def unasked(view: View, raised: Raised, now: BootTime, folder: str) -> list[Left]:
    """Who drives runs in its reach on this machine and was not asked, because they have opened the
    store by another name: they look at another switch, and start what they like. `folder`: where
    those announce themselves who were."""
    asked = set[str]()
    with suppress(OSError):  # it cannot be looked at: then nobody was
        asked = {one.owner for one in present(folder)}
    driven = LIVING - {RunState.QUEUED}  # of which nobody is the owner yet
    found = {
        head.holder.owner for head, _ in runs_in_reach(view, raised, driven) if is_held(head, now)
    }
    why = "it has opened this store by another name, beside which there is another switch"
    return [
        Left(f"process {owner.split('-')[1]}", why)
        for owner in sorted(found - asked)
        if is_here(owner)
    ]
