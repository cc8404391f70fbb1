"""P1(c): wherever a crash cuts the write-ahead log, the store opens as it was after a commit.

The cut store is compared with what the uncut one held after the last commit whose bytes are
whole: so each run has a prefix of its true records, and a transaction over two runs is in both
of them or in neither. Normal mode cuts at every frame's edges and a seeded sample; the full
campaign cuts at every byte.
"""

import os
import random
import shutil
import tempfile
from bisect import bisect_right
from collections.abc import AsyncIterator, Iterable
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from pullcord.core.events import Created
from pullcord.journal.clock import SystemClock
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Ledger
from pullcord.journal.sqlite.backend import SqliteStore
from tests.storage.campaign import FULL, fresh_seed
from tests.storage.looks import Seen, look
from tests.storage.writers import TOGETHER, something_of_everything

WAL_HEADER: Final = 32
FRAME: Final = 24 + 4096
SAMPLE: Final = 400
PARTS: Final = 4  # so that the full campaign spreads over the processes of pytest-xdist


class Cuttable(NamedTuple):
    """A store copied while open: its WAL holds everything since the tables were made."""

    db: bytes
    wal: bytes
    sizes: list[int]  # of the WAL, after each commit
    seen: list[Seen]  # what the store held after each commit; the first is before any
    folder: Path  # where cut copies are opened

    def after_cut(self, at: int) -> Seen:
        """What the store must hold when only `at` bytes of its WAL are left."""
        return self.seen[bisect_right(self.sizes, at)]


@pytest.fixture
async def cuttable() -> AsyncIterator[Cuttable]:
    shm = Path("/dev/shm")
    base = shm if os.access(shm, os.W_OK) else None  # tens of thousands of opens: not on a disk
    folder = Path(tempfile.mkdtemp(prefix="pullcord-wal-", dir=base))
    try:
        yield await _written(folder)
    finally:
        shutil.rmtree(folder)


async def _written(folder: Path) -> Cuttable:
    path, wal = folder / "true.db", folder / "true.db-wal"
    SqliteStore(path).close()  # the tables are in the file itself; the WAL is all ours
    store = SqliteStore(path)
    sizes: list[int] = []
    seen = [store.read(look)]

    async def told() -> None:
        sizes.append(wal.stat().st_size)
        seen.append(store.read(look))

    async with Journal(store) as journal:
        await something_of_everything(journal, told)
        return Cuttable(path.read_bytes(), wal.read_bytes(), sizes, seen, folder)


def _edges(length: int) -> set[int]:
    """Every frame's first and last byte, the log's own, and their neighbours."""
    near = {0, WAL_HEADER, length, *range(WAL_HEADER, length + 1, FRAME)}
    near |= {edge + 24 for edge in near}  # between a frame's header and its page
    return {at + by for at in near for by in (-1, 0, 1) if 0 <= at + by <= length}


def _positions(length: int, part: int) -> Iterable[int]:
    if FULL:
        return range(part * (length + 1) // PARTS, (part + 1) * (length + 1) // PARTS)
    edges = sorted(_edges(length))
    rng = random.Random(fresh_seed())
    inside = [rng.randrange(length) for _ in range(max(0, SAMPLE - len(edges)))]
    return [*edges, *inside][part::PARTS]


def _open_cut(cuttable: Cuttable, at: int) -> Seen:
    """Open the store as a crash would have left it, look, and write one more run to it."""
    path = cuttable.folder / "cut.db"
    path.write_bytes(cuttable.db)
    path.with_name("cut.db-wal").write_bytes(cuttable.wal[:at])
    store = SqliteStore(path)
    try:
        seen = store.read(look)
        new = Append(run_id="new", events=[Created(agent="a", thread="t")], expected_seq=0)
        store.write(lambda tx: Ledger(SystemClock()).append(tx, new))
        assert store.read(look).has("new", 1), f"cut at {at}: it takes no new run"
        return seen
    finally:
        store.close()


@pytest.mark.campaign
@pytest.mark.parametrize("part", range(PARTS))
async def test_a_store_whose_wal_is_cut_anywhere_holds_what_it_held_after_a_commit(
    cuttable: Cuttable, part: int
) -> None:
    whole = cuttable.seen[-1]
    cuts = shortened = 0
    for at in _positions(len(cuttable.wal), part):
        seen = _open_cut(cuttable, at)
        cuts += 1
        shortened += seen != whole
        assert seen.is_prefix_of(whole), f"cut at {at}: not a prefix"
        for (a, a_seq), (b, b_seq) in TOGETHER:
            assert seen.has(a, a_seq) == seen.has(b, b_seq), f"cut at {at}: half a transaction"
        assert seen == cuttable.after_cut(at), f"cut at {at}: not the last whole commit"
    print(
        f"{cuts} cuts of a WAL of {len(cuttable.wal)} bytes (part {part + 1} of {PARTS}), "
        f"{len(cuttable.sizes)} commits: 0 that are not a prefix, {shortened} cut short"
    )
    assert cuts >= (24_000 if FULL else SAMPLE) // PARTS


async def test_the_story_that_is_cut_has_every_kind_of_row(cuttable: Cuttable) -> None:
    assert len(cuttable.wal) >= 24_000
    assert len(cuttable.wal) == cuttable.sizes[-1]
    assert cuttable.sizes == sorted(set(cuttable.sizes)), "each commit made the WAL longer"
    assert cuttable.seen[0].hashes == {}
    assert any(seen.texts for seen in cuttable.seen), "live text was there at some time"
    assert set(cuttable.seen[-1].hashes) == {"parent", "child", "other"}
