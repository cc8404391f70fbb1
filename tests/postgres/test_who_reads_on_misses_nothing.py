"""Places are drawn before they are committed, and not in that order. Whoever reads on from a place
goes no further than what is settled, tells of what is there already, and waits for nobody else."""

from collections.abc import Generator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from pullcord.journal.postgres import rows
from pullcord.journal.postgres.backend import PostgresStore
from pullcord.journal.postgres.connection import Link
from pullcord.journal.postgres.exchange import Rows
from tests.postgres.server import Server
from tests.postgres.writing import create


@contextmanager
def a_writer_in_the_middle(
    server: Server, store: PostgresStore
) -> Generator[psycopg.Connection[Any]]:
    """One that has drawn a place and has not committed yet, as `tables` has it done."""
    link: Link = getattr(store, "_link")  # noqa: B009
    with server.connect() as other:
        other.execute("SELECT set_config('search_path', %s, false)", (link.address.schema,))
        other.execute("BEGIN")
        other.execute(
            "SELECT pg_advisory_xact_lock_shared(%s, last_value::int) FROM places", (link.places,)
        )
        other.execute("SELECT nextval('places')")
        yield other
        other.execute("ROLLBACK")


def committed(store: PostgresStore, after: int = 0) -> list[str]:
    found = store.read(lambda view: view.committed(after_pos=after, limit=10))
    return [run_id for _, run_id, _ in found]


def test_a_place_that_may_still_be_filled_is_waited_for(
    server: Server, store: PostgresStore
) -> None:
    create(store, "r1")
    before, _ = store.read(lambda view: view.position())
    with a_writer_in_the_middle(server, store):
        create(store, "r2")
        assert committed(store) == ["r1"], "whoever went on from r2 would miss the other"
        assert store.read(lambda view: view.position())[0] == before
    assert committed(store) == ["r1", "r2"]


def test_whoever_follows_hears_of_what_is_there_at_once_and_goes_no_further(
    server: Server, store: PostgresStore
) -> None:
    create(store, "r1")
    mark = store.read(lambda view: view.position())
    with a_writer_in_the_middle(server, store):
        create(store, "r2")
        after, changed = store.read(lambda view: view.changed(mark))
        assert (after, changed) == (mark, {"r2": 1})
    after, changed = store.read(lambda view: view.changed(mark))
    assert after > mark
    assert changed == {"r2": 1}


def test_the_transactions_of_other_programs_hold_up_nobody(
    server: Server, store: PostgresStore
) -> None:
    create(store, "r1")
    with server.connect() as other:
        other.execute("BEGIN")
        other.execute("CREATE TEMPORARY TABLE a_report (x INT)")  # it has a number, and stays open
        create(store, "r2")
        assert committed(store) == ["r1", "r2"]
        other.execute("ROLLBACK")


def test_the_tests_find_a_reader_that_waits_for_nobody(
    server: Server, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def waits_for_nobody(last: Rows, taken: Rows) -> int:  # planted
        return last[0][0]

    monkeypatch.setattr(rows, "settled", waits_for_nobody)
    create(store, "r1")
    with a_writer_in_the_middle(server, store):
        create(store, "r2")
        assert committed(store) == ["r1", "r2"]
