"""Whoever listens hears of a commit at once, of nothing before it, and of nothing else."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from pullcord.journal.postgres.backend import PostgresStore
from pullcord.journal.postgres.listener import PostgresListener
from pullcord.journal.rules.ledger import Ledger
from pullcord.journal.store import Transaction
from tests.postgres.writing import born, create

NEVER_S = 3600.0


@pytest.fixture
def listener(store: PostgresStore) -> Iterator[PostgresListener]:
    """One that never looks by itself: what it hears was said."""
    made = PostgresListener(getattr(store, "_link"), look_s=NEVER_S)  # noqa: B009
    yield made
    made.close()


def test_by_a_notification(store: PostgresStore, listener: PostgresListener) -> None:
    for number in range(20):
        create(store, f"r{number}")
        assert listener.wait(20)


def test_not_before_it_can_be_read(store: PostgresStore, listener: PostgresListener) -> None:
    ledger = Ledger(store.clock)

    def write(tx: Transaction) -> None:
        ledger.append(tx, born("r1"))
        assert not listener.wait(0.05)

    store.write(write)
    assert listener.wait(20)
    assert store.read(lambda view: view.head("r1"))


def test_whoever_hears_of_it_can_read_it(
    store: PostgresStore, listener: PostgresListener, url: str
) -> None:
    other = PostgresStore(url)

    def hear(run_id: str) -> object:
        return listener.wait(20) and other.read(lambda view: view.head(run_id))

    with ThreadPoolExecutor(1) as pool:
        for number in range(20):
            heard = pool.submit(hear, f"r{number}")
            create(store, f"r{number}")
            assert heard.result(), "it was said before it was so"
    other.close()


def test_not_of_what_was_taken_back_or_of_a_mere_look(
    store: PostgresStore, listener: PostgresListener
) -> None:
    ledger = Ledger(store.clock)

    def break_off(tx: Transaction) -> None:
        ledger.append(tx, born("r1"))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        store.write(break_off)
    store.write(lambda tx: tx.head("r1"))
    assert not listener.wait(0.05)


def test_of_no_other_schema(store: PostgresStore, listener: PostgresListener, url: str) -> None:
    other = PostgresStore(f"{url}_other")
    create(other, "r1")
    assert not listener.wait(0.05)
    other.close()


def test_if_nobody_says_anything_it_looks(store: PostgresStore) -> None:
    """Behind a pooler that shares connections, say, notifications get lost."""
    deaf = PostgresListener(getattr(store, "_link"), look_s=0.02)  # noqa: B009
    assert deaf._db  # pyright: ignore[reportPrivateUsage]
    deaf._db.execute("UNLISTEN *")  # pyright: ignore[reportPrivateUsage]
    create(store, "r1")
    assert deaf.wait(20)
    assert not deaf.wait(0.05)
    deaf.close()
