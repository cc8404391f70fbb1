"""Many runs wait for somebody to drive them: the kill switch does not keep anybody waiting, and
nothing starts behind its release."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw
import pytest

import pullcord.cli.commands.kill_switch_records as records
from pullcord.core.events import Created
from pullcord.core.states import RunState
from pullcord.core.values import NULL
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append
from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.journal.store import Transaction
from pullcord.killswitch.flags import Flags, Scope, new_note
from pullcord.killswitch.pulled import Pulled

MANY = 1000


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "runs.db"

    async def queue() -> None:
        async with Journal.open(path) as journal:
            for at in range(0, MANY, 250):
                born = [
                    Append(
                        run_id=f"q{number}",
                        events=[Created(agent="a", thread=f"q{number}", input=NULL)],
                        expected_seq=0,
                    )
                    for number in range(at, at + 250)
                ]
                await asyncio.gather(*(journal.append(one) for one in born))

    asyncio.run(queue())
    return path


def states(path: Path) -> dict[RunState, int]:
    store = SqliteStore(path)
    try:
        found = {
            state: len(
                store.read(
                    lambda v, s=state: v.heads(states=[s], thread=None, before=None, limit=9999)
                )
            )
            for state in RunState
        }
    finally:
        store.close()
    return {state: count for state, count in found.items() if count}


def engage(path: Path) -> tuple[list[str], str]:
    flags, note = Flags(str(path)), new_note(by="ana", reason="", via="test")
    flags.raise_it(Scope(), note)
    held, _, why_not = records.hold(str(path), flags, Scope(), Pulled(0, [], [], 0, note))
    return held, why_not


def release(path: Path) -> list[str]:
    return records.release(str(path), Scope(), by="ana", reason="", via="test")


def test_they_are_paused_many_in_one_transaction(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits: list[int] = []
    write = SqliteStore.write

    def counted(self: SqliteStore, job: Callable[[Transaction], Any]) -> Any:
        commits.append(1)
        return write(self, job)

    monkeypatch.setattr(SqliteStore, "write", counted)
    monkeypatch.setattr(records, "PAUSED_S", 1000.0)
    held, why_not = engage(store)
    assert (len(held), why_not) == (MANY, "")
    assert states(store) == {RunState.PAUSED: MANY}
    assert len(commits) < 10


def test_who_has_pulled_it_does_not_wait_for_all_of_them_and_the_release_pauses_the_rest(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "PAUSED_S", -1.0)
    held, why_not = engage(store)
    assert (len(held), why_not) == (MANY, "")
    assert states(store) == {RunState.QUEUED: MANY}
    assert len(release(store)) == MANY
    assert states(store) == {RunState.PAUSED: MANY}


async def test_so_does_a_release_through_a_runtime(tmp_path: Path) -> None:
    async with Journal.open(tmp_path / "runs.db") as journal:
        born = Created(agent="a", thread="t", input=NULL)
        await journal.append(Append(run_id="r1", events=[born], expected_seq=0))
        journal.kill_switch.flags.raise_it(Scope(), new_note(by="ana", reason="", via="test"))
        await journal.kill_switch.release(Scope(), by="ana", reason="", via="test")
        assert (await journal.load("r1")).state is RunState.PAUSED


def test_a_damaged_run_keeps_no_other_from_being_paused(
    store: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(records, "PAUSED_S", 1000.0)
    db = apsw.Connection(str(store))
    db.execute("UPDATE records SET payload = x'00' WHERE rowid = (SELECT max(rowid) FROM records)")
    db.close()
    _, why_not = engage(store)
    assert why_not
    assert states(store)[RunState.PAUSED] == MANY - 1
