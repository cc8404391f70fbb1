"""An evidence bundle is checked with nothing but Python, and whatever is changed in it is found."""

import asyncio
import json
import os
import runpy
import subprocess
import sys
import zipfile
from collections.abc import Callable
from hashlib import sha256
from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from pullcord.cli.main import main
from pullcord.journal.chain import GENESIS, link
from tests.stoplog.sample import CANARY, made

pytestmark = pytest.mark.campaign
FULL = os.environ.get("PULLCORD_CAMPAIGN") == "full"
EVERY = 1 if FULL else 211


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("store") / "runs.db"
    asyncio.run(made(path))
    return path


@pytest.fixture
def folder(store: Path, tmp_path: Path) -> Path:
    return unpacked(store, tmp_path, "r3")


def unpacked(store: Path, tmp_path: Path, run: str) -> Path:
    bundle, out = tmp_path / f"{run}.zip", tmp_path / f"bundle-{run}"
    assert main(["log", "export", run, "--store", str(store), "-o", str(bundle)]) == 0
    zipfile.ZipFile(bundle).extractall(out)
    return out


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


class Check:
    """The bundle's own check, without a process for each time."""

    def __init__(self, folder: Path) -> None:
        self._main: Callable[[], int] = runpy.run_path(str(folder / "verify.py"))["main"]
        self._folder = folder

    def __call__(self, monkeypatch: pytest.MonkeyPatch) -> bool:
        """Whether it finds nothing wrong."""
        monkeypatch.setattr(sys, "argv", ["verify.py", str(self._folder)])
        return self._main() == 0


@pytest.mark.parametrize("run", ["r1", "r2", "r3", "r4"])
def test_it_verifies_with_nothing_but_python(run: str, store: Path, tmp_path: Path) -> None:
    out = unpacked(store, tmp_path, run)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "verify.py"], cwd=out, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "17 entries of the stop log follow from one another" in done.stdout
    assert "lines noted outside the database agree; the newest names entry 17" in done.stdout
    assert len((out / "verify.py").read_text().splitlines()) <= 150


def test_it_has_what_was_quarantined_and_nothing_of_other_runs(folder: Path) -> None:
    whole = b"".join(path.read_bytes() for path in files(folder))
    assert CANARY.encode() in whole
    assert b"wrong path" not in whole  # said of r1
    assert b"too expensive" not in whole  # said of r2
    rows = [json.loads(line) for line in (folder / "stops.jsonl").read_text().splitlines()]
    assert {row.get("run", "hidden") for row in rows} == {"r3", "", "hidden"}


def test_a_parent_brings_its_children(store: Path, tmp_path: Path) -> None:
    out = unpacked(store, tmp_path, "r2")
    assert [path.name for path in files(out / "records")] == ["r2.jsonl", "r2c.jsonl"]
    assert "Run r2c" in (out / "transcript.txt").read_text()


def test_the_same_run_makes_the_same_bytes(store: Path, tmp_path: Path) -> None:
    """But for the time of the export, and what follows from it."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    one, other = unpacked(store, tmp_path / "a", "r3"), unpacked(store, tmp_path / "b", "r3")
    names = [str(path.relative_to(one)) for path in files(one)]
    same = [n for n in names if (one / n).read_bytes() == (other / n).read_bytes()]
    assert set(names) - set(same) <= {"SUMS", "bundle.json", "transcript.txt"}


def test_every_byte_that_is_changed_is_found(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check, tried = Check(folder), 0
    assert check(monkeypatch)
    for path in files(folder):
        whole = path.read_bytes()
        for at in range(len(path.name) % EVERY, len(whole), EVERY):
            path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x01]) + whole[at + 1 :])
            assert not check(monkeypatch), (path.name, at)
            tried += 1
        path.write_bytes(whole)
    assert check(monkeypatch)
    print(f"{tried:,} single bytes changed in {len(files(folder))} files, all found")


def test_every_file_that_is_deleted_or_swapped_is_found(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Check(folder)
    for path in files(folder):
        path.rename(folder / "away")
        assert not check(monkeypatch), path
        (folder / "away").rename(path)
    for one, other in combinations(files(folder), 2):
        kept = one.read_bytes(), other.read_bytes()
        one.write_bytes(kept[1])
        other.write_bytes(kept[0])
        assert not check(monkeypatch), (one, other)
        one.write_bytes(kept[0])
        other.write_bytes(kept[1])


def summed(folder: Path) -> None:
    """Make the sums right again: what somebody would do who means it."""
    names = [path for path in files(folder) if path.name != "SUMS"]
    body = "".join(
        f"{sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in names
    )
    (folder / "SUMS").write_text(f"{body}{sha256(body.encode()).hexdigest()}  SUMS\n")


def lines_of(name: str, change: Callable[[list[Any]], object]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        rows: list[Any] = [json.loads(line) for line in (folder / name).read_text().splitlines()]
        change(rows)
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))

    return edit


def anchor_of(change: Callable[[str], str]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        path = folder / "anchor.txt"
        path.write_text(change(path.read_text()))

    return edit


def forge(folder: Path) -> None:
    """Make a whole new chain of records that ends where the bundle says."""
    before, rows = GENESIS, list[Any]()
    for line in (folder / R3).read_text().splitlines():
        row: Any = json.loads(line)
        payload = row["payload"].replace("canary", "parrot")
        digest = sha256(payload.encode()).digest()
        place = (row["seq"], row["at_ms"], row["epoch"])
        before = link(before, "r3", *place, digest, row["drift_ms"])
        rows.append({**row, "payload": payload, "digest": digest.hex(), "hash": before.hex()})
    (folder / R3).write_text("".join(json.dumps(row) + "\n" for row in rows))
    about: Any = json.loads((folder / "bundle.json").read_text())
    about["heads"]["r3"]["hash"] = before.hex()
    (folder / "bundle.json").write_text(json.dumps(about))


R3 = "records/r3.jsonl"
STOPS = "stops.jsonl"
MEANT: dict[str, Callable[[Path], None]] = {
    "a record deleted": lines_of(R3, lambda rows: rows.pop(2)),
    "the last record deleted": lines_of(R3, lambda rows: rows.pop()),
    "two records swapped": lines_of(R3, lambda rows: rows.insert(1, rows.pop(2))),
    "what a record says changed": lines_of(R3, lambda rows: rows[4].update(payload="{}")),
    "what a record said gone": lines_of(R3, lambda rows: rows[4].update(payload=None)),
    "the time of a record changed": lines_of(R3, lambda rows: rows[4].update(at_ms=1)),
    "an entry deleted": lines_of(STOPS, lambda rows: rows.pop(2)),
    "the end of the log cut off": lines_of(STOPS, lambda rows: rows.pop()),
    "two entries swapped": lines_of(STOPS, lambda rows: rows.insert(3, rows.pop(4))),
    "an entry of another run changed": lines_of(STOPS, lambda rows: rows[0].update(cover="00")),
    "the time of an entry changed": lines_of(STOPS, lambda rows: rows[6].update(at_ms=1)),
    "all records written anew": forge,
    "a line of the anchor changed": anchor_of(lambda text: text.replace("a", "b", 1)),
    "the time in the anchor changed": anchor_of(lambda text: text.replace(" 1", " 2", 1)),
}


@pytest.mark.parametrize("name", MEANT)
def test_what_is_changed_on_purpose_is_found_although_the_sums_are_right(
    name: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Check(folder)
    MEANT[name](folder)
    summed(folder)
    assert not check(monkeypatch)
