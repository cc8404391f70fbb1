"""The server is killed with kill -9, in the middle of commits, and brought back: whatever was
acknowledged is there, and what was not is there as a whole or not at all."""

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from pullcord.core.events import Created
from pullcord.errors import StorageFailed
from pullcord.journal.postgres.backend import PostgresStore
from pullcord.journal.postgres.exchange import Exchanger, Said
from pullcord.journal.postgres.tables import DONE
from pullcord.journal.rules.ledger import Append, Ledger
from pullcord.journal.store import Transaction
from tests.conftest import FULL
from tests.postgres.server import Server, until

ROUNDS = 40 if FULL else 6
PAIR = ("a", "b")


class Writer:
    """Creates runs by twos, one transaction each, and remembers what it was told of them."""

    def __init__(self, url: str, name: str) -> None:
        self.store, self._name = PostgresStore(url), name
        self._ledger = Ledger(self.store.clock)
        self.kept, self.refused, self.unknown = list[str](), list[str](), list[str]()
        self.is_over = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._thread.start()

    def _work(self) -> None:
        number = 0
        while not self.is_over.is_set():
            number += 1
            pair = f"{self._name}-{number}"
            try:
                self.store.write(lambda tx, p=pair: [self._add(tx, f"{p}-{x}") for x in PAIR])
            except StorageFailed as failed:
                is_known = "Nothing of it was written" in str(failed)
                (self.refused if is_known else self.unknown).append(pair)
            else:
                self.kept.append(pair)

    def _add(self, tx: Transaction, run_id: str) -> None:
        event = Created(agent="churn", thread=run_id)
        self._ledger.append(tx, Append(run_id=run_id, events=[event], expected_seq=0))

    def close(self) -> None:
        self.is_over.set()
        self._thread.join()
        self.store.close()


def pairs_in(store: PostgresStore) -> set[str]:
    """Those that are there; half of one is a failure."""
    found = {row.run_id for row in store.read(lambda v: v.kept(since=0, limit=1_000_000))}
    pairs = {run_id.rpartition("-")[0] for run_id in found}
    assert found == {f"{pair}-{x}" for pair in pairs for x in PAIR}
    return pairs


def have_gone_on(writers: list[Writer], before: list[int]) -> bool:
    pairs = zip(writers, before, strict=True)
    return all(len(writer.kept) > count + 5 for writer, count in pairs)


@pytest.mark.campaign
@pytest.mark.parametrize("how", ["everybody", "postmaster"])
def test_nothing_acknowledged_is_lost(own_server: Server, how: str) -> None:
    url = own_server.url()
    writers = [Writer(url, f"w{n}") for n in range(3)]
    try:
        for _ in range(ROUNDS):
            before = [len(writer.kept) for writer in writers]
            until(
                lambda b=before: all(len(w.kept) > n + 5 for w, n in zip(writers, b, strict=True))
            )
            own_server.kill() if how == "everybody" else own_server.kill_postmaster()
            own_server.start()
    finally:
        for writer in writers:
            writer.close()
    store = PostgresStore(url)
    there = pairs_in(store)
    kept = {pair for writer in writers for pair in writer.kept}
    refused = {pair for writer in writers for pair in writer.refused}
    assert kept <= there, kept - there
    assert not refused & there, "it was said that nothing of it was written"
    places = [pos for pos, *_ in store.read(lambda v: v.committed(after_pos=0, limit=10**6))]
    assert places == sorted(set(places))
    store.close()
    unknown = sum(len(writer.unknown) for writer in writers)
    print(f"{ROUNDS} deaths: {len(kept)} acknowledged, {len(refused)} refused, {unknown} in doubt")


def bring_back(server: Server, killed: threading.Event) -> None:
    killed.wait()
    until(lambda: not server.is_up)
    server.start()


@pytest.mark.parametrize("is_first", [True, False], ids=["before", "behind"])
def test_at_the_very_commit(
    own_server: Server, monkeypatch: pytest.MonkeyPatch, is_first: bool
) -> None:
    """The writer waits for the server, looks up what became of its commit, and says that. What was
    not written is sent once more."""
    store = PostgresStore(own_server.url())
    ledger, killed = Ledger(store.clock), threading.Event()
    exchange, sent = Exchanger.exchange, list[bool]()

    def meddled(line: Exchanger, *said: Said, then: Sequence[Said] = ()) -> Any:
        if not any(statement is DONE for statement, _ in said):
            return exchange(line, *said, then=then)
        sent.append(True)
        if killed.is_set():
            return exchange(line, *said, then=then)
        killed.set()
        if not is_first:
            exchange(line, *said, then=then)
        own_server.kill()
        return exchange(line, *said, then=then)

    monkeypatch.setattr(Exchanger, "exchange", meddled)
    back = threading.Thread(target=lambda: bring_back(own_server, killed))
    back.start()
    event = Append(run_id="r1", events=[Created(agent="churn", thread="t")], expected_seq=0)
    store.write(lambda tx: ledger.append(tx, event))
    back.join()
    assert len(sent) == 1 + is_first
    assert store.read(lambda view: view.head("r1"))
    store.close()
