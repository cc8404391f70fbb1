"""A connection may end at any time. What is said about a write is true all the same."""

import threading
from collections.abc import Callable, Sequence
from typing import Any

import psycopg
import pytest

from pullcord.errors import RunNotFound, StorageFailed
from pullcord.journal.postgres.backend import PostgresStore
from pullcord.journal.postgres.exchange import Exchanger, Said
from pullcord.journal.postgres.tables import DONE
from pullcord.journal.rules.ledger import Ledger
from pullcord.journal.store import Transaction, View
from tests.postgres.server import Server, until
from tests.postgres.writing import born, create, runs


def test_one_that_nobody_used_is_replaced(server: Server, store: PostgresStore) -> None:
    create(store, "r1")
    assert runs(store) == ["r1"]
    assert server.terminates() >= 2
    create(store, "r2")
    assert runs(store) == ["r1", "r2"]


def test_in_the_middle_of_a_read(server: Server, store: PostgresStore) -> None:
    create(store, "r1")

    def look(view: View) -> None:
        assert view.head("r1")
        server.terminates()
        view.head("r1")

    with pytest.raises(StorageFailed, match=r"Reading postgresql://.*See that the server runs"):
        store.read(look)
    assert runs(store) == ["r1"]


def test_a_read_that_finds_nothing_costs_none(server: Server, store: PostgresStore) -> None:
    def finds_nothing(_: View) -> None:
        raise RunNotFound("r1")

    def backends() -> list[tuple[int]]:
        return store.read(
            lambda _: server.ask(
                "SELECT pid FROM pg_stat_activity WHERE application_name = 'pullcord' ORDER BY pid"
            )
        )

    before = backends()
    for _ in range(3):
        with pytest.raises(RunNotFound):
            store.read(finds_nothing)
    assert backends() == before


def test_in_the_middle_of_a_write(server: Server, store: PostgresStore) -> None:
    ledger = Ledger(store.clock)
    create(store, "r1")

    def write(tx: Transaction) -> None:
        ledger.append(tx, born("r2"))
        server.terminates()
        ledger.append(tx, born("r3"))

    with pytest.raises(StorageFailed, match=r"Writing to .*Nothing of it was written"):
        store.write(write)
    assert runs(store) == ["r1"]
    store.write(lambda tx: ledger.append(tx, born("r2")))
    assert runs(store) == ["r1", "r2"]


Meddle = Callable[[Exchanger, Callable[[], Any]], Any]


def at_the_commit(monkeypatch: pytest.MonkeyPatch, meddle: Meddle, *, times: int = 1) -> None:
    """Have `meddle(line, commit)` called in place of the next commits."""
    left = [meddle] * times
    exchange = Exchanger.exchange

    def meddled(line: Exchanger, *said: Said, then: Sequence[Said] = ()) -> Any:
        is_commit = any(statement is DONE for statement, _ in said)
        if not (is_commit and left):
            return exchange(line, *said, then=then)
        return left.pop()(line, lambda: exchange(line, *said, then=then))

    monkeypatch.setattr(Exchanger, "exchange", meddled)


@pytest.mark.parametrize("times", [1, 2])
def test_before_the_commit_arrives(
    server: Server, store: PostgresStore, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """It may have been lost while nobody used it: what was not written is sent once more."""

    def end_first(_: Exchanger, commit: Callable[[], Any]) -> Any:
        server.terminates()
        return commit()

    at_the_commit(monkeypatch, end_first, times=times)
    if times == 1:
        create(store, "r1")
        assert runs(store) == ["r1"]
        return
    with pytest.raises(StorageFailed, match="Nothing of it was written"):
        create(store, "r1")
    assert runs(store) == []
    create(store, "r1")


def break_line(line: Exchanger, commit: Callable[[], Any]) -> None:
    """The commit is carried out; what the server says of it gets lost."""
    commit()
    line.db.close()
    raise psycopg.OperationalError("server closed the connection unexpectedly")


def test_when_the_answer_to_a_commit_is_lost_it_is_looked_up(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_the_commit(monkeypatch, break_line)
    create(store, "r1")  # it was carried out, and is answered as that
    assert runs(store) == ["r1"]
    create(store, "r2")
    assert runs(store) == ["r1", "r2"]


def test_also_if_the_server_says_goodbye_in_between(
    store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was called unwritten (the campaign of the killed server had found it, about once in ten
    deaths)."""

    def says_goodbye(line: Exchanger, commit: Callable[[], Any]) -> None:
        commit()
        line.db.close()
        raise psycopg.errors.AdminShutdown("terminating connection due to administrator command")

    at_the_commit(monkeypatch, says_goodbye)
    create(store, "r1")
    assert runs(store) == ["r1"]


def test_also_if_others_have_written_since(
    url: str, store: PostgresStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = PostgresStore(url)

    def overtaken(line: Exchanger, commit: Callable[[], Any]) -> None:
        try:
            break_line(line, commit)
        finally:
            create(other, "r2")

    at_the_commit(monkeypatch, overtaken)
    create(store, "r1")
    assert runs(store) == ["r1", "r2"]
    other.close()


def test_when_nobody_can_tell_it_is_not_called_undone(
    own_server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is no server to ask, for longer than anybody waits."""
    store = PostgresStore(own_server.url(), busy_timeout_s=0.2)

    def gone(line: Exchanger, commit: Callable[[], Any]) -> None:
        try:
            break_line(line, commit)
        finally:
            own_server.kill()

    at_the_commit(monkeypatch, gone)
    with pytest.raises(StorageFailed) as refused:
        create(store, "r1")
    said = str(refused.value)
    assert "as a whole, or not at all: which of the two is not known" in said
    assert "Sending it again with the same key is always right" in said
    assert "Nothing of it was written" not in said
    own_server.start()
    assert runs(store) == ["r1"]
    store.close()


def test_a_listener_comes_back_and_reports_a_change(server: Server, store: PostgresStore) -> None:
    create(store, "r1")
    listener = store.listen()
    while listener.wait(0):
        pass
    assert server.terminates("%SELECT last_value FROM places") == 1
    assert listener.wait(20), "something may have happened meanwhile"
    create(store, "r2")
    assert listener.wait(20)
    listener.close()


def test_a_listener_outlives_the_server(own_server: Server) -> None:
    store = PostgresStore(own_server.url())
    listener = store.listen()
    heard = threading.Event()
    own_server.kill()
    waiting = threading.Thread(target=lambda: listener.wait(60) and heard.set())
    waiting.start()
    own_server.start()
    until(heard.is_set)
    waiting.join()
    while listener.wait(0):
        pass
    create(store, "r1")
    assert listener.wait(20)
    listener.close()
    store.close()


def test_a_listener_can_be_woken_while_the_server_is_away(own_server: Server) -> None:
    store = PostgresStore(own_server.url())
    listener = store.listen()
    own_server.stop()
    assert not listener.wait(0.1)
    woken = threading.Thread(target=lambda: listener.wait(3600))
    woken.start()
    listener.wake()
    woken.join(20)
    assert not woken.is_alive()
    listener.close()
    store.close()
