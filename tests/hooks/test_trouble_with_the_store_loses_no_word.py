"""Promise: a read or a write of the store that fails delays what a hook is told. It loses nothing,
ends no courier, and is said.

Also an error that nobody has thought of: it is logged, and tried again.
"""

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import Context, Record, RunState, Timing
from pullcord.core.run import Run
from pullcord.errors import ImpossibleEvent, StorageFailed
from pullcord.hooks import Moved
from pullcord.journal.facets.changes import Changes
from pullcord.journal.hook_places import HookPlaces
from pullcord.journal.journal import Journal
from pullcord.runtime.hooks import courier
from pullcord.runtime.hooks.courier import Courier
from tests.hooks.moves import moves_in
from tests.runs.observed_runs import BOUND_S

QUICK = Timing(hook_retry_s=0.01)
TROUBLE = StorageFailed("Reading", path="r", why="I/O error", instead="Wait.")
MISTAKE = RuntimeError("nobody has thought of this")


async def quick(_ctx: Context) -> None: ...


async def asks(ctx: Context) -> None:
    await ctx.ask("Which one?")


class Board:
    """A hook that keeps what it was told, and can be waited for."""

    def __init__(self) -> None:
        self.told: list[tuple[str, int]] = []
        self._ended: dict[str, threading.Event] = {}

    def __call__(self, notice: Moved) -> None:
        self.told.append((notice.run_id, notice.seq))
        if notice.after in (RunState.CANCELLED, RunState.COMPLETED):
            self._end_of(notice.run_id).set()

    async def until_ended(self, run_id: str) -> None:
        assert await asyncio.to_thread(self._end_of(run_id).wait, BOUND_S)

    def _end_of(self, run_id: str) -> threading.Event:
        return self._ended.setdefault(run_id, threading.Event())


def fails(
    monkeypatch: pytest.MonkeyPatch,
    of: type,
    method: str,
    error: Exception,
    *,
    of_run: str = "",
    times: int = 1,
) -> list[Exception]:
    """Make the first calls by a courier fail. Returns what was raised so far."""
    real: Callable[..., Awaitable[Any]] = getattr(of, method)
    raised: list[Exception] = []

    async def failing(self: Any, *args: Any, **named: Any) -> Any:
        is_courier = threading.current_thread().name == "pullcord-hooks"
        if is_courier and len(raised) < times and of_run in ("", *args):
            raised.append(error)
            raise error
        return await real(self, *args, **named)

    monkeypatch.setattr(of, method, failing)
    return raised


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(courier, "_OTHERS_S", 0.01)


# --- reading ---


async def cancelled_while_nobody_was_there(store: Path) -> dict[str, list[tuple[str, int]]]:
    """Two runs whose stop is still to be told. Returns all that was to be told of each."""
    board = Board()
    async with pullcord.open(store, agents={"asks": asks}, timing=QUICK, on_stop=board) as runtime:
        for run_id in ("aaa", "bbb"):
            await (await runtime.start("asks", run_id=run_id)).wait_for(RunState.WAITING)
    async with pullcord.open(store) as runtime:
        for run_id in ("aaa", "bbb"):
            await (await runtime.get(run_id)).cancel(by="ana")
        read = runtime.journal.read
        every = {r: [(r, seq) for seq, *_ in moves_in(await read(r))] for r in ("aaa", "bbb")}
    return {run_id: [m for m in moves if m not in board.told] for run_id, moves in every.items()}


async def test_a_read_that_fails_loses_no_word_of_the_runs_that_were_read_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, board = tmp_path / "r.db", Board()
    async with asyncio.timeout(BOUND_S):
        due = await cancelled_while_nobody_was_there(store)
        raised = fails(monkeypatch, Journal, "read", TROUBLE, of_run="bbb")
        async with pullcord.open(store, timing=QUICK, on_stop=board):
            await board.until_ended("bbb")
    assert raised
    assert all(due.values())
    assert board.told == [*due["aaa"], *due["bbb"]]


async def test_also_not_of_a_run_that_cannot_be_followed_to_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, board, evolve = tmp_path / "r.db", Board(), courier.evolve
    async with asyncio.timeout(BOUND_S):
        due = await cancelled_while_nobody_was_there(store)
        first, (_, last) = due["aaa"][0], due["aaa"][-1]
        assert first[1] < last

        def refuses(run: Run, record: Record) -> None:
            if (run.id, record.seq) == ("aaa", last):
                raise ImpossibleEvent("aaa", event="odd", why="it is a test")
            evolve(run, record)

        monkeypatch.setattr(courier, "evolve", refuses)
        fails(monkeypatch, Journal, "read", TROUBLE, of_run="bbb")
        async with pullcord.open(store, timing=QUICK, on_stop=board):
            await board.until_ended("bbb")
    assert board.told == [*due["aaa"][:-1], *due["bbb"]]


async def test_what_is_recorded_while_a_courier_that_has_to_leave_still_reads_is_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """It has looked, and found nothing; before it knows, a run ends and the runtime is closed."""
    board, real, leave = Board(), HookPlaces.committed, Courier.leave
    looked, leaves = threading.Event(), asyncio.Event()

    async def slow(self: HookPlaces, *, after_pos: int, limit: int) -> list[tuple[int, str, int]]:
        rows = await real(self, after_pos=after_pos, limit=limit)
        if not looked.is_set():
            assert rows == []
            looked.set()
            await leaves.wait()
        return rows

    def leaving(self: Courier) -> None:
        leave(self)
        leaves.set()

    monkeypatch.setattr(HookPlaces, "committed", slow)
    monkeypatch.setattr(Courier, "leave", leaving)
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents={"quick": quick}, timing=QUICK, on_stop=board) as runtime,
    ):
        await asyncio.to_thread(looked.wait)
        await (await runtime.start("quick", run_id="r1")).result()
    assert [run_id for run_id, _ in board.told] == ["r1"] * 3


# --- writing ---


@pytest.mark.parametrize("method", ["meet", "take", "move", "committed"])
@pytest.mark.parametrize("error", [TROUBLE, MISTAKE], ids=["storage", "mistake"])
async def test_whatever_fails_is_said_and_all_is_told_once(
    method: str,
    error: Exception,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    board = Board()
    raised = fails(monkeypatch, HookPlaces, method, error, times=3)
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents={"quick": quick}, timing=QUICK, on_stop=board) as runtime,
    ):
        run = await runtime.start("quick", run_id="r1")
        await run.result()
        await board.until_ended("r1")
        due = [("r1", seq) for seq, *_ in moves_in(await runtime.journal.read("r1"))]
    assert raised == [error] * 3
    assert board.told == due
    said = [r for r in caplog.records if r.name == "pullcord.runtime"]
    assert len(said) == 3
    assert all(str(error) in (r.exc_text or r.getMessage()) for r in said)


async def test_a_mistake_is_made_more_and_more_seldom(monkeypatch: pytest.MonkeyPatch) -> None:
    board, rested = Board(), list[float]()
    rest: Any = vars(Courier)["_rest"]

    async def resting(self: Courier, seconds: float) -> None:
        rested.append(seconds)
        await rest(self, 0.0)

    monkeypatch.setattr(Courier, "_rest", resting)
    fails(monkeypatch, HookPlaces, "committed", MISTAKE, times=4)
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents={"quick": quick}, on_stop=board) as runtime,
    ):
        await (await runtime.start("quick", run_id="r1")).result()
        await board.until_ended("r1")
    assert rested == [1.0, 2.0, 4.0, 8.0]


async def test_a_hook_that_cannot_be_let_go_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    fails(monkeypatch, HookPlaces, "let_go", MISTAKE)
    async with asyncio.timeout(BOUND_S), pullcord.open(":memory:", on_stop=Board()):
        pass
    assert "was not let go" in caplog.text
    assert str(MISTAKE) in caplog.text


async def test_who_cannot_hear_of_commits_is_not_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """Else its hooks would be told nothing, and nobody would know."""

    def deaf(_self: Changes, _on_change: object) -> None:
        raise TROUBLE

    monkeypatch.setattr(Changes, "watch", deaf)
    runtime = pullcord.open(":memory:", on_stop=Board())
    with pytest.raises(StorageFailed):
        await runtime.__aenter__()
    await runtime.aclose()
