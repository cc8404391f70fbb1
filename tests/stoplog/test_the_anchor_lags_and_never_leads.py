"""The head of the log is noted outside the database: behind the commit, and never in its way."""

import logging
from pathlib import Path

import pytest

from pullcord.core.commands import Cancel, Pause
from pullcord.core.events import Created
from pullcord.core.stops import SwitchEngaged
from pullcord.journal.clock import SystemClock
from pullcord.journal.evidence.anchor import ANCHOR_ENV, AnchorFile, anchor_of
from pullcord.journal.evidence.verify import VerifyReport, verify
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Ledger
from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.journal.sqlite.read_only import looking_at
from pullcord.journal.store import Transaction


async def stopped(path: Path, *names: str) -> None:
    async with Journal.open(path) as journal:
        for name in names:
            created = Created(agent="churn", thread=name)
            await journal.append(Append(run_id=name, events=[created], expected_seq=0))
            await journal.command(name, Pause(by="ana"))


def checked(path: Path) -> VerifyReport:
    anchor = AnchorFile(anchor_of(path))
    with looking_at(path) as view:
        return verify(view, anchor)


async def test_each_commit_with_a_stop_is_noted_and_no_other(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with Journal.open(path) as journal:
        created = Created(agent="churn", thread="t")
        await journal.append(Append(run_id="r1", events=[created], expected_seq=0))
        assert not anchor_of(path).exists()
        await journal.command("r1", Pause(by="ana"))  # asked for and in effect: one commit
        await journal.command("r1", Cancel(by="ana"))
    assert [line.split()[1] for line in anchor_of(path).read_text().splitlines()] == ["2", "4"]
    report = checked(path)
    assert (report.stops, report.lines, report.newest, report.broken) == (4, 2, 4, [])


def test_what_is_rolled_back_was_never_noted(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "runs.db")

    def fails(tx: Transaction) -> None:
        Ledger(SystemClock()).note(tx, SwitchEngaged(by="ops"))
        raise ValueError("too late")

    with pytest.raises(ValueError, match="too late"):
        store.write(fails)
    store.write(lambda tx: tx.stop_head())
    store.close()
    assert not anchor_of(tmp_path / "runs.db").exists()


async def test_an_anchor_that_cannot_be_written_is_said_once_and_stops_no_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    path, place = tmp_path / "runs.db", tmp_path / "not" / "there" / "anchor"
    monkeypatch.setenv(ANCHOR_ENV, str(place))
    async with Journal.open(path) as journal:
        for name in ("r1", "r2"):
            created = Created(agent="churn", thread=name)
            await journal.append(Append(run_id=name, events=[created], expected_seq=0))
            assert (await journal.command(name, Pause(by="ana"))).holds
        said = [r.getMessage() for r in caplog.records if r.levelno == logging.WARNING]
        assert len(said) == 1
        assert "could not be noted" in said[0]
        place.parent.mkdir(parents=True)
        await journal.command("r1", Cancel(by="ana"))
    report = checked(path)
    assert (report.lines, report.newest, report.broken) == (1, 6, [])  # it covers all before it


async def test_it_may_be_elsewhere_and_a_folder_holds_one_for_each_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "anchors"
    folder.mkdir()
    monkeypatch.setenv(ANCHOR_ENV, str(folder))
    await stopped(tmp_path / "one.db", "r1")
    await stopped(tmp_path / "two.db", "r1", "r2")
    assert sorted(file.name for file in folder.iterdir()) == ["one.db.anchor", "two.db.anchor"]
    assert not checked(tmp_path / "one.db").broken
    assert not checked(tmp_path / "two.db").broken


async def test_an_older_copy_put_in_the_place_of_a_store_is_found(tmp_path: Path) -> None:
    path, copy = tmp_path / "runs.db", tmp_path / "older"
    await stopped(path, "r1")
    copy.write_bytes(path.read_bytes())
    await stopped(path, "r2")
    path.write_bytes(copy.read_bytes())
    [broken] = checked(path).broken
    assert (broken.where, broken.at) == ("anchor", 2)
    assert "ends with 2" in broken.why
    await stopped(path, "r3")  # and stays found when the log goes on
    assert [broken.where for broken in checked(path).broken] == ["anchor"]


async def test_a_line_that_was_torn_spoils_no_other(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    await stopped(path, "r1")
    with anchor_of(path).open("ab") as file:
        file.write(b"stop 4 00")  # killed in the middle of it, or the disk was full
    await stopped(path, "r2", "r3")
    lines = anchor_of(path).read_text().splitlines()
    assert [line.split()[1] for line in lines] == ["2", "4", "4", "6"]
    entry = lines[2][: len("stop 4 00")]
    text = anchor_of(path).read_text().replace("stop 4 00\n", f"{entry}\n")
    anchor_of(path).write_text(text)  # as it would have been torn
    report = checked(path)
    assert (report.lines, report.torn, report.newest, report.broken) == (4, 1, 6, [])
