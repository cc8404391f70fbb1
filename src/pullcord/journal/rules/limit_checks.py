"""Whether something may begin, by the limits of its run and of those it works for.

Asked inside the transaction that would record it: runs that share a limit, in as many processes
as there are, cannot use the same rest of it twice.
"""

from collections.abc import Iterator
from typing import NamedTuple

import msgspec

from pullcord.core.conditions import Used, fired
from pullcord.core.events import LimitReached, PauseRequested
from pullcord.core.limits import Limits, Reserve, Then, progress
from pullcord.core.run import Run
from pullcord.errors import BudgetBusy
from pullcord.journal.store import View
from pullcord.journal.stored_runs.families import Find, finding, living
from pullcord.journal.stored_runs.run_records import existing
from pullcord.journal.stored_runs.snapshots import load


class LimitHit(NamedTuple):
    """A limit that is reached: whose it is, which leaves were true, and what is to follow."""

    run_id: str
    leaves: tuple[str, ...]
    then: Then
    says: str

    def asks_for(self) -> PauseRequested | LimitReached:
        """What is recorded in the run whose limit it is."""
        if self.then == "pause_and_ask":
            return PauseRequested(by="limits", source="limit", reason=self.says, limits=self.leaves)
        return LimitReached(
            by="limits", source="limit", reason=self.says, leaves=self.leaves, then=self.then
        )


def limit_hit(run: Run, find: Find, now_ms: int, *, costs: bool) -> LimitHit | None:
    """The first limit that is reached, of the run itself or of those it works for.

    Raises:
        BudgetBusy: none is; but it `costs`, and what is set aside for calls under way is all that
            is left.
    """
    for holder in _holders(run, find):
        if holder.limits is None:
            continue
        condition = holder.limits.condition
        used, reserved = _total(holder, find, now_ms)
        if leaves := fired(condition, holder.facts(used, now_ms)):
            told = "; ".join(progress(condition, used)) or str(condition)
            says = f"{', '.join(leaves)} reached ({told})"
            return LimitHit(holder.id, leaves, holder.limits.then, says)
        if costs and reserved != Reserve():
            with_it = msgspec.structs.replace(
                used,
                tokens=used.tokens + reserved.tokens,
                usd_micros=used.usd_micros + reserved.usd_micros,
            )
            if fired(condition, holder.facts(with_it, now_ms)):
                raise BudgetBusy(run.id)
    return None


def used_of(view: View, run_id: str, now_ms: int) -> Used:
    """What the run and everybody who works for it has used up."""
    return _total(load(view, existing(view, run_id)), finding(view), now_ms)[0]


def budgets_of(view: View, run_id: str, now_ms: int) -> list[tuple[Limits, Used]]:
    """The limits that bind the run, its own and those of the runs it works for or has worked for,
    the nearest first; and what has been used of each."""
    find = finding(view)
    return [
        (holder.limits, _total(holder, find, now_ms)[0])
        for holder in _holders(load(view, existing(view, run_id)), find)
        if holder.limits is not None
    ]


def _holders(run: Run, find: Find) -> Iterator[Run]:
    """The run, and those it works for."""
    while True:
        yield run
        above = find(run.parent) if run.parent else None
        if above is None or run.id not in above.children or above.children[run.id].detached:
            return
        run = above


def _total(run: Run, find: Find, now_ms: int) -> tuple[Used, Reserve]:
    used, tokens, micros = Used(), 0, 0
    for one in (run, *living(run, find)):
        used += one.used_at(now_ms)
        tokens += sum(kept.tokens for kept in one.reserved.values())
        micros += sum(kept.usd_micros for kept in one.reserved.values())
    return used, Reserve(tokens, micros)
