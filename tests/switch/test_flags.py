"""The files themselves: any name, whatever is in them, and what counts as raised."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pullcord.killswitch.flags import Flags, Scope, new_note

NAMES = ["churn", "a/b", "..", "a.b%2F", "Ünïcode ✂", "x" * 300, "é" * 200, "%~", " ", "a\nb"]


@pytest.mark.parametrize("kind", ["agent", "thread"])
@pytest.mark.parametrize("name", NAMES)
def test_any_name_has_a_switch_of_its_own(tmp_path: Path, kind: str, name: str) -> None:
    flags = Flags(str(tmp_path / "runs.db"))
    assert flags.raise_it(Scope(kind, name), new_note(by="ana", reason="r", via="v"))
    assert not flags.raise_it(Scope(kind, name), new_note(by="bo", reason="", via=""))
    [raised] = flags.raised()
    whole = name.replace("\n", "") if len(name.encode()) > 240 else name
    assert (raised.scope, raised.by, raised.reason, raised.via) == (
        Scope(kind, whole), "ana", "r", "v",
    )  # fmt: skip
    covered = flags.look().over((name, "t") if kind == "agent" else ("a", name))
    assert covered is not None
    assert covered.id == raised.id
    assert flags.over((name, "t") if kind == "agent" else ("a", name)) == Scope(kind, name)
    assert not flags.look().over(("another", "other"))
    assert not flags.over(("another", "other"))
    assert {path.parent.name for path in tmp_path.rglob("*") if path.is_file()} == {
        "runs.db.kill-switches"
    }
    assert flags.lower(Scope(kind, name))
    assert not flags.lower(Scope(kind, name))
    assert flags.raised() == []


@given(st.binary(max_size=300))
def test_whatever_is_in_a_flag_it_counts(
    tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    folder = tmp_path_factory.mktemp("flag")
    (folder / "runs.db.kill-switch").write_bytes(data)
    flags = Flags(str(folder / "runs.db"))
    refusal = flags.refusal(("agent", "thread"))
    assert refusal == "the kill switch is engaged"
    told = flags.look().told(f"Cannot start: {refusal}. Nothing was changed.")
    assert told.startswith("Cannot start: the kill switch is engaged (by ")
    assert told.endswith("). Nothing was changed.")
    assert told.isprintable()


def test_what_stands_in_one_can_be_read_by_people(tmp_path: Path) -> None:
    flags = Flags(str(tmp_path / "runs.db"))
    flags.raise_it(Scope(), new_note(by="ana", reason="it went\nwild: see #7", via="terminal"))
    text = (tmp_path / "runs.db.kill-switch").read_text()
    assert "by: ana\nreason: it wentwild: see #7\nvia: terminal\n" in text


def test_no_store_no_switch() -> None:
    none = Flags("")
    assert (bool(none), none.refusal(("a", "t")), none.raised()) == (False, "", [])


def test_a_folder_that_cannot_be_looked_at_counts_for_everybody(tmp_path: Path) -> None:
    folder = tmp_path / "runs.db.kill-switches"
    folder.symlink_to(folder.name)  # around and around
    flags = Flags(str(tmp_path / "runs.db"))
    assert flags.refusal(("any", "other"))
    assert flags.raised()
