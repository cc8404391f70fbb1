"""P13, P1(a): a write or a sync that fails is said, and a death at any of them loses nothing.

strace makes the n-th write or sync of a real process fail (EIO, ENOSPC) or kills it there. What
was acknowledged is in the file afterwards; a commit that failed was said to have failed, and the
same journal takes the next one. Normal mode samples n; the full campaign takes every n.
"""

import random
import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from pullcord.journal.sqlite.backend import SqliteStore
from tests.storage.campaign import FULL, fresh_seed
from tests.storage.children import module, need_strace, run
from tests.storage.faults import Calls, Told, Where, calls, straced, ten_commits_with
from tests.storage.looks import is_sound, records_of, reopened
from tests.storage.writers import COMMITS, RUN, planned

SAMPLE: Final = 7


@pytest.fixture(autouse=True)
def _strace() -> None:
    need_strace()


class Bench(NamedTuple):
    """A folder where the same child runs again and again on a file that is new, or was closed."""

    folder: Path
    is_new: bool

    def lay_out(self) -> Path:
        """A fresh file to write to."""
        path = self.folder / "runs.db"
        for old in self.folder.glob("runs.db*"):
            shutil.rmtree(old) if old.is_dir() else old.unlink()
        if not self.is_new:
            shutil.copyfile(self.folder / "made.db", path)
        return path


@pytest.fixture(params=["a new file", "a file made before"])
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Bench:
    SqliteStore(tmp_path / "made.db").close()
    return Bench(tmp_path, is_new=request.param == "a new file")


def _where(bench: Bench, syscall: str) -> Where:
    db, log, journal = (bench.folder / f"runs.db{end}" for end in ("", "-wal", "-journal"))
    if syscall == "fdatasync":  # not the folder's: SQLite does not look whether that succeeded
        return Where(syscall, (db, log, journal))
    # In a file made before, only the log: the shared memory is laid out by writes of its own,
    # and a death there would hide the first commits.
    return Where(syscall, () if bench.is_new else (log,))


def _points(found: Calls, bench: Bench) -> Sequence[int]:
    """Every n that meets a call: of the opener in a new file, of the writer in an old one."""
    every = range(1, 1 + (found.by_opener if bench.is_new else found.by_writer))
    if FULL:
        return every
    chosen = random.Random(fresh_seed()).sample(every, min(SAMPLE, len(every)))
    return sorted({1, len(every), *chosen})


def _acknowledged_is_there(path: Path, told: Told) -> int:
    """Check the file the child left, and return how many records it holds."""
    records = reopened(path, records_of(RUN))
    assert [record.seq for record in records] == list(range(1, len(records) + 1))
    assert [record.event for record in records] == [planned(record.seq) for record in records]
    assert told.acked == list(range(1, len(told.acked) + 1))
    assert len(told.acked) <= len(records), "an acknowledged record is lost"
    assert is_sound(path)
    return len(records)


@pytest.mark.campaign
@pytest.mark.parametrize(
    ("syscall", "fault"),
    [("pwrite64", "error=EIO"), ("pwrite64", "error=ENOSPC"), ("fdatasync", "error=EIO")],
)
def test_a_commit_that_fails_is_said_and_the_next_one_succeeds(
    bench: Bench, syscall: str, fault: str
) -> None:
    where = _where(bench, syscall)
    points = _points(calls(bench.lay_out(), where), bench)
    said = 0
    for n in points:
        path = bench.lay_out()
        told = ten_commits_with(fault, n, path, where)
        at = f"{fault} at {syscall} {n}: {told}"
        assert told.hit_opener or told.hit_writer, at
        assert told.closed, at
        assert told.acked == list(range(1, COMMITS + 1)), at
        assert _acknowledged_is_there(path, told) == COMMITS, at
        assert all(str(path) in why and "not acknowledged" in why for why in told.failures), at
        assert told.failures or not told.hit_writer, at
        if fault == "error=ENOSPC" and told.hit_writer:
            assert "the disk is full" in told.failures[-1], at
        said += len(told.failures)
    print(f"{len(points)} faults ({syscall} {fault}): {said} failures said, 0 records lost")


@pytest.mark.campaign
@pytest.mark.parametrize("syscall", ["pwrite64", "fdatasync"])
def test_a_process_killed_at_a_write_or_a_sync_loses_nothing_acknowledged(
    bench: Bench, syscall: str
) -> None:
    where = _where(bench, syscall)
    points = _points(calls(bench.lay_out(), where), bench)
    acked = present = 0
    for n in points:
        path = bench.lay_out()
        told = ten_commits_with("signal=KILL", n, path, where)
        at = f"killed at {syscall} {n}: {told}"
        assert told.killed, at
        kept = _acknowledged_is_there(path, told)
        assert kept <= len(told.acked) + 1, at  # at most the one under way
        acked += len(told.acked)
        present += kept
    print(f"{len(points)} deaths ({syscall}): {acked} acknowledged, {present} present, 0 lost")


@pytest.mark.campaign
@pytest.mark.parametrize("syscall", ["pwrite64", "fdatasync"])
def test_a_commit_that_failed_before_a_death_is_there_whole_or_not_at_all(
    tmp_path: Path, syscall: str
) -> None:
    # Not "not at all": its bytes may be in the log, whole, when the process dies before it
    # writes again. Nobody was told it is done; whoever sends it again learns that it is.
    SqliteStore(tmp_path / "made.db").close()
    bench = Bench(tmp_path, is_new=False)
    where = _where(bench, syscall)
    points = _points(calls(bench.lay_out(), where), bench)
    came_back = 0
    for n in points:
        path = bench.lay_out()
        told = ten_commits_with("error=EIO", n, path, where, frail=True)
        assert len(told.failures) == 1, told
        kept = _acknowledged_is_there(path, told)
        assert kept <= len(told.acked) + 1, told
        came_back += kept - len(told.acked)
    print(f"{len(points)} failed commits ({syscall}), each followed by a death: {came_back} there")


def test_a_new_store_whose_folder_cannot_be_synced_is_said_to_have_failed(tmp_path: Path) -> None:
    told = ten_commits_with("error=EIO", 1, tmp_path / "runs.db", Where("fsync"))
    assert told.hit_opener, told
    assert len(told.failures) == 1, told
    assert told.closed, told


def test_a_listener_outlives_a_read_that_fails_and_misses_nothing(tmp_path: Path) -> None:
    # The first reads belong to opening and to watch(): those failures are the opener's to hear.
    where = Where("pread64", (tmp_path / "runs.db", tmp_path / "runs.db-wal"))
    bench = Bench(tmp_path, is_new=False)
    SqliteStore(tmp_path / "made.db").close()
    outlived = 0
    for n in range(14, 26):
        path = bench.lay_out()
        command = straced(
            module("listening", path), where, fault=f"error=EIO:when={n}", log=tmp_path / "log"
        )
        said = run(command).stdout.splitlines()
        if "listens" in said:
            assert said[-1:] == [f"heard {COMMITS}"], f"read {n}: {said}"
            outlived += 1
    assert outlived >= 6
