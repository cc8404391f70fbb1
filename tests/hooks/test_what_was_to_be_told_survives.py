"""Promise: what a hook was to be told, it is told: at least once, in order, by one process.

Also if the process is interrupted or killed between the record and the word, and if the run was
stopped while no process was there. What is told again has the same id.
"""

import asyncio
import signal
import sys
import threading
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import pullcord
from pullcord import Context, RunState, Timing
from pullcord.hooks import Moved, Notice, Webhook
from pullcord.runtime.hooks import courier
from pullcord.testing import ManualClock
from tests.hooks.moves import moves_in
from tests.hooks.receiver import SECRET, Got, Receiver
from tests.runs.observed_runs import BOUND_S

QUICK = Timing(hook_retry_s=0.01)


@asynccontextmanager
async def victim(store: Path, url: str) -> AsyncGenerator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-m", "tests.hooks.victim", str(store), url),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        yield process
    finally:
        if process.returncode is None:
            process.kill()
        await process.communicate()


async def expected(store: Path, run_id: str = "r1") -> list[str]:
    """The ids of everything that was to be told of a run."""
    async with pullcord.open(store) as runtime:
        return [f"{run_id}.{seq}" for seq, *_ in moves_in(await runtime.journal.read(run_id))]


def ids(got: list[Got]) -> list[str]:
    """In the order in which they were first told."""
    return list(dict.fromkeys(g.id for g in got))


async def test_ctrl_c_waits_for_a_slow_receiver(tmp_path: Path) -> None:
    """It answers nothing until the signal has been sent; then it has heard all of it."""
    is_sent = asyncio.Event()
    async with (
        asyncio.timeout(BOUND_S),
        Receiver(is_sent.wait) as receiver,
        victim(tmp_path / "r.db", receiver.url) as process,
    ):
        assert process.stdout
        assert await process.stdout.readline() == b"works\n"
        await receiver.until(lambda got: len(got) == 1)
        process.send_signal(signal.SIGINT)
        is_sent.set()
        assert await process.stdout.readline() == b"interrupted\n"
        assert await process.wait() == 0
    assert [g.id for g in receiver.got] == await expected(tmp_path / "r.db")
    last = receiver.got[-1].data
    assert (last["after"], last["source"], last["working"]) == ("queued", "shutdown", False)


async def test_kill_dash_nine_between_the_record_and_the_word_loses_nothing(tmp_path: Path) -> None:
    async def never() -> None:
        await asyncio.get_running_loop().create_future()

    store = tmp_path / "r.db"
    async with asyncio.timeout(BOUND_S), Receiver(never) as receiver:
        async with victim(store, receiver.url) as process:
            assert process.stdout
            assert await process.stdout.readline() == b"works\n"
            await receiver.until(lambda got: len(got) == 1)  # which it has not answered
            process.kill()
            await process.wait()
        hook = Webhook(receiver.url, SECRET)
        async with pullcord.open(store, timing=QUICK, on_stop=hook) as runtime:
            await (await runtime.get("r1")).cancel(by="ana", reason="its process is gone")
            await receiver.until_told("cancelled")
    told = [g.id for g in receiver.got]
    assert told[0] == told[1], "what was not answered is told again, by the same id"
    assert told[1:] == await expected(store)
    assert receiver.got[0].body == receiver.got[1].body


async def test_a_run_that_is_stopped_while_nobody_is_there_is_told_when_somebody_is(
    tmp_path: Path,
) -> None:
    """As by `pullcord cancel`: it records, and leaves telling to those who are for it."""
    store = tmp_path / "r.db"
    async with asyncio.timeout(BOUND_S), Receiver() as receiver:
        hook = Webhook(receiver.url, SECRET)
        async with victim(store, receiver.url) as process:
            await receiver.until_told("running")
            process.kill()
            await process.wait()
        command = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "pullcord", "cancel", "r1", "--store", str(store)
        )
        assert await command.wait() == 0
        assert ids(receiver.got) == (await expected(store))[:2]
        async with pullcord.open(store, on_stop=hook):
            await receiver.until_told("cancelled")
    assert ids(receiver.got) == await expected(store)


async def test_of_two_processes_one_tells(tmp_path: Path) -> None:
    heard: list[Moved] = []

    def hook(notice: Moved) -> None:
        heard.append(notice)

    async def agent(_ctx: Context) -> None: ...

    store = tmp_path / "r.db"
    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(store, agents={"agent": agent}, on_stop=hook) as first,
        pullcord.open(store, on_stop=hook),
        pullcord.open(store, on_stop=hook),
    ):
        for _ in range(20):
            await (await first.start("agent")).result()
    assert len(heard) == 60
    assert len({(m.run_id, m.seq) for m in heard}) == 60


async def test_who_tells_and_dies_is_replaced_by_who_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without a new commit that would wake it: it looks whether the other is still at it."""
    monkeypatch.setattr(courier, "_OTHERS_S", 0.05)

    async def never() -> None:
        await asyncio.get_running_loop().create_future()

    store = tmp_path / "r.db"
    async with (
        asyncio.timeout(BOUND_S),
        Receiver(never) as receiver,
        victim(store, receiver.url) as process,
    ):
        await receiver.until(lambda got: len(got) == 1)
        hook = Webhook(receiver.url, SECRET)
        async with pullcord.open(store, timing=QUICK, on_stop=hook) as runtime:
            await (await runtime.get("r1")).wait_for(
                RunState.RUNNING
            )  # and is not killed before it
            process.kill()
            await process.wait()
            await receiver.until_told("running")
    assert ids(receiver.got) == (await expected(store))[:2]


async def test_a_hook_that_is_new_begins_now(tmp_path: Path) -> None:
    async def agent(_ctx: Context) -> None: ...

    store, heard = tmp_path / "r.db", list[str]()

    def hook(notice: Moved) -> None:
        heard.append(notice.run_id)

    async with asyncio.timeout(BOUND_S):
        async with pullcord.open(store, agents={"agent": agent}) as runtime:
            await (await runtime.start("agent", run_id="before")).result()
        async with pullcord.open(store, agents={"agent": agent}, on_stop=hook) as runtime:
            await (await runtime.start("agent", run_id="after")).result()
    assert set(heard) == {"after"}


async def test_what_cannot_be_told_at_the_end_is_said_and_told_by_the_next(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def agent(_ctx: Context) -> None: ...

    store = tmp_path / "r.db"
    async with asyncio.timeout(BOUND_S), Receiver(*[503] * 50) as receiver:
        hook = Webhook(receiver.url, SECRET)
        slow = Timing(hook_retry_s=3600)
        async with pullcord.open(
            store, agents={"agent": agent}, timing=slow, on_stop=hook
        ) as runtime:
            await (await runtime.start("agent", run_id="r1")).result()
            await receiver.until(lambda got: len(got) == 1)
        assert "was not told everything: from r1.1 on" in caplog.text
        receiver.answers.clear()
        async with pullcord.open(store, on_stop=hook):
            await receiver.until_told("completed")
    assert ids(receiver.got) == await expected(store)


async def test_what_is_more_than_a_day_old_is_passed_over_and_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def agent(_ctx: Context) -> None: ...

    store, clock, heard = tmp_path / "r.db", ManualClock(), list[str]()

    def hook(notice: Moved) -> None:
        if broken:
            raise ConnectionError
        heard.append(notice.run_id)

    broken = [True]
    agents: Any = {"agent": agent}
    async with asyncio.timeout(BOUND_S):
        async with pullcord.open(
            store, agents=agents, clock=clock, timing=Timing(hook_retry_s=3600), on_stop=hook
        ) as runtime:
            await (await runtime.start("agent", run_id="old")).result()
        broken.clear()
        clock.advance(25 * 3600)
        async with pullcord.open(store, agents=agents, clock=clock, on_stop=hook) as runtime:
            await (await runtime.start("agent", run_id="new")).result()
    assert heard == ["new"] * 3
    assert caplog.text.count("is more than a day old") == 3


@pytest.mark.parametrize("name", ["function", "method", "object", "partial", "lambda"])
async def test_a_function_is_known_again_in_another_life(name: str, tmp_path: Path) -> None:
    """By where it stands in the program: its place is kept under that name."""

    async def agent(_ctx: Context) -> None: ...

    heard: list[int] = []
    broken = [True]
    store = tmp_path / "r.db"
    async with asyncio.timeout(BOUND_S):
        hook = _hooks(heard, broken)[name]
        async with pullcord.open(
            store, agents={"agent": agent}, timing=Timing(hook_retry_s=3600), on_stop=hook
        ) as runtime:
            await (await runtime.start("agent")).result()
        broken.clear()
        async with pullcord.open(store, on_stop=_hooks(heard, broken)[name]):
            pass
    assert heard == [1, 2, 3]


def _hooks(heard: list[int], broken: list[bool]) -> dict[str, Callable[[Moved], None]]:
    def function(notice: Moved) -> None:
        if broken:
            raise ConnectionError
        heard.append(notice.seq)

    class Thing:
        def method(self, notice: Moved) -> None:
            function(notice)

        def __call__(self, notice: Moved) -> None:
            function(notice)

    return {
        "function": function,
        "method": Thing().method,
        "object": Thing(),
        "partial": partial(function),
        "lambda": lambda notice: function(notice),
    }


async def test_a_run_that_was_forgotten_before_it_was_told_is_told_as_ended(tmp_path: Path) -> None:
    """What is left of it says where it ended: nobody goes on believing that it works."""

    async def agent(_ctx: Context) -> None: ...

    store, heard = tmp_path / "r.db", list[Moved]()

    def hook(notice: Moved) -> None:
        if broken:
            raise ConnectionError
        heard.append(notice)

    broken, later = [True], Timing(hook_retry_s=3600)
    agents: Any = {"agent": agent}
    async with asyncio.timeout(BOUND_S):
        async with pullcord.open(store, agents=agents, timing=later, on_stop=hook) as runtime:
            run = await runtime.start("agent")
            await run.result()
            await run.forget(by="ana", reason="on request")
        broken.clear()
        async with pullcord.open(store, on_stop=hook):
            pass
    assert [(m.after, m.working) for m in heard][-1] == (RunState.COMPLETED, False)


@pullcord.tool(approve=pullcord.always)
async def mail(to: str) -> None: ...


async def mails(ctx: Context, to: str) -> None:
    await ctx.tool(mail, to)


async def test_a_card_of_a_quarantined_run_is_told_to_nobody_any_more(tmp_path: Path) -> None:
    """It could not be told before: what it says is only evidence now."""
    is_quarantined, told = threading.Event(), asyncio.Queue[str]()
    loop = asyncio.get_running_loop()

    def notify(notice: Notice) -> None:
        loop.call_soon_threadsafe(told.put_nowait, notice.run_id)
        if notice.run_id == "leaks":
            is_quarantined.wait()
            raise ConnectionError("nobody is there")

    async with (
        asyncio.timeout(BOUND_S),
        pullcord.open(
            tmp_path / "runs.db", agents={"mails": mails}, notify=notify, timing=QUICK
        ) as runtime,
    ):
        run = await runtime.start("mails", "the word nobody may have", run_id="leaks")
        assert await told.get() == "leaks"
        await run.cancel(by="ana", quarantine=True)
        is_quarantined.set()
        await runtime.start("mails", "bo", run_id="other")
        assert await told.get() == "other"
