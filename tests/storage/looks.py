"""What a store holds, every record checked against the one before it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

import apsw
import msgspec

from pullcord.core.events import Record
from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.errors import ChainBroken
from pullcord.journal.chain import GENESIS, opened
from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.journal.store import Head, LiveText, View
from pullcord.journal.stored_runs.run_records import ALL
from pullcord.journal.stored_runs.snapshots import load

T = TypeVar("T")


class Seen(msgspec.Struct, frozen=True):
    """A store's contents. Equal if and only if the stores hold the same records and live text."""

    hashes: dict[str, tuple[bytes, ...]]
    texts: dict[str, tuple[LiveText, ...]]

    def has(self, run_id: str, seq: int) -> bool:
        return len(self.hashes.get(run_id, ())) >= seq

    def is_prefix_of(self, other: "Seen") -> bool:
        """Whether each run's records are the first ones of the same run in `other`."""
        return all(
            other.hashes.get(run, ())[: len(mine)] == mine for run, mine in self.hashes.items()
        )


def heads(view: View) -> list[Head]:
    return view.heads(states=RunState, thread=None, before=None, limit=ALL)


def look(view: View) -> Seen:
    """Everything in the store. Raises if a record does not follow from the one before."""
    hashes: dict[str, tuple[bytes, ...]] = {}
    texts: dict[str, tuple[LiveText, ...]] = {}
    for head in heads(view):
        rows = view.rows(head.run_id, after_seq=0, limit=ALL)
        for _ in opened(head.run_id, rows, seq=0, before=GENESIS):
            pass
        if len(rows) != head.seq:  # a damaged file may list a run under a name it never had
            raise ChainBroken(head.run_id, seq=len(rows), why=f"the run ends at {head.seq}")
        hashes[head.run_id] = tuple(row.hash for row in rows)
        if live := view.live(head.run_id, after_pos=0):
            texts[head.run_id] = tuple(live)
    return Seen(hashes, texts)


def records_of(run_id: str) -> Callable[[View], list[Record]]:
    def read(view: View) -> list[Record]:
        rows = view.rows(run_id, after_seq=0, limit=ALL)
        return list(opened(run_id, rows, seq=0, before=GENESIS))

    return read


def folded(view: View) -> dict[str, Run]:
    """Every run, as its records make it."""
    return {head.run_id: load(view, head) for head in heads(view)}


def reopened(path: Path, job: Callable[[View], T], *, migrations: Iterable[str] = ()) -> T:
    """Open the store at `path` anew, look at it with `job`, and close it."""
    store = (
        SqliteStore(path, migrations=tuple(migrations)) if tuple(migrations) else SqliteStore(path)
    )
    try:
        return store.read(job)
    finally:
        store.close()


def is_sound(path: Path) -> bool:
    """Whether SQLite itself finds every page of the file in order."""
    db = apsw.Connection(str(path))
    try:
        return db.pragma("integrity_check") == "ok"
    finally:
        db.close()
