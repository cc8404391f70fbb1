"""P24: a file made by an older build opens in a newer one, with every record and the same runs.

A migration is all or nothing, also when the process dies in it or two processes begin it at
once; and the older build refuses the newer file instead of guessing.
"""

import random
import shutil
import subprocess
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Final, cast

import apsw
import pytest

from pullcord.core.events import Spent
from pullcord.errors import FormatUnknown, StorageFailed
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append
from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.journal.sqlite.schema import MIGRATIONS
from tests.storage.campaign import FULL, fresh_seed
from tests.storage.children import ROOT, module, need_strace, run
from tests.storage.faults import Where, straced, was_killed
from tests.storage.looks import folded, is_sound, look, reopened
from tests.storage.openers import NEWER
from tests.storage.writers import something_of_everything

ROUNDS: Final = 200 if FULL else 20
SAMPLE: Final = 8


@pytest.fixture
async def older(tmp_path: Path) -> Path:
    """A closed file of this build, with something of everything in it."""

    async def told() -> None:
        pass

    path = tmp_path / "older.db"
    async with Journal(SqliteStore(path, migrations=MIGRATIONS)) as journal:
        await something_of_everything(journal, told)
    return path


def _shape(path: Path) -> tuple[int, bool, bool]:
    """The file's version, and whether it has the column and the table that the newer one has."""
    db = apsw.Connection(str(path))
    try:
        version = cast("int", db.pragma("user_version"))
        columns = db.execute("SELECT 1 FROM pragma_table_info('runs') WHERE name = 'note'")
        tables = db.execute("SELECT 1 FROM sqlite_master WHERE name = 'notes'")
        return version, columns.fetchone() is not None, tables.fetchone() is not None
    finally:
        db.close()


BEFORE: Final = (len(MIGRATIONS), False, False)
AFTER: Final = (len(NEWER), True, True)


def test_an_older_file_is_brought_up_to_date_and_replays_to_the_same_runs(older: Path) -> None:
    records, runs = reopened(older, look), reopened(older, folded)
    assert _shape(older) == BEFORE
    assert reopened(older, look, migrations=NEWER) == records
    assert reopened(older, folded, migrations=NEWER) == runs
    assert _shape(older) == AFTER
    print(f"{len(runs)} runs, {sum(map(len, records.hashes.values()))} records: all as before")


async def test_a_file_brought_up_to_date_takes_new_records_from_the_same_owner(
    older: Path,
) -> None:
    before = reopened(older, folded)["parent"]
    async with Journal(SqliteStore(older, migrations=NEWER)) as journal:
        spent = Append(
            run_id="parent", events=[Spent(tokens_in=1)], expected_seq=before.seq, epoch=1
        )
        await journal.append(spent)
        assert (await journal.load("parent")).seq == before.seq + 1
        assert (await journal.load("parent")).state == before.state


def test_the_older_build_refuses_the_newer_file_and_names_both_versions(older: Path) -> None:
    SqliteStore(older, migrations=NEWER).close()
    before = older.read_bytes()
    with pytest.raises(FormatUnknown) as refusal:
        SqliteStore(older)
    said = str(refusal.value)
    assert str(older) in said
    assert f"version {len(NEWER)}" in said
    assert f"versions up to {len(MIGRATIONS)}" in said
    assert "Nothing was changed. Upgrade pullcord here" in said
    assert older.read_bytes() == before


def test_a_migration_that_fails_half_way_leaves_the_version_before(older: Path) -> None:
    records = reopened(older, look)
    failing = (*MIGRATIONS, NEWER[-1] + "INSERT INTO no_such_table VALUES (1);")
    with pytest.raises(StorageFailed, match="no_such_table"):
        SqliteStore(older, migrations=failing)
    assert _shape(older) == BEFORE
    assert reopened(older, look) == records
    assert reopened(older, look, migrations=NEWER) == records


def _kill_points(older: Path, where: Where, log: Path) -> list[int]:
    """Every n at which the migrating process makes such a call."""
    shutil.copyfile(older, older.with_name("runs.db"))
    command = module("migrating", older.with_name("runs.db"))
    assert run(straced(command, where, log=log)).returncode == 0
    every = range(1, 1 + log.read_text().count(f"{where.syscall}("))
    if FULL:
        return list(every)
    chosen = random.Random(fresh_seed()).sample(every, min(SAMPLE, len(every)))
    return sorted({1, len(every), *chosen})


@pytest.mark.campaign
@pytest.mark.parametrize("syscall", ["pwrite64", "fdatasync"])
def test_a_death_at_any_write_of_a_migration_leaves_the_version_before_or_after(
    older: Path, syscall: str
) -> None:
    need_strace()
    records, runs = reopened(older, look), reopened(older, folded)
    path, log = older.with_name("runs.db"), older.with_name("log")
    where = Where(syscall)
    points = _kill_points(older, where, log)
    still_before = 0
    for n in points:
        for left in path.parent.glob("runs.db-*"):
            shutil.rmtree(left) if left.is_dir() else left.unlink()
        shutil.copyfile(older, path)
        command = straced(module("migrating", path), where, log=log, fault=f"signal=KILL:when={n}")
        assert was_killed(run(command).returncode), n
        shape = _shape(path)
        assert shape in (BEFORE, AFTER), n
        still_before += shape == BEFORE
        assert reopened(path, look, migrations=NEWER) == records, n
        assert reopened(path, folded, migrations=NEWER) == runs, n
        assert _shape(path) == AFTER, n
        assert is_sound(path), n
    print(
        f"{len(points)} deaths in a migration ({syscall}): {still_before} at the version before, "
        f"{len(points) - still_before} at the one after, 0 between; 0 records lost"
    )


@contextmanager
def _opener() -> Generator[tuple[IO[str], IO[str]]]:
    """A process that opens each path it is sent. Ends when its stdin does."""
    process = subprocess.Popen(
        module("openers"), cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin
    assert process.stdout
    try:
        assert process.stdout.readline() == "ready\n"
        yield process.stdin, process.stdout
    finally:
        process.stdin.close()
        try:
            process.wait(30)
        finally:
            process.kill()
            process.stdout.close()


def test_a_file_that_another_process_has_locked_is_waited_for(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    other = apsw.Connection(str(path))
    other.execute("BEGIN EXCLUSIVE")
    began_s = time.monotonic()
    with pytest.raises(StorageFailed):
        SqliteStore(path, busy_timeout_s=0.5)
    assert time.monotonic() - began_s >= 0.5
    other.close()


@pytest.mark.campaign
@pytest.mark.parametrize("begin_with", ["nothing", "an older file"])
def test_two_processes_that_open_a_file_at_the_same_time_both_succeed(
    older: Path, begin_with: str
) -> None:
    with ExitStack() as stack:
        openers = [stack.enter_context(_opener()) for _ in range(2)]
        for round_ in range(ROUNDS):
            path = older.with_name(f"round-{round_}.db")
            if begin_with == "an older file":
                shutil.copyfile(older, path)
            for asked, _ in openers:
                asked.write(f"{path}\n")
                asked.flush()
            assert [said.readline() for _, said in openers] == ["ok\n", "ok\n"], round_
            runs = reopened(path, folded, migrations=NEWER)
            assert len([run_id for run_id in runs if run_id.startswith("by-")]) == 2, round_
            assert _shape(path) == AFTER, round_
    print(f"{ROUNDS} rounds of two processes that begin with {begin_with}: 0 failures")
