"""Promise: who may no longer write to a run may no longer act for it.

An owner that is stopped or cut off from its store holds what it does before its lease is over, and
goes on as if nothing had been if it can renew it. When another process has taken the run over,
nothing of the old owner acts any more; what cannot be seen to is named in the receipt.
"""

import asyncio
import os
import signal
import threading
from pathlib import Path
from typing import Any

import apsw
import pytest

import pullcord
from pullcord import Context, RunState, Runtime, Timing
from pullcord.core.events import Claimed, LateResult
from pullcord.core.fold import evolve, replay
from pullcord.core.receipts import Receipt
from pullcord.core.values import load
from pullcord.errors import Fenced
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Lease
from pullcord.runtime.driving.driver import Driver
from pullcord.runtime.driving.leaseholder import Leaseholder
from pullcord.runtime.runtime import worker_of
from tests.promises.children import child
from tests.promises.lease_owners import (
    LEASE_S,
    LIVES,
    driving,
    is_alive,
    nothing_was_asked,
    stands_still,
    stopped,
    ticks_of,
    until,
)
from tests.promises.licence_lives import Booker, Charger, ticker
from tests.promises.lives import effects


def opened(path: Path, **agents: Any) -> Runtime:
    return pullcord.open(path, agents=agents, timing=Timing(lease_s=float(LEASE_S)))


def acting(said: Receipt) -> list[str]:
    """The steps that the receipt names as perhaps still running."""
    return [line.name for line in said.steps if line.still_running]


# --- stopped ---


async def test_a_process_tool_of_a_stopped_owner_is_dead_when_its_run_is_cancelled(
    tmp_path: Path,
) -> None:
    path, tool = tmp_path / "runs.db", tmp_path / "ticks"
    async with child(LIVES, "ticking", str(path), LEASE_S, str(tool), is_own=True) as owner:
        pid, ticking = await driving(owner, tool)
        await owner.tell("stand still")
        await stopped(pid)
        async with opened(path, ticker=ticker) as runtime:
            run = await runtime.get("r1")
            await run.cancel(by="ana")
            await run.wait_for(RunState.CANCELLED)
            assert not is_alive(ticking), "cancelled, and its tool is there"
            said = await run.receipt()
        before = ticks_of(tool)
        assert said.in_doubt == ("ticks",)
        assert acting(said) == [], "its warden has answered"

        os.kill(pid, signal.SIGCONT)
        assert await owner.says() == "goes on"
        await owner.tell("end")
    assert ticks_of(tool) == before


async def test_an_owner_that_stood_still_for_longer_than_its_lease_goes_on_if_nobody_came(
    tmp_path: Path,
) -> None:
    """Nothing is killed, nothing is begun again, and nobody is asked anything."""
    path, tool = tmp_path / "runs.db", tmp_path / "ticks"
    async with child(LIVES, "ticking", str(path), LEASE_S, str(tool), is_own=True) as owner:
        pid, ticking = await driving(owner, tool)
        await owner.tell("stand still")
        await stopped(pid)
        await until(lambda: stands_still(tool))
        assert is_alive(ticking)
        before = len(ticks_of(tool))
        os.kill(pid, signal.SIGCONT)
        assert await owner.says() == "goes on"
        await until(lambda: len(ticks_of(tool)) > before)
        Path(f"{tool}.end").touch()
        await owner.tell("result")
        assert await owner.says() == "ticked"
        assert len({by for _, by in ticks_of(tool)}) == 1
    await nothing_was_asked(path)


async def test_an_owner_that_is_cut_off_from_its_store_loses_nothing(tmp_path: Path) -> None:
    """The store is locked for longer than a lease: what is held stands still, and goes on."""
    path, tool = tmp_path / "runs.db", tmp_path / "ticks"
    async with child(LIVES, "ticking", str(path), LEASE_S, str(tool), is_own=True) as owner:
        _, ticking = await driving(owner, tool)
        store = apsw.Connection(str(path))
        store.set_busy_timeout(20_000)
        store.execute("BEGIN IMMEDIATE")
        await until(lambda: stands_still(tool))
        before = len(ticks_of(tool))
        assert is_alive(ticking)
        store.execute("ROLLBACK")
        store.close()
        await until(lambda: len(ticks_of(tool)) > before)
        Path(f"{tool}.end").touch()
        await owner.tell("result")
        assert await owner.says() == "ticked"
        assert len({by for _, by in ticks_of(tool)}) == 1
    await nothing_was_asked(path)


# --- in-process code ---


async def test_a_call_that_had_not_begun_when_its_owner_was_stopped_never_begins(
    tmp_path: Path,
) -> None:
    path = tmp_path / "runs.db"
    async with child(LIVES, "about_to_charge", str(path), LEASE_S, is_own=True) as owner:
        pid = int((await owner.says()).split()[1])
        await stopped(pid)
        async with opened(path, charger=Charger(str(path)).agent) as runtime:
            run = await runtime.get("r1")
            await run.cancel(by="ana")
            await run.wait_for(RunState.CANCELLED)
            said = await run.receipt()
            assert said.in_doubt == ("charge",)
            assert acting(said) == ["charge"], "nobody can stop code inside of another process"

            os.kill(pid, signal.SIGCONT)
            assert await owner.says() == "unwound"
            await owner.tell("close")
            assert await owner.says() == "closed"
            assert acting(await run.receipt()) == []
    assert effects(path) == []


async def test_paused_is_not_said_before_what_may_still_act_is_named(tmp_path: Path) -> None:
    """Its owner is stopped in the middle of a step. Whoever takes the run over cannot end that
    step, so the record names it before it says that the run is paused."""
    path = tmp_path / "runs.db"
    async with child(LIVES, "about_to_charge", str(path), LEASE_S, is_own=True) as owner:
        await stopped(pid := int((await owner.says()).split()[1]))
        async with opened(path, charger=Charger(str(path)).agent) as runtime:
            run = await runtime.get("r1")
            await run.pause(by="ana")
            await run.wait_for(RunState.PAUSED)
            look = replay("r1", (records := await runtime.journal.read("r1"))[:1])
            for record in records[1:]:
                evolve(look, record)
                if look.state is RunState.PAUSED:
                    assert look.open_steps() == [], f"record {record.seq} says paused too early"
            assert [step.still_running for step in look.steps.values()] != [()]
            assert look.pause
            assert look.pause.rung == "abandoned"
        os.kill(pid, signal.SIGCONT)
        assert await owner.says() == "unwound"
        await owner.tell("close")
        assert await owner.says() == "closed"
    async with Journal.open(path) as journal:
        assert effects(path) == [], (pid, await journal.read("r1"))


async def test_what_an_owner_did_after_it_lost_its_run_is_evidence(tmp_path: Path) -> None:
    path = tmp_path / "runs.db"
    async with child(LIVES, "charging", str(path), LEASE_S, is_own=True) as owner:
        pid = int((await owner.says()).split()[1])
        await stopped(pid)
        async with opened(path, charger=Charger(str(path)).agent) as runtime:
            run = await runtime.get("r1")
            await run.cancel(by="ana")
            await run.wait_for(RunState.CANCELLED)
            said = await run.receipt()
            assert acting(said) == ["charge"]
            assert said.done == ()

            os.kill(pid, signal.SIGCONT)
            assert await owner.says() == "unwound"
            assert await owner.says() == "closed"
            events = [record.event for record in await runtime.journal.read("r1")]
            [late] = [event for event in events if isinstance(event, LateResult)]
            assert (load(late.result), late.error) == ("charged", "")
            after = await run.receipt()
            assert (acting(after), after.done) == ([], ("charge",))
            assert "did happen" in after.attention[0]
    assert effects(path) == [f"charge-{pid}"]


@pytest.mark.parametrize("which", ["undo", "release"])
async def test_an_undo_or_a_release_of_a_stopped_owner_is_named_when_its_run_is_cancelled(
    tmp_path: Path, which: str
) -> None:
    """Its owner is stopped in the middle of it, and acts when it is woken. Who has taken the run
    over does it once more, which is what it promises to bear; but cannot end the first."""
    path = tmp_path / "runs.db"
    async with child(LIVES, "taking_back", str(path), LEASE_S, which, is_own=True) as owner:
        await stopped(pid := int((await owner.says()).split()[1]))
        async with opened(path, booker=Booker(str(path), which, goes_on=True).agent) as runtime:
            run = await runtime.get("r1")
            await run.wait_for(RunState.CANCELLED)
            said = await run.receipt()
            assert effects(path) == [f"{which}-{os.getpid()}"]
            os.kill(pid, signal.SIGCONT)
            await until(lambda: f"{which}-{pid}" in effects(path))
        await owner.tell("close")
        assert await owner.says() == "closed"
    [text] = said.attention
    assert f"{which} of" in text
    assert "may still be acting" in text


@pytest.mark.parametrize("which", ["undo", "release"])
async def test_nothing_is_said_of_an_undo_or_a_release_whose_owner_is_dead(
    tmp_path: Path, which: str
) -> None:
    path = tmp_path / "runs.db"
    async with child(LIVES, "taking_back", str(path), LEASE_S, which, is_own=True) as owner:
        await stopped(int((await owner.says()).split()[1]))
        await owner.kill()
        async with opened(path, booker=Booker(str(path), which, goes_on=True).agent) as runtime:
            run = await runtime.get("r1")
            assert (await run.receipt()).attention == ()


async def test_a_blocked_loop_loses_nothing(tmp_path: Path) -> None:
    """Its leases are renewed by a thread: somebody who would take the run over gets nothing."""
    path = tmp_path / "runs.db"

    async def other(_ctx: Context) -> str:
        return "taken over"

    async with child(LIVES, "blocking", str(path), LEASE_S, is_own=True) as owner:
        assert await owner.says() == "driving"
        async with opened(path, blocker=other) as runtime:
            run = await runtime.get("r1")
            assert await run.result() == "held"
            events = [record.event for record in await runtime.journal.read("r1")]
        assert await owner.says() == "held"
    assert len([event for event in events if isinstance(event, Claimed)]) == 1


async def test_a_run_is_renewed_also_if_the_thread_looked_before_it_was_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run is claimed a moment before it is among those that are driven here. A thread that looks
    for leases in that moment finds none, and is told when there is one."""
    has_looked, renewed = threading.Event(), asyncio.Event()
    leases, made, renew = Leaseholder.leases, Driver.__init__, Journal.renew

    def looks(self: Leaseholder) -> list[Lease]:
        found = leases(self)
        if not found and threading.current_thread().name == "pullcord-licence":
            has_looked.set()
        return found

    def is_noted_late(self: Driver, *given: Any, **how: Any) -> None:
        assert has_looked.wait(30)
        made(self, *given, **how)

    loop = asyncio.get_running_loop()

    async def renews(self: Journal, *given: Lease, ttl_s: float) -> list[Lease]:
        lost = await renew(self, *given, ttl_s=ttl_s)
        loop.call_soon_threadsafe(renewed.set)
        return lost

    monkeypatch.setattr(Leaseholder, "leases", looks)
    monkeypatch.setattr(Driver, "__init__", is_noted_late)
    monkeypatch.setattr(Journal, "renew", renews)

    async def agent(ctx: Context) -> None:
        await ctx.step("waits", renewed.wait)

    async with asyncio.timeout(120), opened(tmp_path / "runs.db", agent=agent) as runtime:
        await (await runtime.start("agent")).result()
    assert renewed.is_set()


# --- the warden ---


async def test_what_a_warden_that_does_not_answer_holds_is_named(tmp_path: Path) -> None:
    """The owner is killed; its warden and that one's guard are stopped. Nobody can say that the
    tool is over, so nobody does."""
    path, tool = tmp_path / "runs.db", tmp_path / "ticks"
    async with child(LIVES, "ticking", str(path), LEASE_S, str(tool), is_own=True) as owner:
        pid, ticking = await driving(owner, tool)
        [guard] = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        [warden] = Path(f"/proc/{guard}/task/{guard}/children").read_text().split()
        for one in (guard, warden):
            os.kill(int(one), signal.SIGSTOP)
        await owner.kill()
        async with opened(path, ticker=ticker) as runtime:
            run = await runtime.get("r1")
            await run.cancel(by="ana")
            await run.wait_for(RunState.CANCELLED)
            said = await run.receipt()
            assert is_alive(ticking)
            assert acting(said) == ["ticks"]
            assert "may still be acting" in said.attention[0]
        for one in (guard, warden):
            os.kill(int(one), signal.SIGCONT)
        await until(lambda: not is_alive(ticking))


async def test_for_a_run_that_was_let_go_nothing_begins(tmp_path: Path) -> None:
    """Also if this process may act for others: its licence is one for all of its runs."""
    go_on = asyncio.Event()

    async def agent(ctx: Context) -> None:
        await ctx.step("waits", go_on.wait)

    async with opened(tmp_path / "runs.db", agent=agent) as runtime:
        other = await runtime.start("agent", run_id="r2")
        run = await runtime.start("agent", run_id="r1")
        await run.wait_for(RunState.RUNNING)
        drivers = worker_of(runtime).drivers
        await until(lambda: {"r1", "r2"} <= drivers.keys())
        (driver := drivers["r1"])._drop()  # pyright: ignore[reportPrivateUsage] - as when another has taken it over
        assert worker_of(runtime).licence.holds
        with pytest.raises(Fenced):
            await driver.live.licensed()
        go_on.set()
        await other.result()
