"""What a write costs over a network is the same, whatever is in it: one way to the server and back
for an owner's append, two for a control. Counted on the line, so load does not matter."""

from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pullcord.core.commands import Cancel, Pause, Resume
from pullcord.core.events import ChildBorn, Created, Event, StepFinished, StepStarted
from pullcord.core.values import dump
from pullcord.errors import Conflict
from pullcord.journal.postgres.backend import PostgresStore
from pullcord.journal.rules.ledger import Append, Claim, Ledger
from pullcord.journal.store import Head, Transaction
from tests.postgres.distant_line import DistantLine, distant_line
from tests.postgres.server import Server
from tests.postgres.writing import create

WRITES = 5
ROUND_TRIP_S = 0.001
BEHIND = 1
"""What is said behind the commit, on the same way: that there is news. The line counts it too."""


@pytest.fixture
def line(server: Server, tmp_path: Path) -> Generator[DistantLine]:
    with distant_line(server, tmp_path / "line", ROUND_TRIP_S) as line:
        yield line


class Machine:
    """One process's writer: a store and the rules. Nothing else of it talks to the server."""

    def __init__(self, url: str) -> None:
        self.store = PostgresStore(url)
        self.ledger = Ledger(self.store.clock)

    def owns(self, run_id: str) -> Claim:
        create(self.store, run_id)
        ledger = self.ledger
        claim = self.store.write(lambda tx: ledger.acquire(tx, run_id, owner="w1", ttl_s=3600))
        assert claim is not None
        return claim

    def appends(self, *changes: Append) -> None:
        self.store.write(lambda tx: self.ledger.write(tx, changes))


@contextmanager
def machine(url: str) -> Generator[Machine]:
    made = Machine(url)
    try:
        yield made
    finally:
        made.store.close()


def appends(claim: Claim, number: int) -> tuple[Append, Append]:
    """The intent and the outcome of the run's next step."""
    lease, seq = claim.lease, claim.run.seq + 2 * number
    name = f"s{number}"

    def behind(seq: int, event: Event) -> Append:
        return Append(run_id=lease.run_id, events=[event], expected_seq=seq, epoch=lease.epoch)

    intent, outcome = StepStarted(step=name, name="s"), StepFinished(step=name, result=dump(number))
    return behind(seq, intent), behind(seq + 1, outcome)


@pytest.mark.parametrize("size", [1, 16, 64])
def test_an_owners_appends_however_many(line: DistantLine, url: str, size: int) -> None:
    with machine(line.behind(url)) as here:
        claims = [here.owns(f"r{n}") for n in range(size)]
        for number in range(WRITES):
            for batch in zip(*(appends(claim, number) for claim in claims), strict=True):
                before = line.exchanges.count
                here.appends(*batch)
                assert line.exchanges.count - before == 1 + BEHIND


def test_also_while_another_machine_writes_to_other_runs(line: DistantLine, url: str) -> None:
    with machine(line.behind(url)) as here, machine(url) as there:
        mine, theirs = here.owns("mine"), there.owns("theirs")
        for number in range(WRITES):
            for ours, others in zip(appends(mine, number), appends(theirs, number), strict=True):
                there.appends(others)
                before = line.exchanges.count
                here.appends(ours)
                assert line.exchanges.count - before == 1 + BEHIND


@pytest.mark.parametrize("children", [0, 16])
def test_a_control_however_large_its_family(line: DistantLine, url: str, children: int) -> None:
    with machine(line.behind(url)) as here, machine(url) as there:
        claim = there.owns("r1")
        for number in range(children):
            there.appends(*spawns(claim, number))
        here.store.write(lambda tx: tx.head("none"))  # its connection is made
        for command in (Pause(by="ana", key="k1"), Resume(by="ana"), Cancel(by="ana")):
            before = line.exchanges.count
            ack = here.store.write(lambda tx, c=command: here.ledger.command(tx, "r1", c))
            assert ack.verdict == "applied"
            assert line.exchanges.count - before == 2 + BEHIND


def spawns(claim: Claim, number: int) -> tuple[Append, Append]:
    """The birth of the run's next child, in its journal and in its own."""
    lease, child = claim.lease, f"c{number}"
    created = Created(agent="churn", thread=child, parent=lease.run_id)
    born = Append(
        run_id=lease.run_id,
        events=[ChildBorn(child=child)],
        expected_seq=claim.run.seq + number,
        epoch=lease.epoch,
    )
    return born, Append(run_id=child, events=[created], expected_seq=0)


def test_a_run_that_another_machine_has_written_to_is_looked_at_again(url: str) -> None:
    with machine(url) as here, machine(url) as there:
        claim = here.owns("r1")
        intent, outcome = appends(claim, 0)
        here.appends(intent)
        ack = there.store.write(lambda tx: there.ledger.command(tx, "r1", Pause(by="ana")))
        assert ack.verdict == "applied"
        with pytest.raises(Conflict) as refused:
            here.appends(outcome)
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


def test_what_was_taken_back_is_not_remembered(url: str, store: PostgresStore) -> None:
    ledger = Ledger(store.clock)
    create(store, "r1")

    def breaks(tx: Transaction) -> None:
        ledger.acquire(tx, "r1", owner="w1", ttl_s=60)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.write(breaks)
    assert head_of(store, "r1") == stored(url, "r1")


def test_whatever_is_written_is_remembered_as_it_is_stored(url: str, store: PostgresStore) -> None:
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


def test_what_others_free_is_looked_at_again(url: str, store: PostgresStore) -> None:
    ledger, other = Ledger(store.clock), PostgresStore(url)
    create(store, "r1")
    store.write(lambda tx: ledger.acquire(tx, "r1", owner="w1", ttl_s=60))
    other.write(lambda tx: tx.free("w1"))
    other.close()
    head = head_of(store, "r1")
    assert head is not None
    assert head.holder.owner == ""
    assert head == stored(url, "r1")
