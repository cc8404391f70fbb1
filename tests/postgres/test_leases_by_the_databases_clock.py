"""Two machines share a store: a lease of one counts for the other, by the clock that both read."""

from collections.abc import Iterator

import pytest

from pullcord.errors import InvalidInput
from pullcord.journal.journal import Journal
from pullcord.journal.postgres.backend import PostgresStore
from pullcord.journal.rules.ledger import Ledger
from pullcord.journal.store import View
from pullcord.process import is_gone, is_here, new_owner
from pullcord.testing.clock import ManualClock
from tests.postgres.server import Server, until
from tests.postgres.writing import create


class Machine:
    """With its own idea of when it was started, and of what time it is."""

    def __init__(self, url: str, boot: str, *, wall_ms: int, up_s: float) -> None:
        self.clock = ManualClock(boot=boot, wall_ms=wall_ms)
        self.clock.advance(up_s)
        self.store = PostgresStore(url, machine=self.clock)
        self.ledger = Ledger(self.store.clock)

    def acquires(self, run_id: str, owner: str, ttl_s: float = 30) -> bool:
        return self.store.write(
            lambda tx: self.ledger.acquire(tx, run_id, owner=owner, ttl_s=ttl_s) is not None
        )

    def is_held(self, run_id: str) -> bool:
        now = self.store.clock.boot_time()
        found = self.store.read(
            lambda v: v.claimable(boot=now.boot, now_s=now.seconds, agents=["churn"], limit=9)
        )
        return run_id not in found


@pytest.fixture
def machines(url: str) -> Iterator[tuple[Machine, Machine]]:
    one = Machine(url, "boot-of-one", wall_ms=1_700_000_000_000, up_s=10)
    two = Machine(url, "boot-of-two", wall_ms=1_200_000_000_000, up_s=5_000_000)
    yield one, two
    for machine in (one, two):
        machine.store.close()


def test_another_machines_lease_is_respected(machines: tuple[Machine, Machine]) -> None:
    one, two = machines
    create(one.store, "r1")
    assert one.acquires("r1", "w1")
    assert two.is_held("r1")
    assert not two.acquires("r1", "w2")
    two.clock.advance(3600)  # its own clock says nothing here
    assert not two.acquires("r1", "w2")
    two.clock.reboot("another-boot")
    assert not two.acquires("r1", "w2")
    assert two.store.clock.boot_time().boot == one.store.clock.boot_time().boot


def test_and_lapses_when_the_databases_clock_says_so(machines: tuple[Machine, Machine]) -> None:
    one, two = machines
    create(one.store, "r1")
    assert one.acquires("r1", "w1", ttl_s=0.05)
    while not two.acquires("r1", "w2"):  # (time passes, there)
        pass
    one.clock.advance(-3600)
    assert not one.acquires("r1", "w1")


def test_a_database_whose_clock_is_set_back_goes_on_from_where_it_was(
    server: Server, url: str, machines: tuple[Machine, Machine]
) -> None:
    one, _ = machines
    create(one.store, "r1")
    schema = url.rpartition("=")[2]
    server.ask(f"UPDATE {schema}.store SET seen_s = seen_s + 1000")  # as if: an hour is taken back
    shown = shown_by(one)
    create(one.store, "r2")
    create(one.store, "r3")
    later = shown_by(one)
    assert 0 < later - shown < 500, "it neither stands still nor jumps"
    [(ahead_s,)] = server.ask(f"SELECT ahead_s FROM {schema}.store")
    assert 990 < ahead_s <= 1000


def shown_by(machine: Machine) -> float:
    """What the store's clock shows to somebody who has just asked the store something."""

    def look(view: View) -> float:
        view.head("r1")
        return machine.store.clock.boot_time().seconds

    return machine.store.read(look)


def test_also_if_nobody_writes(server: Server, url: str, machines: tuple[Machine, Machine]) -> None:
    """Who waits for a lease to lapse only reads. Whoever drives runs listens, and sees to it."""
    one, two = machines
    create(one.store, "r1")
    assert one.acquires("r1", "w1", ttl_s=1)
    server.ask(f"UPDATE {url.rpartition('=')[2]}.store SET seen_s = seen_s + 0.5 + 1000")
    server.ask(f"UPDATE {url.rpartition('=')[2]}.runs SET lease_until_s = lease_until_s + 1000")
    assert two.is_held("r1")
    listener = two.store.listen()
    until(lambda: not two.is_held("r1"))
    listener.close()


def test_a_number_of_another_machine_is_nobodys_here() -> None:
    """The first namespace has the same number on every machine."""
    mine = new_owner()
    where, pid, started, tail = mine.split("-")
    namespace, _, boot = where.partition("m")
    assert is_here(mine)
    dead = f"{where}-{2**22 - 1}-{started}-{tail}"
    assert is_gone(dead)
    other = f"{namespace}m{'0' * len(boot)}"
    for owner in (f"{other}-{2**22 - 1}-{started}-{tail}", f"{other}-{pid}-{started}-{tail}"):
        assert not is_gone(owner)
        assert not is_here(owner)


async def test_nobody_frees_what_a_process_of_another_machine_holds(url: str) -> None:
    where, _, started, tail = new_owner().split("-")
    namespace, _, boot = where.partition("m")
    elsewhere = f"{namespace}m{'0' * len(boot)}-{2**22 - 1}-{started}-{tail}"
    async with Journal.open(url) as journal:
        store = PostgresStore(url)
        create(store, "r1")
        store.close()
        assert await journal.acquire("r1", owner=elsewhere, ttl_s=60)
        assert await journal.queue.free_the_gone() == []
        assert await journal.queue.claimable(agents=["churn"]) == []
        assert await journal.acquire("r1", owner="w2", ttl_s=60) is None
        assert (await journal.for_people(lambda look: look.panel("r1"))).driven


def test_no_other_clock_is_taken_in_its_place(url: str) -> None:
    """Leases of several machines would count on the clock of one."""
    with pytest.raises(InvalidInput, match="the database's own clock") as refused:
        Journal.open(url, clock=ManualClock())
    assert "Nothing was opened" in str(refused.value)
