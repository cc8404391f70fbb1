"""Promise: what was acknowledged survives `kill -9`, and no append is ever half there.

A real process is killed before, inside and after each of its writes, on a real file. The file it
leaves must be, exactly, the file after the last complete write; and every run in it goes on.
"""

import random
import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from pullcord.core.commands import Cancel
from pullcord.core.states import TERMINAL, RunState
from pullcord.journal.chain import Row
from pullcord.journal.journal import Journal
from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.journal.store import Store, Transaction, View
from pullcord.journal.stored_runs.run_records import ALL
from pullcord.testing import ManualClock
from pullcord.testing.crashing import CrashingStore, Scenario, When
from tests.conftest import FULL
from tests.crash.points import every_point
from tests.crash.scenarios import REPEATABLE, many_writers_at_once

T = TypeVar("T")
SAMPLED = 0.45


@pytest.mark.campaign
@pytest.mark.parametrize("scenario", REPEATABLE, ids=lambda scenario: scenario.__name__)
async def test_a_killed_process_leaves_the_last_complete_write(
    scenario: Scenario, tmp_path: Path
) -> None:
    after_write = await undisturbed(scenario, tmp_path)
    points, seed = 0, random.Random(scenario.__name__)

    def picked(_at: int, _when: When) -> bool:
        return FULL or seed.random() < SAMPLED

    for report in await every_point(scenario, tmp_path, pick=picked):
        complete = report.at if report.when == "after" else report.at - 1
        with_message = f"killed {report.when} write {report.at}"
        assert await left_behind(report.path) == after_write[complete], with_message
        await assert_all_acknowledged(report.path, report.acked)
        await assert_every_run_goes_on(report.path)
        points += 1
    assert points == 3 * (len(after_write) - 1) or not FULL
    print(f"{points} crash points, {len(after_write) - 1} writes, 0 lost, 0 half")


@pytest.mark.campaign
async def test_of_many_writers_in_one_commit_none_is_half_there(tmp_path: Path) -> None:
    points = acknowledged = 0
    rounds = 20 if FULL else 2
    for attempt in range(rounds):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        seed = random.Random(attempt)
        reports = await every_point(
            many_writers_at_once, folder, pick=lambda _at, _when, seed=seed: seed.random() < 0.8
        )
        for report in reports:
            await assert_all_acknowledged(report.path, report.acked)
            async with Journal.open(report.path) as journal:
                ends = {head.seq for head in await journal.runs(limit=100)}
            assert ends <= {1, 2, 4, 6, 7}, "a pair of events was torn apart"
            await assert_every_run_goes_on(report.path)
            points += 1
            acknowledged += len(report.acked)
    print(f"{points} crash points, {acknowledged} acknowledged records, 0 lost")
    assert points


async def undisturbed(scenario: Scenario, folder: Path) -> list[object]:
    """What the store holds at first and after each write, when nobody is killed."""
    store = _Recording(SqliteStore(folder / "model.db"))
    async with Journal(store) as journal:
        await scenario(journal, lambda _: None)
    return store.after_write


class _Recording(CrashingStore):
    def __init__(self, inner: Store) -> None:
        super().__init__(inner, at=0, when="before")
        self.after_write: list[object] = [inner.read(contents)]

    def write(self, job: Callable[[Transaction], T]) -> T:
        result = super().write(job)
        self.after_write.append(self.read(contents))
        return result


def timeless(row: Row) -> bytes:
    return re.sub(rb',?"(alive|working)_ms":\d+', b"", row.payload or b"")


def contents(view: View) -> object:
    """Everything in the store but times and what follows from them."""
    heads = view.heads(states=RunState, thread=None, before=None, limit=ALL)
    return [
        (
            head.run_id,
            head.state,
            head.epoch,
            head.holder.owner,
            [(r.epoch, timeless(r)) for r in view.rows(head.run_id, after_seq=0, limit=ALL)],
            [text._replace(pos=0) for text in view.live(head.run_id, after_pos=0)],
            [
                key
                for key in ("k1", "k2", "k3", "k4", "k5", "a1", "a2")
                if view.ack(head.run_id, key)
            ],
            (kept := view.snapshot(head.run_id)) and kept.seq,
        )
        for head in heads
    ]


async def left_behind(path: Path) -> object:
    store = SqliteStore(path)
    try:
        return store.read(contents)
    finally:
        store.close()


async def assert_all_acknowledged(path: Path, acked: list[str]) -> None:
    """What the witness heard is there: records with their payloads, and text (live or recorded)."""
    async with Journal.open(path) as journal:
        for said in acked:
            name, *rest = said.split()
            if len(rest) == 1:
                assert (await journal.head(name)).seq >= int(rest[0]), said
                assert len(await journal.read(name)) >= int(rest[0]), said  # with their payloads
            else:
                part, end = rest
                run = await journal.load(name)
                live = await journal.live_text.unended(name)
                shown = sum(len(text.text) for text in live if text.part == part)
                assert part in run.texts or shown >= int(end), said


async def assert_every_run_goes_on(path: Path) -> None:
    """The chain of every run holds, and after a reboot each living one can be ended."""
    clock = ManualClock(boot="after the crash")
    async with Journal.open(path, clock=clock) as journal:
        for head in await journal.runs(limit=1000):
            end = (await journal.head(head.run_id)).seq
            assert len(await journal.read(head.run_id)) == end >= head.seq
            ack = await journal.command(head.run_id, Cancel(by="operator"))
            assert ack.holds or head.state in TERMINAL
            if (await journal.load(head.run_id)).state is RunState.CANCELLING:
                assert await journal.acquire(head.run_id, owner="next", ttl_s=30)
