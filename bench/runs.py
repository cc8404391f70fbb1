"""Runs to measure with."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw

from pullcord.core.events import Created, Event, StepFinished, StepStarted
from pullcord.core.values import dump
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append

RESULT = dump("x" * 198)


async def born(journal: Journal, run_id: str) -> None:
    """A run that this process owns, at record 2 and epoch 1."""
    created = Created(agent="churn", thread=run_id)
    await journal.append(Append(run_id=run_id, events=[created], expected_seq=0))
    await journal.acquire(run_id, owner="bench", ttl_s=3600)


def steps(count: int) -> Iterator[tuple[Event, Event]]:
    for number in range(count):
        name = f"step-{number}"
        yield StepStarted(step=name, name="fetch"), StepFinished(step=name, result=RESULT)


async def add(journal: Journal, run_id: str, seq: int, *events: Event) -> None:
    await journal.append(Append(run_id=run_id, events=events, expected_seq=seq, epoch=1))


async def against_bare(
    journal: Journal, commit: Callable[[], None], pairs: int
) -> tuple[list[float], list[float]]:
    """How long a step's two records take, and two bare commits, in turn so that both see one disk:
    ours and theirs. The run `r1` is at record 2."""
    ours, theirs = list[float](), list[float]()
    for number, (intent, outcome) in enumerate(steps(pairs)):
        began = time.perf_counter()
        commit()
        commit()
        theirs.append(time.perf_counter() - began)
        began = time.perf_counter()
        await add(journal, "r1", 2 + 2 * number, intent)
        await add(journal, "r1", 3 + 2 * number, outcome)
        ours.append(time.perf_counter() - began)
    return ours, theirs


class Bare:
    """The bare limit: one row with its index, one durable commit, nothing else."""

    def __init__(self, path: Path) -> None:
        self.db = apsw.Connection(str(path))
        self.db.pragma("journal_mode", "wal")
        self.db.pragma("synchronous", 2)
        self.db.execute(
            "CREATE TABLE r (pos INTEGER PRIMARY KEY, run INTEGER, seq INTEGER, payload BLOB);"
            "CREATE UNIQUE INDEX i ON r (run, seq)"
        )
        self._seq = 0

    def commit(self, payload: bytes = bytes(260)) -> None:
        self._seq += 1
        self.db.execute("BEGIN IMMEDIATE")
        self.db.execute("INSERT INTO r (run, seq, payload) VALUES (1, ?, ?)", (self._seq, payload))
        self.db.execute("COMMIT")
