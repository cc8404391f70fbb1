"""Many machines write to one store. Those who write to one family take turns; nobody else waits,
and whoever reads on from a place misses nothing."""

import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from pullcord.core.commands import Pause
from pullcord.errors import Conflict, StorageFailed
from pullcord.journal.journal import Journal
from pullcord.journal.postgres import backend
from pullcord.journal.postgres.backend import PostgresStore
from pullcord.journal.rules.ledger import Ledger
from pullcord.journal.store import HookPlace, Transaction, View
from tests.postgres.writing import born, create, pauses, runs, started

WRITERS = 4
EACH = 25


@contextmanager
def opened(url: str, count: int) -> Generator[list[PostgresStore]]:
    stores = [PostgresStore(url) for _ in range(count)]
    try:
        yield stores
    finally:
        for store in stores:
            store.close()


def test_whoever_reads_first_and_writes_then_is_alone_meanwhile(url: str) -> None:
    """What the ledger's rules rest on: each of them counts what is there, and adds one."""

    def add(store: PostgresStore) -> None:
        for _ in range(EACH):
            store.write(add_one)

    def add_one(tx: Transaction) -> None:
        place = tx.hook("counter")
        before = place.pos if place else 0
        tx.put_hook("counter", (place or HookPlace(0))._replace(pos=before + 1))

    with opened(url, WRITERS) as stores, ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(add, stores))
        found = stores[0].read(lambda view: view.hook("counter"))
    assert found is not None
    assert found.pos == WRITERS * EACH


def test_who_reads_on_from_a_place_misses_nothing(url: str) -> None:
    """A record is never seen after one with a later place."""
    done = threading.Event()

    def write(number: int) -> None:
        for n in range(EACH):
            create(stores[number], f"r{number}-{n}")

    def follow() -> list[str]:
        seen, place = list[str](), 0
        while True:
            is_last = done.is_set()
            rows = stores[-1].read(lambda v, at=place: v.committed(after_pos=at, limit=1000))
            mark, changed = stores[-1].read(lambda v, at=place: v.changed((at, 0)))
            assert {run for _, run, _ in rows} <= changed.keys()
            assert mark[0] >= (rows[-1][0] if rows else place)
            for at, run_id, _ in rows:
                assert at > place
                seen, place = [*seen, run_id], at
            if is_last and not rows:
                return seen

    with opened(url, WRITERS + 1) as stores, ThreadPoolExecutor(WRITERS + 1) as pool:
        followed = pool.submit(follow)
        list(pool.map(write, range(WRITERS)))
        done.set()
        assert sorted(followed.result()) == sorted(runs(stores[0]))
    assert len(followed.result()) == WRITERS * EACH


def test_a_place_that_was_rolled_back_is_given_again(store: PostgresStore) -> None:
    create(store, "r1")
    ledger = Ledger(store.clock)

    def break_off(tx: Transaction) -> None:
        ledger.append(tx, born("r2"))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.write(break_off)
    create(store, "r3")
    assert store.read(lambda view: view.committed(after_pos=0, limit=9)) == [
        (1, "r1", 1),
        (2, "r3", 1),
    ]
    assert store.read(lambda view: view.position()) == (2, 2)


async def test_what_another_machine_has_recorded_is_seen_by_the_next_write(url: str) -> None:
    """The ledger remembers where a run ended, as long as nobody else has written."""
    async with Journal.open(url) as here, Journal.open(url) as there:
        with opened(url, 1) as (store,):
            create(store, "r1")
        claim = await here.acquire("r1", owner="w1", ttl_s=30)
        assert claim is not None
        await here.append(started(claim, 2))
        assert await pauses(there, "r1") == "applied"
        with pytest.raises(Conflict) as refused:
            await here.append(started(claim, 3, "b"))
        assert refused.value.actual_seq == 4
        assert [record.seq for record in await there.read("r1")] == [1, 2, 3, 4]


def test_a_look_stays_as_it_was_while_others_write(url: str) -> None:
    with opened(url, 2) as (mine, other):
        create(mine, "r1")

        def look(view: View) -> None:
            before = view.position(), view.committed(after_pos=0, limit=9), view.head("r2")
            create(other, "r2")
            assert (
                view.position(),
                view.committed(after_pos=0, limit=9),
                view.head("r2"),
            ) == before

        mine.read(look)
        assert runs(mine) == ["r1", "r2"]


def test_who_waits_too_long_for_a_family_is_told(url: str) -> None:
    patient, hasty = PostgresStore(url), PostgresStore(url, busy_timeout_s=0.05)
    create(patient, "r1", "r2")
    try:

        def wait_inside(tx: Transaction) -> None:
            tx.hold("r1")
            assert pauses_now(hasty, "r2") == "applied", "it is another family"
            with pytest.raises(StorageFailed, match=r"held the run for 0.05 s.*send it again"):
                pauses_now(hasty, "r1")

        patient.write(wait_inside)
        assert pauses_now(hasty, "r1") == "applied"
    finally:
        patient.close()
        hasty.close()


def test_a_writer_that_stands_still_holds_up_its_own_family_and_not_for_ever(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A laptop that is closed, or loses its network, in the middle of a transaction."""
    monkeypatch.setattr(backend, "_STILL_S", 1)
    stood = list[str]()
    with opened(url, 2) as (suspended, other):
        create(suspended, "r1", "r2")

        def stand_still(tx: Transaction) -> None:
            tx.hold("r1")
            if stood:
                return
            stood.append(pauses_now(other, "r2"))
            create(other, "r3")
            stood.append(pauses_now(other, "r1"))  # it waits, and then it is its turn
            tx.eldest("t")

        suspended.write(stand_still)  # its transaction was ended; it is begun once more
        assert stood == ["applied", "applied"]
        create(suspended, "r4")
        assert runs(other) == ["r1", "r2", "r3", "r4"]


def pauses_now(store: PostgresStore, run_id: str) -> str:
    """Pause a run, and return what became of that."""
    ledger = Ledger(store.clock)
    return store.write(lambda tx: ledger.command(tx, run_id, Pause(by="ana"))).verdict
