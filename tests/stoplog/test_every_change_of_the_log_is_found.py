"""Promise: whatever is changed, deleted, swapped or cut off in the stop log or in its anchor is
found, and named; and so is a record of a run that the log is about."""

import asyncio
import os
from collections.abc import Generator, Iterator
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any, cast

import apsw
import msgspec
import pytest

from pullcord.journal.evidence.anchor import AnchorFile, anchor_of
from pullcord.journal.evidence.stoplog import START, cover, next_hash
from pullcord.journal.evidence.verify import VerifyReport, verify
from pullcord.journal.journal import Journal
from pullcord.journal.memory_store import MemoryStore
from pullcord.journal.sqlite.rows import Connection
from pullcord.testing import ManualClock
from tests.stoplog.sample import fill, made

pytestmark = pytest.mark.campaign
FULL = os.environ.get("PULLCORD_CAMPAIGN") == "full"
EVERY = 1 if FULL else 17  # of the single bytes, one in so many; each has a turn in `make soak`
FLIPS = (0x01, 0x80, 0xFF) if FULL else (0x01,)
COLUMNS = ("n", "run", "at_ms", "payload", "digest", "hash")


class Sample:
    """A log, and a place to change it in and take that back."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.db = apsw.Connection(str(path))
        self.anchor = anchor_of(path)
        found = self.db.execute(f"SELECT {', '.join(COLUMNS)} FROM stops ORDER BY n")
        self.rows = cast("list[tuple[Any, ...]]", found.fetchall())

    def checked(self) -> VerifyReport:
        return verify(Connection(self.db), AnchorFile(self.anchor))

    def says_so(self, statement: str, bindings: tuple[object, ...] = ()) -> bool:
        """Whether this change is found; it is taken back."""
        self.db.execute("BEGIN")
        try:
            self.db.execute(statement, bindings)
            return bool(self.checked().broken)
        except (ValueError, TypeError):
            return True  # it cannot even be read
        finally:
            self.db.execute("ROLLBACK")


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Generator[Sample]:
    path = tmp_path_factory.mktemp("log") / "runs.db"
    asyncio.run(made(path))
    found = Sample(path)
    assert not found.checked().broken
    assert len(found.rows) >= 15
    yield found
    found.db.close()


def changed(value: object) -> Iterator[object]:
    """The value with each of its bytes flipped, one after the other."""
    match value:
        case bytes():
            for at in range(len(value)):
                for flip in FLIPS:
                    yield value[:at] + bytes([value[at] ^ flip]) + value[at + 1 :]
        case str():
            for at in range(len(value)):
                yield value[:at] + chr(ord(value[at]) ^ 0x01) + value[at + 1 :]
        case int():
            for bit in range(0, 63, 8):
                yield value ^ (1 << bit)
        case None:
            yield b"{}"  # what it said was deleted, and something else is said
        case _:
            raise AssertionError(value)


def test_every_byte_of_every_entry_that_is_changed_is_found(sample: Sample) -> None:
    tried = 0
    for row in sample.rows:
        for column, value in zip(COLUMNS, row, strict=True):
            for number, other in enumerate(changed(value)):
                if (number + row[0]) % EVERY == 0 or not isinstance(value, bytes):
                    tried += 1
                    statement = f"UPDATE stops SET {column} = ? WHERE n = ?"
                    try:
                        assert sample.says_so(statement, (other, row[0])), (row[0], column, number)
                    except apsw.ConstraintError:
                        assert column == "n"  # the place is taken: it cannot be written at all
    print(f"{tried:,} single bytes changed in {len(sample.rows)} entries, all found")


def test_every_entry_that_is_deleted_is_found(sample: Sample) -> None:
    for row in sample.rows:
        assert sample.says_so("DELETE FROM stops WHERE n = ?", (row[0],)), row[0]
        if row[3] is not None:  # else the log itself says that it was forgotten
            assert sample.says_so("UPDATE stops SET payload = NULL WHERE n = ?", (row[0],)), row[0]
        renumber = "DELETE FROM stops WHERE n = {0}; UPDATE stops SET n = n - 1 WHERE n > {0}"
        assert sample.says_so(renumber.format(row[0])), row[0]


def test_every_two_entries_that_are_swapped_are_found(sample: Sample) -> None:
    for one, other in combinations([row[0] for row in sample.rows], 2):
        places = "UPDATE stops SET n = -1 WHERE n = {0}; UPDATE stops SET n = {0} WHERE n = {1}; "
        places += "UPDATE stops SET n = {1} WHERE n = -1"
        assert sample.says_so(places.format(one, other)), (one, other)
        words = "UPDATE stops SET (payload, digest, hash, run, at_ms) = (SELECT payload, digest, "
        words += "hash, run, at_ms FROM stops s WHERE s.n = {0} + {1} - stops.n) "
        words += "WHERE n IN ({0}, {1})"
        assert sample.says_so(words.format(one, other)), (one, other)


def test_every_end_that_is_cut_off_is_found_by_the_anchor(sample: Sample) -> None:
    for row in sample.rows:
        assert sample.says_so("DELETE FROM stops WHERE n >= ?", (row[0],)), row[0]


def test_a_log_that_is_written_anew_is_found_by_the_anchor_alone(sample: Sample) -> None:
    """Whoever can make a whole new chain cannot make it end in the hash that was noted."""
    sample.db.execute("BEGIN")
    try:
        before = START
        for n, run, at_ms, payload, digest, _ in sample.rows:
            forged = payload and payload.replace(b'"ana"', b'"bob"')
            digest = sha256(forged).digest() if forged else digest
            before = next_hash(before, n, at_ms, cover(run, digest))
            row = "UPDATE stops SET payload = ?, digest = ?, hash = ? WHERE n = ?"
            sample.db.execute(row, (forged, digest, before, n))
        [broken] = sample.checked().broken
    finally:
        sample.db.execute("ROLLBACK")
    assert broken.where == "anchor"


def test_every_byte_of_the_anchor_that_is_changed_is_found(sample: Sample) -> None:
    whole, tried = sample.anchor.read_bytes(), 0
    try:
        for at in range(len(whole)):
            for flip in (*FLIPS, whole[at] ^ ord("\n"), whole[at] ^ ord(" ")):
                if flip and (FULL or at % 23 == 0):
                    tried += 1
                    bad = whole[:at] + bytes([whole[at] ^ flip]) + whole[at + 1 :]
                    sample.anchor.write_bytes(bad)
                    assert sample.checked().broken, (at, flip)
    finally:
        sample.anchor.write_bytes(whole)
    print(f"{tried:,} single bytes changed in an anchor of {len(whole):,}, all found")


def test_an_anchor_that_lags_or_was_torn_is_no_sign_of_anything(sample: Sample) -> None:
    whole = sample.anchor.read_bytes()
    lines = whole.splitlines(keepends=True)
    try:
        for kept in range(len(lines) + 1):
            sample.anchor.write_bytes(b"".join(lines[:kept]))
            report = sample.checked()
            assert (report.broken, report.lines, report.torn) == ([], kept, 0)
        for length in range(len(lines[-1]) - 1):  # killed, or a full disk, within the last line
            torn = b"".join(lines[:-1]) + lines[-1][: length + 1]
            sample.anchor.write_bytes(torn)
            report = sample.checked()
            assert (report.broken, report.torn) == ([], 1), torn[-100:]
            sample.anchor.write_bytes(torn + b"\n" + lines[-1])  # and the next one made it good
            report = sample.checked()
            last = length + 2 == len(lines[-1])
            assert (report.broken, report.torn) == ([], 0 if last else 1)
    finally:
        sample.anchor.write_bytes(whole)


@pytest.mark.parametrize(
    "edit",
    [
        "UPDATE records SET payload = CAST(replace(payload, 'ana', 'bob') AS BLOB) WHERE run = 1",
        "UPDATE records SET at_ms = at_ms + 1 WHERE run = 2 AND seq = 2",
        "UPDATE records SET payload = NULL, digest = zeroblob(32) WHERE run = 1 AND seq = 3",
        "UPDATE records SET digest = zeroblob(32) WHERE run = 1 AND seq = 3",
        "DELETE FROM records WHERE run = 1 AND seq = 2",
        "DELETE FROM records WHERE run = 1",
        "DELETE FROM records WHERE run = 1 AND seq >= 4",  # the end of it, with the stop
        "DELETE FROM records WHERE run = 3; DELETE FROM runs WHERE num = 3",
        "UPDATE runs SET run_id = 'r9' WHERE run_id = 'r1'",
    ],
)
def test_a_record_that_is_changed_is_found(sample: Sample, edit: str) -> None:
    assert sample.says_so(edit)


def _digest(*said: Any) -> bytes:
    return sha256(said[0]).digest()


def test_words_may_be_gone_if_the_log_says_that_they_were_deleted(sample: Sample) -> None:
    """Retention: the chains still hold. Of any other run it is a deletion like another."""
    blank = "SELECT count(*) FROM records WHERE payload IS NULL AND covered IS NOT NULL"
    assert sample.db.execute(blank).fetchall() == [(4,)]  # of r6, and nothing is broken
    for run in ("r1", "r5"):
        gone = "UPDATE stops SET payload = NULL WHERE run = ?"
        assert sample.says_so(gone, (run,))
        sample.db.create_scalar_function("digest", _digest, 1)
        gone = "UPDATE records SET covered = digest(payload), payload = NULL "
        gone += "WHERE run = (SELECT num FROM runs WHERE run_id = ?)"
        assert sample.says_so(gone, (run,))


R6 = "run = (SELECT num FROM runs WHERE run_id = 'r6')"
LEFT = "covered = digest(payload), payload = NULL"


@pytest.mark.parametrize(
    "edit",
    [
        f"UPDATE records SET {LEFT} WHERE {R6} AND seq = 5",  # the act itself, with its digest
        f"UPDATE records SET {LEFT} WHERE {R6} AND seq = 5; "
        "UPDATE stops SET payload = NULL WHERE run = 'r6'",  # and what the log says of it
        f"DELETE FROM records WHERE {R6} AND seq = 5",
        f"UPDATE records SET payload = x'7b7d' WHERE {R6} AND seq = 2",
        "UPDATE runs SET state = 'completed' WHERE run_id = 'r6'",
        "UPDATE runs SET thread = 'r1' WHERE run_id = 'r6'",
    ],
)
def test_a_forgotten_run_has_its_last_record_and_that_is_the_one_in_the_log(
    sample: Sample, edit: str
) -> None:
    sample.db.create_scalar_function("digest", _digest, 1)
    assert sample.says_so(edit)


def test_a_payload_that_was_to_be_deleted_and_is_there_is_found(sample: Sample) -> None:
    """Also the true one: somebody has kept it."""
    first = b'{"type":"created","agent":"churn","thread":"r6"}'
    back = f"UPDATE records SET payload = ?, covered = NULL WHERE {R6} AND seq = 1"
    sample.db.execute("BEGIN")
    try:
        sample.db.execute(back, (first,))
        [broken] = sample.checked().broken
    finally:
        sample.db.execute("ROLLBACK")
    assert (broken.where, broken.at) == ("r6", 1)
    assert "its payload was deleted, and it is there" in broken.why


@pytest.mark.parametrize(
    "edit",
    [
        "state = 'gone'",
        "state = 'completed'",
        "agent = 'nice'",
        "thread = 'other'",
        "parent = 'r1'",
        "epoch = epoch + 1",
    ],
)
def test_a_row_that_does_not_follow_from_the_records_is_found(sample: Sample, edit: str) -> None:
    """Runs are found by it, by the kill switch too, and no chain covers it."""
    for number in range(1, 8):
        assert sample.says_so(f"UPDATE runs SET {edit} WHERE num = {number}"), number


def test_no_row_hides_a_record_that_was_changed(sample: Sample) -> None:
    changed = "UPDATE records SET at_ms = at_ms + 1 WHERE run = 5; "  # of r4, behind its stop
    for row in (
        "UPDATE runs SET state = 'gone' WHERE num = 5",
        "UPDATE runs SET num = -5 WHERE num = 5; UPDATE records SET run = -5 WHERE run = 5",
        "DELETE FROM runs WHERE num = 5",
    ):
        sample.db.execute("BEGIN")
        try:
            sample.db.execute(changed + row)
            assert {one.where for one in sample.checked().broken} & {"r4", "number 5"}, row
        finally:
            sample.db.execute("ROLLBACK")


async def test_a_store_in_memory_is_checked_like_a_file(tmp_path: Path) -> None:
    store, clock = MemoryStore(), ManualClock()
    async with Journal(store, clock=clock) as journal:
        await fill(journal, clock)
        report = store.read(lambda view: verify(view, AnchorFile(tmp_path / "none")))
        assert (report.broken, report.runs, report.stops, report.forgotten) == ([], 7, 17, 6)
        [head] = [head for head in await journal.runs() if head.run_id == "r1"]
        other = msgspec.structs.replace(head, agent="nice")
        store.write(lambda tx: tx.put_head(other))
        [broken] = store.read(lambda view: verify(view, AnchorFile(tmp_path / "none"))).broken
        assert (broken.where, broken.at, broken.holds) == ("r1", 0, head.seq)


def test_records_of_no_run_are_found(sample: Sample) -> None:
    stray = "INSERT INTO records SELECT 900 + seq, {0}, seq, at_ms, epoch, payload, digest, hash, "
    stray += "drift_ms, covered FROM records WHERE run = 1"
    for number in (-1, 0, 8, 2**62):
        assert sample.says_so(stray.format(number)), number


def test_it_names_the_first_that_is_wrong_and_what_is_true_up_to_there(sample: Sample) -> None:
    sample.db.execute("BEGIN")
    try:
        sample.db.execute("UPDATE stops SET at_ms = at_ms + 1 WHERE n IN (5, 9)")
        [broken] = sample.checked().broken
    finally:
        sample.db.execute("ROLLBACK")
    assert (broken.where, broken.at, broken.holds) == ("stop log", 5, 4)
