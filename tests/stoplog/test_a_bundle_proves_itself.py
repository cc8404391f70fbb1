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
from pullcord.journal.evidence.stoplog import cover
from tests.stoplog.sample import CANARY, ENDS, made

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


def rows_of(path: Path) -> list[Any]:
    return [json.loads(line) for line in path.read_bytes().split(b"\n") if line]


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


@pytest.mark.parametrize("run", ["r1", "r2", "r3", "r4", "r6"])
def test_it_verifies_with_nothing_but_python(run: str, store: Path, tmp_path: Path) -> None:
    out = unpacked(store, tmp_path, run)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "verify.py"], cwd=out, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "17 entries of the stop log follow from one another" in done.stdout
    assert "lines noted outside the database agree; the newest names entry 17" in done.stdout
    assert len((out / "verify.py").read_text().splitlines()) <= 185


def test_it_has_what_was_quarantined_and_nothing_of_other_runs(folder: Path) -> None:
    whole = b"".join(path.read_bytes() for path in files(folder))
    assert CANARY.encode() in whole
    assert b"wrong path" not in whole  # said of r1
    assert b"too expensive" not in whole  # said of r2
    rows = rows_of(folder / "stops.jsonl")
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


def test_no_sign_that_an_agent_says_makes_its_evidence_unreadable(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for run, name in (("r3", R3), ("r2", STOPS)):
        out = unpacked(store, tmp_path, run)
        assert ENDS.encode("utf-8").split(b"\x1c")[0] in (out / name).read_bytes()
        assert Check(out)(monkeypatch), run


@pytest.mark.parametrize("command", [("-I", "verify.py"), ("verify.py",)])
@pytest.mark.parametrize("name", ["json", "hashlib", "pathlib", "typing", "__future__"])
def test_nothing_that_lies_beside_it_is_imported(
    command: tuple[str, ...], name: str, folder: Path
) -> None:
    (folder / f"{name}.py").write_text("print('All is well.')\nraise SystemExit(0)\n")
    done = subprocess.run([sys.executable, *command], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stdout.startswith(f"BROKEN: '{name}.py' was not exported")


@pytest.mark.parametrize(
    "name", ["ADDENDUM.txt", "records/r9.jsonl", "records/more/of/it", "__pycache__/json.pyc"]
)
def test_a_file_that_was_not_exported_is_found(
    name: str, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    check = Check(folder)
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text("the operator confessed")
    assert not check(monkeypatch)
    (folder / name).unlink()
    assert check(monkeypatch)
    (folder / name).symlink_to(tmp_path)  # a folder elsewhere
    assert not check(monkeypatch)


def test_only_the_line_of_the_bundle_vouches_for_what_is_in_it_and_that_is_said(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whose a covered entry is, no hash shows: the stops of a run can be passed off as another's,
    if its records are cut off before the first. The line of the bundle is then another one."""
    check = Check(folder)
    assert check(monkeypatch)
    log, bundle = capsys.readouterr().out.splitlines()[-2:]
    lines_of(STOPS, _covered)(folder)
    lines_of(R3, lambda rows: rows.__delitem__(slice(3, None)))(folder)
    about: Any = json.loads((folder / "bundle.json").read_text())
    about["heads"]["r3"] = {"seq": 3, "hash": rows_of(folder / R3)[-1]["hash"]}
    (folder / "bundle.json").write_text(json.dumps(about))
    summed(folder)
    assert check(monkeypatch)
    said = capsys.readouterr().out
    assert said.splitlines()[-2] == log
    assert said.splitlines()[-1] != bundle
    assert "for what is in here only the line 'bundle' vouches" in said


def _covered(rows: list[Any]) -> None:
    for row in rows:
        if row.get("run"):
            digest = bytes.fromhex(row.pop("digest"))
            row["cover"] = cover(row.pop("run"), digest).hex()
            row.pop("payload")


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
        rows = rows_of(folder / name)
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
    for row in rows_of(folder / R3):
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
R6 = "records/r6.jsonl"
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


FIRST = '{"type":"created","agent":"churn","thread":"r6"}'
LEFT: dict[str, Callable[[Path], None]] = {
    "the act gone": lines_of(R6, lambda rows: rows[-1].update(payload=None)),
    "a payload still there": lines_of(R6, lambda rows: rows[0].update(payload=FIRST)),
    "the entry gone": lines_of(STOPS, lambda rows: rows[14].update(payload=None)),
}


@pytest.mark.parametrize("name", LEFT)
def test_of_a_forgotten_run_the_last_record_is_left_and_nothing_else(
    name: str, store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = unpacked(store, tmp_path, "r6")
    assert (
        sha256(FIRST.encode()).hexdigest() == rows_of(out / R6)[0]["digest"]
    )  # it is the true one
    check = Check(out)
    LEFT[name](out)
    summed(out)
    assert not check(monkeypatch)
