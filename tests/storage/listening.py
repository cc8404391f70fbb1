"""A child that makes ten commits and waits to hear of each: `listening PATH`.

Says how many it heard of. A commit that fails is its own affair here: it is made again.
"""

import asyncio
import sys
import threading
from typing import Final

from pullcord.errors import StorageFailed, StoreRefused
from pullcord.journal.journal import Journal
from tests.storage.writers import COMMITS, commit, say

_BOUND_S: Final = 3.0


async def _made(journal: Journal, seq: int) -> None:
    try:
        await commit(journal, seq)
    except (StorageFailed, StoreRefused):  # SQLite takes a page it cannot read for a bad one
        await commit(journal, seq)


async def main(path: str) -> None:
    changes = threading.Semaphore(0)
    journal = Journal.open(path)
    stop = journal.changes.watch(lambda _runs: changes.release())
    say("listens")
    heard = 0
    for seq in range(1, COMMITS + 1):
        await _made(journal, seq)
        if not await asyncio.to_thread(changes.acquire, timeout=_BOUND_S):
            break
        heard += 1
    stop()
    await journal.aclose()
    say(f"heard {heard}")


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
