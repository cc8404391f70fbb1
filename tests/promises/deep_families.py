"""A family of runs that is as deep as is wanted, written without being driven."""

from typing import Any

from pullcord.core.events import Blocked, ChildBorn, Claimed, Created, Event
from pullcord.journal.memory_store import MemoryStore
from pullcord.journal.rules.leases import NOBODY
from pullcord.journal.rules.ledger import Append, Ledger


def deep_family(store: MemoryStore, depth: int) -> list[str]:
    """So many runs, each waiting for the next, and driven by nobody. Written as they are: claiming
    each of them would ask all those above it what they have left."""
    runs = [f"r{number}" for number in range(depth)]
    ledger = Ledger(store.clock)

    def work(tx: Any) -> None:
        for number, run in enumerate(runs):
            above = runs[number - 1] if number else None
            created = Created(agent="agent", thread="t", parent=above, depth=number)
            change = Append(run_id=run, events=[created], expected_seq=0)
            head = ledger._newborn(tx, change)  # pyright: ignore[reportPrivateUsage]
            events: list[Event] = [created]
            if number + 1 < depth:
                born = ChildBorn(child=runs[number + 1])
                events += [Claimed(owner="nobody", epoch=1), born, Blocked(seen_seq=2)]
            ledger._extend(tx, head, events, epoch=1, holder=NOBODY)  # pyright: ignore[reportPrivateUsage]

    store.write(work)
    return runs
