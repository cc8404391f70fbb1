"""What is forgotten while the file is written anew is in no rewritten page: it stays noted."""

from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from pullcord.journal.sqlite.backend import SqliteStore


def test_what_somebody_forgets_meanwhile_stays_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = SqliteStore(tmp_path / "runs.db")
    other = apsw.Connection(str(tmp_path / "runs.db"))
    other.execute("INSERT INTO traces VALUES (1)")
    in_turn, turns = SqliteStore._in_turn, list[int]()  # pyright: ignore[reportPrivateUsage]

    def meddled(self: SqliteStore, work: Callable[[], None]) -> None:
        in_turn(self, work)
        turns.append(len(turns))
        if len(turns) == 1:  # the file was just written anew
            other.execute("INSERT INTO traces VALUES (2)")

    monkeypatch.setattr(SqliteStore, "_in_turn", meddled)
    store.scrub()
    assert other.execute("SELECT run FROM traces").fetchall() == [(2,)]
    other.close()
    store.close()
