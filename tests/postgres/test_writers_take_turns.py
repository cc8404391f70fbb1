"""Many machines write to one store: one at a time, in an order that everybody sees the same."""

import threading
from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from pullcord.errors import Conflict, StorageFailed
from pullcord.journal.journal import Journal
from pullcord.journal.postgres import backend
from pullcord.journal.postgres.backend import PostgresStore
from pullcord.journal.rules.ledger import Ledger
from pullcord.journal.store import HookPlace, Transaction, View
from tests.postgres.server import Server
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
            assert mark[0] >= place + len(rows)
            for at, run_id, _ in rows:
                assert at == place + 1, "a place was left out, and may be filled later"
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
    assert store.read(lambda view: view.position()) == (2, 0)


def test_the_number_of_a_transaction_tells_whether_anybody_came_between(url: str) -> None:
    with opened(url, 2) as (mine, other):
        create(mine, "r1")
        first = mine.write(lambda tx: tx.number())
        assert mine.write(lambda tx: tx.number()) == first + 1
        create(other, "r2")
        second = mine.write(lambda tx: tx.number())
        assert second > first + 2
        other.write(lambda tx: tx.number())  # looked, and wrote nothing
        assert mine.write(lambda tx: tx.number()) == second + 1
        with pytest.raises(ZeroDivisionError):
            mine.write(_break)
        assert mine.write(lambda tx: tx.number()) > second + 2


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


def test_who_waits_too_long_for_its_turn_is_told(server: Server, url: str) -> None:
    patient = PostgresStore(url)
    hasty = PostgresStore(url, busy_timeout_s=0.05)
    try:

        def wait_inside(_: Transaction) -> None:
            with pytest.raises(StorageFailed, match=r"held the store for 0.05 s.*send it again"):
                create(hasty, "r1")

        patient.write(wait_inside)
        create(hasty, "r2")
        assert runs(patient) == ["r2"]
    finally:
        patient.close()
        hasty.close()


def test_a_writer_that_stands_still_holds_up_nobody_for_ever(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A laptop that is closed, or loses its network, in the middle of a transaction."""
    monkeypatch.setattr(backend, "_STILL_S", 1)
    with opened(url, 2) as (suspended, other):

        def stand_still(tx: Transaction) -> None:
            Ledger(suspended.clock).append(tx, born("r1"))
            create(other, "r2")  # it waits for its turn, and gets it
            tx.head("r1")

        with pytest.raises(StorageFailed, match="Nothing of it was written"):
            suspended.write(stand_still)
        create(suspended, "r3")
        assert runs(other) == ["r2", "r3"]


def _break(_: Transaction) -> None:
    raise ZeroDivisionError
