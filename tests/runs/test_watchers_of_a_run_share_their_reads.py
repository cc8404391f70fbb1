"""A thousand people who watch a run cost the store no more reads than one."""

import asyncio
from collections.abc import Callable
from contextlib import aclosing
from typing import TypeVar

from pullcord.core.commands import Pause
from pullcord.core.events import Created, PauseRequested, Record
from pullcord.journal.journal import Journal
from pullcord.journal.memory_store import MemoryStore
from pullcord.journal.rules.ledger import Append
from pullcord.journal.store import View

T = TypeVar("T")
WATCHERS = 1000


class CountingStore(MemoryStore):
    """Counts the looks at it."""

    looks = 0

    def read(self, job: Callable[[View], T]) -> T:
        self.looks += 1
        return super().read(job)


async def test_a_record_is_read_once_for_all_who_wait_for_it() -> None:
    store = CountingStore()
    async with Journal(store) as journal:
        created = Created(agent="churn", thread="t1")
        await journal.append(Append(run_id="r1", events=[created], expected_seq=0))
        waiting, seen = asyncio.Semaphore(0), list[Record]()

        async def watches() -> None:
            async with aclosing(journal.changes.subscribe("r1")) as items:
                async for _, item in items:
                    assert isinstance(item, Record)
                    if isinstance(item.event, Created):
                        waiting.release()
                        continue
                    seen.append(item)
                    return

        watchers = [asyncio.create_task(watches()) for _ in range(WATCHERS)]
        for _ in range(WATCHERS):
            await waiting.acquire()
        await journal.load("r1")  # whoever looked once more has found nothing by now
        store.looks = 0
        await journal.command("r1", Pause(by="ana"))
        await asyncio.gather(*watchers)
    assert len(seen) == WATCHERS
    assert {type(record.event) for record in seen} == {PauseRequested}
    print(f"{store.looks} looks for {WATCHERS} watchers")
    assert store.looks < WATCHERS / 20
