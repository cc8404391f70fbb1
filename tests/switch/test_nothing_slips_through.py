"""What a reviewer once got past the kill switch: releases, undos, children, numbers of others."""

import asyncio
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from pullcord import Call, Context, RunState, Timing, tool
from pullcord.core.commands import Resume
from pullcord.core.events import Created, LimitReached
from pullcord.core.values import NULL
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Lease
from pullcord.killswitch.asking import Asked
from pullcord.killswitch.engaging import pull
from pullcord.killswitch.flags import Flags, Scope, new_note
from pullcord.killswitch.presence import Present, announce, present
from pullcord.limits import MaxSteps
from pullcord.process import new_owner
from pullcord.runtime.runtime import worker_of
from tests.runs.observed_runs import OutsideWorld, runtime_with
from tests.runs.tool_maker import until
from tests.switch.pulling import engage, release


class Stairs:
    """Something that is done in a thread, and goes on until the test has seen enough."""

    def __init__(self) -> None:
        self.begun = asyncio.Event()
        self.enough = threading.Event()
        self._loop = asyncio.get_running_loop()

    def climb(self) -> None:
        self._loop.call_soon_threadsafe(self.begun.set)
        self.enough.wait(30)


async def test_what_is_to_be_released_is_released_after_the_switch_is(tmp_path: Path) -> None:
    world = OutsideWorld()

    async def let_go(what: str) -> None:
        world.did.append(f"{what} begins")
        world.begun.set()
        await world.go_on.wait()
        world.did.append(f"{what} is released")

    async def agent(ctx: Context) -> str:
        await ctx.defer(let_go, "lock")
        await ctx.defer(let_go, "session")
        return "done"

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await world.begun.wait()
        assert (await engage(runtime)).left == []
        world.go_on.set()
        await run.wait_for(RunState.PAUSED)
        assert world.did == ["session begins"]
        await release(runtime)
        await run.resume(by="ana")
        assert await run.result() == "done"
    assert world.did[1:] == [
        "session begins",
        "session is released",
        "lock begins",
        "lock is released",
    ]


async def test_an_undo_in_a_thread_is_named(tmp_path: Path) -> None:
    stairs = Stairs()

    def take_back(_call: Call) -> None:
        stairs.climb()

    @tool(undo=take_back, run_in="loop")
    async def send() -> str:
        return "sent"

    async def agent(ctx: Context) -> None:
        await ctx.tool(send)
        await ctx.ask("And now?")

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await run.wait_for(RunState.WAITING)
        await run.cancel(by="ana")
        await stairs.begun.wait()
        named = [one.what for one in (await engage(runtime)).left]
        stairs.enough.set()
        assert [what.partition(" in process")[0] for what in named] == [
            "the undo of 'send' of run r1"
        ]
        await release(runtime)


async def test_what_a_lost_run_has_left_in_a_thread_is_named(tmp_path: Path) -> None:
    """Its driver has let go of it; the thread has not heard of anything."""
    stairs = Stairs()

    async def climb() -> None:
        await asyncio.to_thread(stairs.climb)

    async def agent(ctx: Context) -> None:
        await ctx.step("climb", climb)

    async with runtime_with(
        tmp_path / "runs.db", agent=agent, timing=Timing(stop_grace_s=60)
    ) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await stairs.begun.wait()
        owner = (await runtime.journal.head(run.id)).holder.owner
        await runtime.journal.release(Lease(run.id, owner, epoch=1))
        assert await runtime.journal.acquire(run.id, owner=new_owner(), ttl_s=60)
        await until(lambda: run.id not in worker_of(runtime).drivers)
        named = [one.what for one in (await engage(runtime)).left]
        assert f"step 'climb' of run r1 in process {os.getpid()}" in named
        stairs.enough.set()


async def test_a_server_that_pulls_it_does_not_kill_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be killed, and cannot stop what it does; but who would answer the admin then?"""
    stairs, signals = Stairs(), list[int]()

    def note(_pidfd: int, number: int) -> None:
        signals.append(number)

    monkeypatch.setattr(signal, "pidfd_send_signal", note)

    @tool(run_in="thread")
    def climb() -> None:
        stairs.climb()

    async def agent(ctx: Context) -> None:
        await ctx.tool(climb)

    async with runtime_with(
        tmp_path / "runs.db", timing=Timing(killable=True), agent=agent
    ) as runtime:
        await runtime.start("agent", run_id="r1")
        await stairs.begun.wait()
        pulled = await engage(runtime)
        stairs.enough.set()
    assert (signals, pulled.killed) == ([], [])
    assert pulled.left[0].why.endswith("the process is this very process")


def test_another_users_process_is_not_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The name of the socket is free for all; what goes on here is not for all to know."""
    name = f"pullcord-test-{os.urandom(6).hex()}"
    asked = Asked(name, within_s=30)
    mine, theirs = (socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) for _ in range(2))
    with mine, theirs, monkeypatch.context() as patched:
        if os.geteuid() == 0:  # the kernel notes who connects: as root we can be somebody else
            os.seteuid(65534)
            theirs.connect(f"\0{name}")
            os.seteuid(0)
        else:
            theirs.connect(f"\0{name}")
            patched.setattr(os, "geteuid", lambda: os.getuid() + 1)
        asked.hear()
        assert not asked.is_asked
        assert theirs.recv(1) == b""
        patched.undo()
        mine.connect(f"\0{name}")
        asked.hear()
        assert asked.is_asked
    asked.close()


async def test_an_agent_whose_other_branch_waits_at_a_door_is_named(tmp_path: Path) -> None:
    world = OutsideWorld()

    async def deaf() -> None:
        while not world.go_on.is_set():
            try:
                await world.go_on.wait()
            except asyncio.CancelledError:
                pass

    async def agent(ctx: Context) -> None:
        asking = asyncio.create_task(ctx.branch("b").ask("May I?"))
        try:
            await deaf()
        finally:
            asking.cancel()

    async with runtime_with(tmp_path / "runs.db", agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        await run.wait_for(RunState.WAITING)
        [named] = (await engage(runtime)).left
        world.go_on.set()
        assert named.what.startswith("the agent of run r1")


@pytest.mark.parametrize("is_detached", [False, True])
async def test_children_are_held_with_whom_they_work_for(tmp_path: Path, is_detached: bool) -> None:
    world, born = OutsideWorld(), asyncio.get_running_loop().create_future()

    async def worker(ctx: Context) -> None:
        await ctx.ask("May I?")
        await ctx.step("work", world.do, "worked")

    async def boss(ctx: Context) -> None:
        child = await ctx.spawn("worker", detached=is_detached)
        born.set_result(child.run_id)
        await ctx.ask("And now?")

    async with runtime_with(tmp_path / "runs.db", boss=boss, worker=worker) as runtime:
        run = await runtime.start("boss", run_id="r1")
        child = await runtime.get(await born)
        await run.wait_for(RunState.WAITING)
        await child.wait_for(RunState.WAITING)
        await engage(runtime, Scope("agent", "boss"))
        await run.wait_for(RunState.PAUSED)
        held, _ = await runtime.journal.kill_switch.held()
        assert (child.id in held) is not is_detached
        if is_detached:
            assert (await child.snapshot()).state is RunState.WAITING
        else:
            await child.wait_for(RunState.PAUSED)
            said = await runtime.journal.command(child.id, Resume(by="ana"))
            assert (said.verdict, said.reason) == ("rejected", "kill_switch")
        await release(runtime, Scope("agent", "boss"))


async def test_a_run_that_wraps_up_has_no_last_word(tmp_path: Path) -> None:
    world = OutsideWorld()

    async def agent(ctx: Context) -> str:
        for number in range(9):
            await ctx.step("work", world.do, number)
        return "never"

    async def wraps_up(ctx: Context) -> str:
        try:
            return await agent(ctx)
        finally:
            world.begun.set()
            await world.go_on.wait()
            await ctx.say("one more thing")

    async with runtime_with(tmp_path / "runs.db", agent=wraps_up) as runtime:
        run = await runtime.start("agent", run_id="r1", limits=MaxSteps(2), on_exhausted="wrap_up")
        await world.begun.wait()
        assert (await run.snapshot()).state is RunState.STOPPING
        await engage(runtime)
        await run.wait_for(RunState.STOPPED)
        world.go_on.set()
        await release(runtime)
        assert (await run.snapshot()).state is RunState.STOPPED
        assert not await runtime.journal.live_text.unended("r1")


async def test_nor_has_one_whose_process_died_before_it(tmp_path: Path) -> None:
    """It would be said after the release, which resumes nothing."""
    async with Journal.open(tmp_path / "runs.db") as journal:
        born = Created(agent="agent", thread="r1", input=NULL)
        await journal.append(Append(run_id="r1", events=[born], expected_seq=0))
        claim = await journal.acquire("r1", owner="somebody", ttl_s=60)
        assert claim
        reached = LimitReached(by="limits", leaves=("MaxSteps(2)",), then="wrap_up")
        await journal.append(
            Append(run_id="r1", events=[reached], expected_seq=2, epoch=claim.lease.epoch)
        )
        await journal.release(claim.lease)
        assert (await journal.load("r1")).state is RunState.STOPPING
        journal.kill_switch.flags.raise_it(Scope(), new_note(by="ana", reason="", via="test"))
        assert await journal.kill_switch.hold() == ["r1"]
        assert (await journal.load("r1")).state is RunState.STOPPED
        assert await journal.kill_switch.hold() == []


# --- pulling it ---


@pytest.fixture
def side(tmp_path: Path) -> Path:
    folder = tmp_path / "runs.db-side"
    folder.mkdir()
    return folder


def pulls(side: Path) -> "tuple[list[int], list[tuple[str, str]]]":
    store = str(side).removesuffix("-side")
    note = new_note(by="ana", reason="", via="test")
    pulled = pull(Flags(store), str(side), Scope(), note)
    return pulled.killed, [(one.what, one.why) for one in pulled.left]


@pytest.fixture
def innocent() -> "Iterator[subprocess.Popen[bytes]]":
    with subprocess.Popen(["sleep", "600"]) as process:
        yield process
        process.kill()


def test_a_number_of_another_container_is_nobodys_here(
    side: Path, innocent: "subprocess.Popen[bytes]"
) -> None:
    namespace, _, rest = new_owner().partition("-")
    _, started, name = rest.split("-")
    number, _, machine = namespace[1:].partition("m")
    elsewhere = f"p{int(number) + 1}m{machine}-{innocent.pid}-{started}-{name}"
    file = announce(str(side), Present(elsewhere, is_killable=True))
    killed, [(what, why)] = pulls(side)
    assert (killed, what) == ([], f"process {innocent.pid}")
    assert "another container" in why
    assert innocent.poll() is None
    os.close(file)  # whoever it was is dead
    assert present(str(side)) == []


def test_who_is_called_killed_is_dead(
    side: Path, innocent: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch
) -> None:
    """It does not answer; and it takes its time to die, as one with much memory does."""
    began = Path(f"/proc/{innocent.pid}/stat").read_text().rpartition(")")[2].split()[19]
    namespace, _, _, name = new_owner().split("-")
    who = Present(f"{namespace}-{innocent.pid}-{began}-{name}", is_killable=True)
    file = announce(str(side), who)
    dying = threading.Timer(0.3, innocent.kill)

    def begin(_pidfd: int, _number: int) -> None:
        dying.start()

    monkeypatch.setattr(signal, "pidfd_send_signal", begin)
    assert pulls(side) == ([innocent.pid], [])
    assert innocent.poll() == -signal.SIGKILL
    dying.join()
    os.close(file)


def test_whom_nobody_can_see_is_named(side: Path) -> None:
    side.rmdir()
    side.write_bytes(b"")  # (root may read every folder)
    killed, [(what, _)] = pulls(side)
    assert (killed, what) == ([], "whoever drives runs of this store")


def test_one_with_too_many_before_us_is_silent_and_not_absent(side: Path) -> None:
    who = Present(new_owner(), is_killable=False)
    file = announce(str(side), who)
    with ExitStack() as lines:
        for address in (who.address, who.warden):
            full, *before = (
                lines.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET))
                for _ in range(4)
            )
            full.bind(f"\0{address}")
            full.listen(0)
            for one in before:
                one.setblocking(False)
                one.connect_ex(f"\0{address}")
        (_, runtime), (_, warden) = pulls(side)[1]
    assert runtime.startswith("it does not answer")
    assert warden == "its warden does not answer"
    os.close(file)


def test_a_link_that_leads_nowhere_is_a_flag(tmp_path: Path) -> None:
    flags = Flags(str(tmp_path / "runs.db"))
    Path(f"{tmp_path}/runs.db.kill-switch").symlink_to(tmp_path / "nowhere")
    assert flags.refusal(("agent", "thread"))
    assert flags.lower(Scope())
    assert not flags.refusal(("agent", "thread"))
