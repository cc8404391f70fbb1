"""Promise: whoever is in a call hears every control recorded after its intent: once, in order, also
one that slipped in before the cutter was there, and also that another has taken the run.
"""

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from pullcord.core.commands import Cancel, Pause, Redirect, Resume
from pullcord.core.events import Control, Created, Record, StepStarted
from pullcord.errors import StorageFailed
from pullcord.journal.journal import Journal
from pullcord.journal.memory_store import MemoryStore
from pullcord.journal.rules.ledger import Append
from pullcord.journal.store import View
from pullcord.process import new_owner
from pullcord.runtime.control_thread import ControlThread
from pullcord.testing import ManualClock

T = TypeVar("T")


class Ear:
    """Collects controls from whichever thread brings them."""

    def __init__(self) -> None:
        self._heard: asyncio.Queue[str] = asyncio.Queue()
        self._loop = asyncio.get_running_loop()

    def cut(self, control: Control) -> None:
        self._loop.call_soon_threadsafe(self._heard.put_nowait, type(control).__name__)

    async def hears(self, *names: str) -> None:
        async with asyncio.timeout(120):
            heard = [await self._heard.get() for _ in names]
        assert heard == list(names)
        assert self._heard.empty()

    def has_heard_nothing(self) -> bool:
        return self._heard.empty()


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncGenerator[Journal]:
    async with Journal.open(tmp_path / "runs.db", clock=ManualClock()) as journal:
        created = Created(agent="churn", thread="t1")
        await journal.append(Append(run_id="r1", events=[created], expected_seq=0))
        assert await journal.acquire("r1", owner=new_owner(), ttl_s=3600)  # it lives: it is ours
        intent = StepStarted(step="a", name="a")
        await journal.append(Append(run_id="r1", events=[intent], expected_seq=2, epoch=1))
        yield journal


async def test_controls_are_heard_once_and_in_order(journal: Journal) -> None:
    control, ear = ControlThread(journal), Ear()
    with control.cutting("r1", ear.cut, after_seq=3):
        await journal.command("r1", Pause(by="ana"))
        await journal.command("r1", Resume(by="ana"))
        await journal.command("r1", Redirect(by="ana", instruction="other way"))
        await journal.command("r1", Cancel(by="ana"))
        await journal.command("r1", Cancel(by="ana", now=True))
        await ear.hears("PauseRequested", "Resumed", "Redirected", "CancelRequested", "Hurried")
    control.close()


async def test_a_control_that_came_before_the_cutter_is_heard_on_entering(
    journal: Journal,
) -> None:
    control, ear = ControlThread(journal), Ear()
    await journal.command("r1", Cancel(by="ana"))
    with control.cutting("r1", ear.cut, after_seq=3):
        await ear.hears("CancelRequested")
    control.close()


async def test_a_successor_cuts_its_predecessor(tmp_path: Path, journal: Journal) -> None:
    control, ear = ControlThread(journal), Ear()
    with control.cutting("r1", ear.cut, after_seq=3):
        async with Journal.open(tmp_path / "runs.db", clock=ManualClock(boot="another")) as other:
            assert await other.acquire("r1", owner="w2", ttl_s=30)
        await ear.hears("Claimed")
    control.close()


async def test_outside_the_block_nothing_is_heard(journal: Journal) -> None:
    control, ear, inner = ControlThread(journal), Ear(), Ear()
    with control.cutting("r1", inner.cut, after_seq=3):
        with control.cutting("r1", ear.cut, after_seq=3):
            pass
        await journal.command("r1", Cancel(by="ana"))
        await inner.hears("CancelRequested")
    assert ear.has_heard_nothing()
    control.close()


async def test_a_lost_poke_is_made_up_for_by_looking(tmp_path: Path, journal: Journal) -> None:
    control, ear = ControlThread(journal), Ear()
    for pipe in (tmp_path / "runs.db-side").glob("*.wake"):
        pipe.unlink()
    with control.cutting("r1", ear.cut, after_seq=3):
        async with Journal.open(tmp_path / "runs.db", clock=ManualClock()) as other:
            await other.command("r1", Cancel(by="ana"))
        await ear.hears("CancelRequested")
    control.close()


async def test_a_cutter_that_fails_keeps_no_other_from_being_heard(journal: Journal) -> None:
    control, ear = ControlThread(journal), Ear()

    def broken(_control: Control) -> None:
        raise OSError("its socket is gone")

    with (
        control.cutting("r1", broken, after_seq=3),
        control.cutting("r1", ear.cut, after_seq=3),
    ):
        await journal.command("r1", Pause(by="ana"))
        await journal.command("r1", Cancel(by="ana"))
        await ear.hears("PauseRequested", "CancelRequested")
    control.close()


async def test_a_read_that_fails_once_loses_no_control(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    control, ear = ControlThread(journal), Ear()
    with control.cutting("r1", ear.cut, after_seq=3):
        read_now, failures = journal.changes.read_now, iter([True, True])

        def failing(run_id: str, *, after_seq: int = 0) -> list[Record]:
            if next(failures, False):
                raise StorageFailed("Reading", path="r", why="I/O error", instead="Wait.")
            return read_now(run_id, after_seq=after_seq)

        monkeypatch.setattr(journal.changes, "read_now", failing)
        await journal.command("r1", Cancel(by="ana"))
        await ear.hears("CancelRequested")
    control.close()


async def test_a_store_that_stays_away_is_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """A database may be away for hours, and is looked for several times a second."""

    class Away(MemoryStore):
        reads = 0

        def read(self, job: Callable[[View], T]) -> T:
            self.reads += 1
            if self.reads in range(3, 8):
                raise StorageFailed("Reading", path="r", why="nobody answers", instead="Wait.")
            return super().read(job)

    store, heard, loop = Away(), asyncio.Event(), asyncio.get_running_loop()

    def hear(_: object) -> None:
        loop.call_soon_threadsafe(heard.set)

    async with Journal(store) as journal, asyncio.timeout(120):
        journal.changes.watch(hear)
        born = Append(run_id="r1", events=[Created(agent="churn", thread="t")], expected_seq=0)
        store.reads = 2  # from here on nobody answers for a while
        await journal.append(born)
        await heard.wait()
    assert store.reads >= 8
    assert [record.levelname for record in caplog.records] == ["WARNING"]


async def test_nothing_is_cut_once_the_block_is_left(journal: Journal) -> None:
    """Even if the control thread was just about to: the socket may be someone else's by then."""
    control, ear = ControlThread(journal), Ear()
    entered, leave = threading.Event(), threading.Event()

    def slow(_control: Control) -> None:
        entered.set()
        leave.wait(30)

    with control.cutting("r1", slow, after_seq=3):
        with control.cutting("r1", ear.cut, after_seq=3):
            await journal.command("r1", Cancel(by="ana"))
            await asyncio.to_thread(entered.wait, 30)
        leave.set()
        await journal.command("r1", Cancel(by="ana", now=True))
    assert ear.has_heard_nothing()
    control.close()
