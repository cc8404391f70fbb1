"""What a write costs over a network is the same, whatever is in it: one way to the server and back
for its turn, and one for all that it writes. Counted on the line, so load does not matter."""

from collections.abc import Generator
from pathlib import Path

import pytest

from pullcord.core.events import Event, StepFinished, StepStarted
from pullcord.core.values import dump
from pullcord.errors import Conflict
from pullcord.journal.journal import Journal
from pullcord.journal.postgres.backend import PostgresStore
from pullcord.journal.rules.ledger import Append, Claim, Ledger
from pullcord.journal.store import Head, Transaction
from tests.postgres.distant_line import DistantLine, distant_line
from tests.postgres.server import Server
from tests.postgres.writing import born, create, pauses

WRITES = 5
ROUND_TRIP_S = 0.001


@pytest.fixture
def line(server: Server, tmp_path: Path) -> Generator[DistantLine]:
    with distant_line(server, tmp_path / "line", ROUND_TRIP_S) as line:
        yield line


async def owned(journal: Journal, run_id: str) -> Claim:
    await journal.append(born(run_id))
    claim = await journal.acquire(run_id, owner="w1", ttl_s=3600)
    assert claim is not None
    return claim


def appends(claim: Claim, number: int) -> tuple[Append, Append]:
    """The intent and the outcome of the run's next step."""
    lease, seq = claim.lease, claim.run.seq + 2 * number
    name = f"s{number}"

    def behind(seq: int, event: Event) -> Append:
        return Append(run_id=lease.run_id, events=[event], expected_seq=seq, epoch=lease.epoch)

    intent, outcome = StepStarted(step=name, name="s"), StepFinished(step=name, result=dump(number))
    return behind(seq, intent), behind(seq + 1, outcome)


@pytest.mark.parametrize("size", [1, 16, 64])
async def test_an_owners_appends_however_many(
    line: DistantLine, server: Server, url: str, size: int
) -> None:
    async with Journal.open(line.behind(url)) as journal:
        claims = [await owned(journal, f"r{n}") for n in range(size)]
        for number in range(WRITES):
            for batch in zip(*(appends(claim, number) for claim in claims), strict=True):
                before = line.exchanges.count
                await journal.append(*batch)
                assert line.exchanges.count - before == 2


async def test_also_while_another_machine_writes_to_other_runs(line: DistantLine, url: str) -> None:
    async with Journal.open(line.behind(url)) as here, Journal.open(url) as there:
        mine, theirs = await owned(here, "mine"), await owned(there, "theirs")
        for number in range(WRITES):
            for ours, others in zip(appends(mine, number), appends(theirs, number), strict=True):
                await there.append(others)
                before = line.exchanges.count
                await here.append(ours)
                assert line.exchanges.count - before == 2


async def test_a_run_that_another_machine_has_written_to_is_looked_at_again(
    line: DistantLine, url: str
) -> None:
    async with Journal.open(line.behind(url)) as here, Journal.open(url) as there:
        claim = await owned(here, "r1")
        intent, _ = appends(claim, 0)
        await here.append(intent)
        assert await pauses(there, "r1") == "applied"
        _, outcome = appends(claim, 0)
        with pytest.raises(Conflict) as refused:
            await here.append(outcome)
        assert refused.value.actual_seq == outcome.expected_seq + 1


def head_of(store: PostgresStore, run_id: str) -> Head | None:
    """As the next write knows it."""
    return store.write(lambda tx: tx.head(run_id))


def stored(url: str, run_id: str) -> Head | None:
    """As somebody finds it who knows nothing."""
    store = PostgresStore(url)
    try:
        return store.read(lambda view: view.head(run_id))
    finally:
        store.close()


async def test_what_was_taken_back_is_not_remembered(url: str, store: PostgresStore) -> None:
    ledger = Ledger(store.clock)
    create(store, "r1")

    def breaks(tx: Transaction) -> None:
        ledger.acquire(tx, "r1", owner="w1", ttl_s=60)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.write(breaks)
    assert head_of(store, "r1") == stored(url, "r1")


async def test_whatever_is_written_is_remembered_as_it_is_stored(
    url: str, store: PostgresStore
) -> None:
    ledger = Ledger(store.clock)
    create(store, "r1", "r2")
    claim = store.write(lambda tx: ledger.acquire(tx, "r1", owner="w1", ttl_s=60))
    assert claim is not None
    assert head_of(store, "r1") == stored(url, "r1")
    for change in appends(claim, 0):
        store.write(lambda tx, one=change: ledger.append(tx, one))
        assert head_of(store, "r1") == stored(url, "r1")
    store.write(lambda tx: tx.free("w1"))
    assert head_of(store, "r1") == stored(url, "r1")


async def test_what_others_free_is_looked_at_again(url: str, store: PostgresStore) -> None:
    ledger, other = Ledger(store.clock), PostgresStore(url)
    create(store, "r1")
    store.write(lambda tx: ledger.acquire(tx, "r1", owner="w1", ttl_s=60))
    other.write(lambda tx: tx.free("w1"))
    other.close()
    head = head_of(store, "r1")
    assert head is not None
    assert head.holder.owner == ""
    assert head == stored(url, "r1")
