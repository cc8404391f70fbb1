"""`pullcord log`: what it says, how it exits, and that it changes nothing."""

import asyncio
import json
import shutil
from pathlib import Path
from typing import Any, NamedTuple

import apsw
import pytest

from pullcord.cli.commands.log import BROKEN
from pullcord.cli.main import main
from tests.stoplog.sample import made


class Said(NamedTuple):
    status: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


class Log:
    def __init__(self, store: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.store = store
        self._capsys = capsys

    def __call__(self, *words: str) -> Said:
        status = main(["log", *words, "--store", str(self.store)])
        said = self._capsys.readouterr()
        return Said(status, said.out, said.err)

    def edit(self, statement: str) -> None:
        db = apsw.Connection(str(self.store))
        db.execute(statement)
        db.close()


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("log") / "runs.db"
    asyncio.run(made(path))
    return path


@pytest.fixture
def log(original: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Log:
    for name in ("runs.db", "runs.db.anchor"):
        shutil.copy(original.with_name(name), tmp_path / name)
    return Log(tmp_path / "runs.db", capsys)


def test_a_stop_is_one_line(log: Log) -> None:
    lines = log("show").out.splitlines()
    assert len(lines) == 11  # of 17 entries
    assert "r1  pause asked by ana (page, session) “wrong path” · in flight: pay" in lines[0]
    assert "in effect after 250 ms (at a checkpoint) · pay done" in lines[0]
    assert "cancel asked by canary (guard) “a leak” · quarantine" in lines[3]
    assert "shown to ana (page, session): 3 records, 27 characters of say-model-1-1-0" in lines[3]
    assert "stop at a limit asked by limits (limit)" in lines[4]
    assert "requeue asked by w1 (shutdown)" in lines[5]
    assert "r6  (what it said was deleted" in lines[6]
    assert "forgot what was said in r6 by ops “her wish”" in lines[8]
    assert "kill switch engaged by ops “drill”" in lines[9]
    assert log("show", "r2").out.count("\n") == 1
    assert log("show", "r2c").out.count("(parent)") == 1


def test_a_log_that_holds_says_what_to_note_elsewhere(log: Log) -> None:
    done = log("verify")
    head = log("head").out.strip()
    assert (done.status, done.err) == (0, "")
    assert "The stop log holds: 17 entries" in done.out
    assert "The journal holds: 36 records of 7 runs" in done.out
    assert f"Note elsewhere, or compare: {head}" in done.out
    assert log.store.with_name("runs.db.anchor").read_text().endswith(f"{head}\n")
    report = log("verify", "r1", "--json").json
    assert (report["runs"], report["broken"]) == (1, [])
    assert log("head", "--json").json == {
        "n": 17,
        "hash": head.split()[2],
        "at_ms": int(head.split()[3]),
    }


def test_what_is_wrong_is_named_with_what_is_true_up_to_there(log: Log) -> None:
    log.edit("UPDATE stops SET at_ms = at_ms + 1 WHERE n = 4")
    log.edit("DELETE FROM records WHERE seq = 2 AND run = 1")
    done = log("verify")
    assert done.status == BROKEN
    assert "BROKEN: entry 4 of the stop log: its hash does not follow" in done.out
    assert "Up to entry 3 it is as it was written" in done.out
    assert "BROKEN: record 2 of run r1: record 3 stands in its place" in done.out
    assert "Keep the store and its anchor as evidence" in done.out
    broken = log("verify", "--json")
    assert broken.status == BROKEN
    assert [one["where"] for one in broken.json["broken"]] == ["stop log", "r1"]


def test_a_row_that_says_something_else_than_the_records_is_named(log: Log, tmp_path: Path) -> None:
    log.edit("UPDATE runs SET state = 'gone' WHERE run_id = 'r1'")
    for words in ((), ("r1",)):
        done = log("verify", *words)
        assert done.status == BROKEN
        assert "BROKEN: the row of run r1: it says state gone, and the records say" in done.out
        assert "Up to record 7 it is as it was written" in done.out
    assert log("show", "r1").status == 0
    assert log("export", "r1", "-o", str(tmp_path / "e.zip")).status == 0  # it is evidence


def test_records_without_a_run_are_named(log: Log) -> None:
    log.edit(
        "INSERT INTO runs SELECT 90, 'extra', 'churn', 'extra', NULL, 0, 'queued', 0, '', '', "
        "0, 0, 0"
    )
    log.edit(
        "INSERT INTO records SELECT 900 + seq, 91, seq, at_ms, epoch, payload, digest, hash, "
        "drift_ms, covered FROM records WHERE run = 1"
    )
    done = log("verify")
    assert done.status == BROKEN
    assert "BROKEN: record 1 of run extra: it has no records" in done.out
    assert "BROKEN: the row of run number 91: it has records, and what they are" in done.out


def test_a_copy_of_the_anchor_kept_elsewhere_counts_and_none_is_said(
    log: Log, tmp_path: Path
) -> None:
    anchor = log.store.with_name("runs.db.anchor")
    anchor.rename(tmp_path / "elsewhere")
    assert "There is no anchor" in log("verify").out
    log.edit("DELETE FROM stops WHERE n > 15")
    assert log("verify").status == 0  # nothing is left that could tell
    done = log("verify", "--anchor", str(tmp_path / "elsewhere"))
    assert done.status == BROKEN
    assert "the stop log ends with 15: what came behind is gone" in done.out
    assert log("verify", "--anchor", str(tmp_path / "nowhere")).status == 2


def test_a_store_that_is_broken_is_exported_all_the_same(log: Log, tmp_path: Path) -> None:
    log.edit("UPDATE records SET payload = x'ff' WHERE seq = 4 AND run = 1")
    done = log("export", "r1", "-o", str(tmp_path / "e.zip"), "--json")
    assert done.status == 0
    shutil.unpack_archive(tmp_path / "e.zip", tmp_path / "e")
    assert "NOT READABLE FROM HERE ON" in (tmp_path / "e" / "transcript.txt").read_text()


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("export",), "Evidence is of one run"),
        (("export", "r1", "-o", "there"), "is there already"),
        (("export", "r1", "-o", "no/folder/e.zip"), "cannot be written"),
        (("show", "nobody"), "nobody"),
        (("verify", "r"), "may be any of r1, r2, r2c"),
    ],
)
def test_what_cannot_be_done_is_said_and_leaves_nothing(
    words: tuple[str, ...],
    says: str,
    log: Log,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there").write_text("mine")
    done = log(*words)
    assert (done.status, done.out) == (2, "")
    assert says in done.err
    assert (tmp_path / "there").read_text() == "mine"


def test_it_only_reads_also_where_nothing_can_be_written(log: Log) -> None:
    log.edit("PRAGMA wal_checkpoint(TRUNCATE)")
    before = log.store.read_bytes()
    log("show")
    assert log("verify").status == 0
    log("head")
    assert log.store.read_bytes() == before
    assert not log.store.with_name("runs.db-side").exists()


@pytest.mark.parametrize("version", ["0.1.0", "0.2.0"])
def test_a_store_from_before_the_log_says_how_it_gets_one(
    version: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stored = next((Path(__file__).parent.parent / "corpus" / version).glob("*.db"))
    shutil.copy(stored, tmp_path / "old.db")
    done = Log(tmp_path / "old.db", capsys)("verify")
    assert done.status == 2
    assert "had no stop log" in done.err
