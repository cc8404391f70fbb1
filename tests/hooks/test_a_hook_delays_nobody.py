"""Promise: a hook that raises, hangs, blocks or is slow delays no stop and no agent, and ends
neither the process nor its shutdown."""

import asyncio
import logging
import threading
from typing import Any

import pytest

import pullcord
from pullcord import Context, RunState, Timing
from pullcord.hooks import Moved
from tests.runs.observed_runs import BOUND_S

HABITS = Timing(hook_s=0.05, hook_retry_s=0.01)


class Bad:
    """Hooks that misbehave, until the test lets them go. Each says once that it was called."""

    def __init__(self) -> None:
        self.called = threading.Event()
        self.let_go = threading.Event()

    def raises(self, _notice: Moved) -> None:
        self.called.set()
        raise ConnectionError("no network")

    def exits(self, _notice: Moved) -> None:
        self.called.set()
        raise SystemExit(3)

    def blocks(self, _notice: Moved) -> None:
        self.called.set()
        self.let_go.wait()

    async def hangs(self, _notice: Moved) -> None:
        self.called.set()
        await asyncio.get_running_loop().create_future()

    async def blocks_its_loop(self, _notice: Moved) -> None:
        self.called.set()
        self.let_go.wait()

    async def ignores_being_cancelled(self, _notice: Moved) -> None:
        self.called.set()
        while not self.let_go.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                pass


class Says(logging.Filter):
    """Waits for words in the log."""

    def __init__(self, words: str) -> None:
        super().__init__()
        self._words, self.is_said = words, threading.Event()

    def filter(self, record: logging.LogRecord) -> bool:
        if self._words in record.getMessage():
            self.is_said.set()
        return True


KINDS = ["raises", "exits", "blocks", "hangs", "blocks_its_loop", "ignores_being_cancelled"]


@pytest.mark.parametrize("kind", KINDS)
async def test_a_bad_hook_delays_no_stop_and_no_shutdown(kind: str) -> None:
    bad = Bad()
    begun = asyncio.Event()
    good: list[Moved] = []

    async def agent(ctx: Context) -> None:
        begun.set()
        await ctx.sleep(3600)

    try:
        async with asyncio.timeout(BOUND_S):
            async with pullcord.open(
                ":memory:",
                agents={"agent": agent},
                timing=HABITS,
                on_stop=[getattr(bad, kind), good.append],
            ) as runtime:
                run = await runtime.start("agent")
                await asyncio.to_thread(bad.called.wait)
                await begun.wait()
                ack = await run.cancel(by="ana")
                assert ack.holds
                await run.wait_for(RunState.CANCELLED)
        assert good[-1].after is RunState.CANCELLED
    finally:
        bad.let_go.set()


async def test_no_more_than_one_call_of_a_hook_is_ever_under_way(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """One that does not come back is named, and not called again, however much there is to tell."""
    bad, calls, named = Bad(), list[Moved](), Says("has not come back")
    caplog.handler.addFilter(named)

    def stuck(notice: Moved) -> None:
        calls.append(notice)
        bad.called.set()
        bad.let_go.wait()

    async def agent(_ctx: Context) -> None: ...

    try:
        async with (
            asyncio.timeout(BOUND_S),
            pullcord.open(
                ":memory:", agents={"agent": agent}, timing=HABITS, on_stop=stuck
            ) as runtime,
        ):
            for _ in range(5):
                await (await runtime.start("agent")).result()
            await asyncio.to_thread(bad.called.wait)
            await asyncio.to_thread(named.is_said.wait)
        assert len(calls) == 1
        assert "was not told everything" in caplog.text
    finally:
        bad.let_go.set()


async def test_a_hook_that_fails_is_tried_again_and_then_passed_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    heard: list[tuple[int, bool]] = []
    passed = threading.Event()

    def picky(notice: Moved) -> None:
        is_first = notice.seq == 1
        heard.append((notice.seq, is_first))
        if is_first:
            raise ValueError("not this one")
        passed.set()

    async def agent(_ctx: Context) -> None: ...

    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(":memory:", agents={"agent": agent}, timing=HABITS, on_stop=picky) as runtime,
    ):
        await (await runtime.start("agent")).result()
        await asyncio.to_thread(passed.wait)
    assert heard[:4] == [(1, True)] * 3 + [(2, False)]
    given_up = [r for r in caplog.records if r.levelno == logging.ERROR]
    assert ["it has failed 3 times" in r.getMessage() for r in given_up] == [True]


async def test_a_hook_is_told_while_an_agent_holds_the_event_loop() -> None:
    """The cancel is told at once, though the loop that drives agents stands still."""
    heard: dict[str, Any] = {}
    told = threading.Event()

    def hook(notice: Moved) -> None:
        heard[notice.after.value] = notice
        if notice.after is RunState.CANCELLING:
            told.set()

    def hold() -> None:
        heard["let go"] = told.wait(BOUND_S)

    async def agent(_ctx: Context) -> None:
        command = threading.Thread(target=cancel_from_outside)
        command.start()
        hold()
        command.join()

    def cancel_from_outside() -> None:
        async def act() -> None:
            await (await runtime.get("r1")).cancel(by="ana")

        asyncio.run(act())

    async with (
        asyncio.timeout(BOUND_S + 5),
        pullcord.open(":memory:", agents={"agent": agent}, on_stop=hook) as runtime,
    ):
        run = await runtime.start("agent", run_id="r1")
        await run.wait_for(RunState.CANCELLED)
    assert heard["let go"] is True
    assert heard["cancelling"].by == "ana"
