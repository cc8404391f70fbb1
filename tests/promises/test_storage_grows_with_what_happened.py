"""Promise: what a run costs on disk grows with what it did, not with its square; and looking at the
newest runs costs the same whether there are ten or a hundred thousand others.
"""

from pathlib import Path

import apsw

from pullcord.core.events import Created, StepFinished, StepStarted
from pullcord.core.states import RunState
from pullcord.core.values import dump
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append
from pullcord.journal.sqlite.backend import SqliteStore


async def size_after(path: Path, steps: int) -> int:
    """The size of the file after a run of so many steps, each with a 200-byte result."""
    async with Journal.open(path) as journal:
        created = Created(agent="churn", thread="t1")
        await journal.append(Append(run_id="r1", events=[created], expected_seq=0))
        await journal.acquire("r1", owner="w1", ttl_s=1000)
        for number in range(steps):
            events = (
                StepStarted(step=f"step-{number}", name="fetch customer list"),
                StepFinished(step=f"step-{number}", result=dump("x" * 198)),
            )
            seq = 2 + 2 * number
            await journal.append(Append(run_id="r1", events=events, expected_seq=seq, epoch=1))
    return path.stat().st_size  # closed, so the WAL has been taken in


async def test_a_thousand_steps_take_no_more_than_two_megabytes(tmp_path: Path) -> None:
    size = await size_after(tmp_path / "runs.db", 1000)
    print(f"{size:,} bytes for 1,000 steps with 200-byte results")
    assert size <= 2_000_000


async def test_twice_the_steps_take_twice_the_space(tmp_path: Path) -> None:
    small = await size_after(tmp_path / "small.db", 500)
    large = await size_after(tmp_path / "large.db", 1500)
    assert large <= 3.3 * small


def test_listing_and_claiming_walk_an_index_and_sort_nothing(tmp_path: Path) -> None:
    """The statements really used, as SQLite plans them: no scan of all runs."""
    store = SqliteStore(tmp_path / "runs.db")
    seen: list[str] = []

    def note(_cursor: object, statement: str, _bindings: object) -> bool:
        seen.append(statement)
        return True

    def look(view: object) -> None:
        connection: apsw.Connection = view.db  # pyright: ignore
        connection.exec_trace = note
        for thread in (None, "t1"):
            view.heads(states=RunState, thread=thread, before=None, limit=50)  # pyright: ignore
        view.claimable(boot="b", now_s=1.0, agents=["churn"], limit=50)  # pyright: ignore
        view.head("r1")  # pyright: ignore
        connection.exec_trace = None

    store.read(look)
    db = apsw.Connection(store.name)
    for statement in seen:
        bindings = (None,) * statement.count("?")
        for row in db.execute(f"EXPLAIN QUERY PLAN {statement}", bindings):
            assert "SCAN runs" not in str(row), statement
            assert "SCAN records" not in str(row), statement
    assert len(seen) >= 4
    db.close()
    store.close()
