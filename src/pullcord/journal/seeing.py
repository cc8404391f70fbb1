"""A run as it is, with what is true of it beside its records; and the panel made of that."""

from typing import NamedTuple

from pullcord.core.conditions import Used
from pullcord.core.panel import Panel, panel
from pullcord.core.run import Run
from pullcord.journal.clock import Clock
from pullcord.journal.families import finding, living
from pullcord.journal.leases import is_driven
from pullcord.journal.snapshots import load
from pullcord.journal.steady import last_sign_of_life, steady_now
from pullcord.journal.store import Head, View
from pullcord.process import stands_still


class Seen(NamedTuple):
    """A run as it is, and what is true of it beside its records."""

    run: Run
    used: Used  # by it and everybody who works for it
    driven: bool  # a living process holds it
    now_ms: int  # by the steady clock
    workers: tuple[Run, ...] = ()  # those who work for it now
    alive_ms: int = 0  # the last sign of life of whoever drove it last
    still: str = ""  # why the process that drives it does not move, if that is known


def see(view: View, head: Head, clock: Clock) -> Seen:
    run, now_ms = load(view, head), steady_now(view, clock)
    workers = tuple(living(run, finding(view)))
    used = sum((one.used_at(now_ms) for one in workers), run.used_at(now_ms))
    driven = is_driven(head, clock.boot_time())
    alive_ms = last_sign_of_life(view, head.holder)
    still = stands_still(head.holder.owner) if driven else ""
    return Seen(run, used, driven, now_ms, workers, alive_ms, still)


def panel_of(seen: Seen, *, wall_ms: int, hold_s: float = 10.0) -> Panel:
    """The run as control surfaces show it."""
    return panel(
        seen.run,
        seen.used,
        now_ms=seen.now_ms,
        wall_ms=wall_ms,
        driven=seen.driven,
        hold_s=hold_s,
        workers=seen.workers,
        alive_ms=seen.alive_ms,
        still=seen.still,
    )
