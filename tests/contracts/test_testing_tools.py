"""The tools we hand to others do what they say: a crash comes at its write and not elsewhere."""

import pytest

from pullcord.core.events import Created
from pullcord.errors import RunNotFound
from pullcord.journal.journal import Journal
from pullcord.journal.memory_store import MemoryStore
from pullcord.journal.rules.ledger import Append
from pullcord.testing import CrashingJournal
from pullcord.testing.crashing import When


class Died(Exception):
    """Milder than SIGKILL, for a test that wants to live."""


def die() -> None:
    raise Died


@pytest.mark.parametrize(
    ("when", "is_there"), [("before", False), ("inside", False), ("after", True)]
)
async def test_a_crashing_journal_dies_at_its_nth_write(when: When, is_there: bool) -> None:
    store = MemoryStore()
    created = Created(agent="churn", thread="t1")

    async def create(journal: Journal, run_id: str) -> None:
        await journal.append(Append(run_id=run_id, events=[created], expected_seq=0))

    async with CrashingJournal(store, at=2, when=when, die=die) as crashing:
        await create(crashing, "first")
        with pytest.raises(Died):
            await create(crashing, "second")
    async with Journal(store) as journal:
        assert (await journal.head("first")).seq == 1
        if is_there:
            assert (await journal.head("second")).seq == 1
        else:
            with pytest.raises(RunNotFound):
                await journal.head("second")
