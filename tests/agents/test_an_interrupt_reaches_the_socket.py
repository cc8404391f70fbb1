"""An interrupt reaches the socket: at whatever moment it comes, in whatever state the owner is, the
provider sees the connection end; nothing more is shown or asked, and nothing leaks."""

import asyncio
import gc
import os
import random
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.models import Model, StreamedResponse
from pydantic_ai.models.fallback import FallbackModel
from pydantic_ai.models.wrapper import WrapperModel

from pullcord import RunHandle, RunState
from pullcord.core.commands import Cancel, Pause, Redirect
from pullcord.core.events import StepFailed, StepStarted
from pullcord.journal.journal import Journal
from tests.agents.interrupts import CONTROLS, LONG, PHASES, WIDE, Blow, Tally, strike
from tests.agents.line import Line, line, pool_of
from tests.agents.provider.dialect_models import model_for
from tests.agents.provider.dialects import DIALECTS, Dialect
from tests.agents.provider.fake import FakeProvider
from tests.agents.provider.never_accepts import NeverAccepts
from tests.agents.provider.reply import call, say
from tests.agents.scripted_agents import Ledger, runtime_of
from tests.promises.children import child
from tests.runs.observed_runs import happened, seen, shown
from tests.storage.campaign import FULL, fresh_seed

pytestmark = [pytest.mark.campaign, pytest.mark.timeout(600 if FULL else 120)]
each_dialect = pytest.mark.parametrize("dialect", DIALECTS if FULL else DIALECTS[:1])
each_stop = pytest.mark.parametrize("control", ["cancel", "redirect", "pause now"])


@pytest.fixture
async def complaints() -> AsyncGenerator[list[str]]:
    """What the event loop complains of: an error that nobody took, a task that was lost."""
    heard: list[str] = []
    loop = asyncio.get_running_loop()
    loop.set_exception_handler(lambda _, context: heard.append(str(context)))
    yield heard
    assert heard == []
    gc.collect()  # here, and not in some other test


def sockets_open() -> int:
    """How many sockets this process has open."""
    found = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{fd}").startswith("socket:")
        except FileNotFoundError:
            pass  # it was the one that is used to look
    return found


async def pull(run: RunHandle, control: str) -> None:
    match control:
        case "cancel":
            ack = await run.cancel()
        case "redirect":
            ack = await run.redirect("carrots!")
        case _:
            ack = await run.pause(now=True)
    assert ack.holds


# --- the campaign ---


# What the providers' clients leave to the garbage collector is not ours.
@pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning")
async def test_interrupts_at_any_moment_are_neither_lost_nor_late(complaints: list[str]) -> None:
    """A thousand of them in full: each takes effect, and each request under way is cut."""
    chance = random.Random(fresh_seed())
    wanted = 1000 if FULL else 42
    drawn = [Blow(phase, control, chance.randrange(1, 40)) for phase in PHASES
             for control in CONTROLS]  # fmt: skip
    chance.shuffle(drawn)
    drawn += [Blow.drawn(chance) for _ in range(wanted - len(drawn))]
    before, tally = sockets_open(), Tally()
    for start in range(0, wanted, 14):
        dialect = DIALECTS[start // 14 % 3]
        async with line(dialect, connections=2) as here:
            for n, blow in enumerate(drawn[start : min(start + 14, wanted)], start=start):
                try:
                    async with asyncio.timeout(14):
                        await strike(here, blow, tally, thread=f"t{n}")
                except BaseException:
                    print(f"interrupt {n}: {dialect}, {blow}")
                    raise
            await here.is_still_usable()
    print(tally)
    assert tally.done == wanted
    assert tally.missed <= wanted // 20
    assert max(tally.closed_s) < 5
    assert sockets_open() <= before + 1
    assert complaints == []


# The clients leave the generators of a response that was cut to the garbage collector, which may
# come by in the provider's thread while one of them is being closed in ours.
@pytest.mark.filterwarnings("default::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("phase", ["no headers", "inside a character", "stalled", "flooding"])
async def test_many_cancels_leak_neither_sockets_nor_places_in_the_pool(
    phase: Any, complaints: list[str]
) -> None:
    """Two thousand in full, through a pool of two connections; a third of them pressed twice, and
    a third in a hurry from the first."""
    chance = random.Random(fresh_seed())
    rounds = 500 if FULL else 13
    tally, before = Tally(), sockets_open()
    for start in range(0, rounds, 25):
        async with line(DIALECTS[start // 25 % 3], connections=2) as here:
            for n in range(start, min(start + 25, rounds)):
                control = chance.choice(("cancel", "cancel now", "cancel twice"))
                blow = Blow(phase, control, chance.randrange(1, 9))
                async with asyncio.timeout(120):  # one that hangs is told from many that are slow
                    await strike(here, blow, tally, thread=f"t{n}")
                assert len(here.provider.open_connections()) <= 2
            assert here.pool._requests == []
            assert all(one.is_idle() for one in here.pool._connections)
            await here.is_still_usable()
    print(tally)
    assert tally.cut == rounds or phase == "flooding"
    assert sockets_open() <= before + 1


# --- before there is a connection ---


@each_stop
async def test_a_connect_that_hangs_is_given_up(control: str, complaints: list[str]) -> None:
    before = sockets_open()
    with NeverAccepts() as url:
        async with model_for("chat", f"{url}/v1") as model:
            agent = Agent(model, name="talker")
            async with runtime_of(agent) as runtime:
                run = await runtime.start(agent, "go")
                await seen(run, StepStarted)
                pool = pool_of(model)
                while not pool._requests:  # noqa: ASYNC110
                    await asyncio.sleep(0.001)
                await pull(run, control)
                match control:
                    case "cancel":
                        assert (await run.receipt()).state is RunState.CANCELLED
                    case "redirect":
                        await seen(run, StepStarted, nth=2)
                    case _:
                        await run.wait_for(RunState.PAUSED)
                if control != "cancel":
                    await run.cancel()
                receipt = await run.receipt()
                assert (receipt.state, receipt.attention) == (RunState.CANCELLED, ())
                assert (pool._requests, pool._connections) == ([], [])
    assert sockets_open() <= before
    assert complaints == []


# --- connections that are shared ---


@each_dialect
async def test_a_connection_is_used_again_also_after_others_were_cut(dialect: Dialect) -> None:
    async with line(dialect, *[say(f"Number {n}.") for n in range(3)]) as here:
        for n in range(3):
            assert await (await here.start()).result() == f"Number {n}."
        assert len(here.provider.connections) == 1
        here.provider.script = [say(LONG, stall_after=1)]
        run = await here.start()
        await here.provider.async_wait_stalled(3)
        await run.cancel()
        await run.receipt()
        assert (await here.provider.async_wait_closed(3)).cut_short
        for _ in range(2):
            await here.is_still_usable()
        assert len(here.provider.connections) == 2


@each_dialect
@each_stop
async def test_cutting_one_run_does_not_cut_another(dialect: Dialect, control: str) -> None:
    """Both answers are under way, through one client."""
    async with line(dialect) as here:
        here.provider.script = lambda s: say(LONG if s.index < 2 else "Fine.", stall_after=2)
        kept = await here.start("keep me", thread="t1")
        await here.provider.async_wait_stalled(0)
        cut = await here.start("cut me", thread="t2")
        await here.provider.async_wait_stalled(1)
        await pull(cut, control)
        assert (await here.provider.async_wait_closed(1)).cut_short
        assert here.provider.seen[0].closed_at is None
        here.provider.release(0)
        assert await kept.result() == LONG
        assert await happened(here.runtime, kept.id, StepFailed) == []
        if control != "cancel":
            await cut.cancel()
        await cut.receipt()


@each_dialect
async def test_a_run_does_not_cut_the_connection_that_it_used_before(dialect: Dialect) -> None:
    """It is in a tool by now, and its connection is another's."""
    ledger = Ledger()
    script = call("slow", {"what": "a"}), say(LONG, stall_after=2)
    async with line(dialect, *script, tools=[ledger.slow]) as here:
        run = await here.start(thread="t1")
        await ledger.begun.wait()
        other = await here.start(thread="t2")
        await here.provider.async_wait_stalled(1)
        assert here.provider.seen[0].connection is here.provider.seen[1].connection
        await run.cancel()
        await run.receipt()
        here.provider.release(1)
        assert await other.result() == LONG
        assert await happened(here.runtime, other.id, StepFailed) == []


async def test_a_run_that_waits_for_a_connection_gets_the_place_of_one_that_is_cut() -> None:
    async with line("chat", say(LONG, stall_after=2), say("Fine."), connections=1) as here:
        first = await here.start(thread="t1")
        await here.provider.async_wait_stalled(0)
        second = await here.start(thread="t2")
        await seen(second, StepStarted)
        await first.cancel()
        assert await second.result() == "Fine."
        assert (await here.provider.async_wait_closed(0)).cut_short
        assert await happened(here.runtime, second.id, StepFailed) == []


async def test_a_run_that_waits_for_a_connection_can_be_cancelled() -> None:
    async with line("chat", say(LONG, stall_after=2), connections=1) as here:
        first = await here.start(thread="t1")
        await here.provider.async_wait_stalled(0)
        second = await here.start(thread="t2")
        await seen(second, StepStarted)
        while len(here.pool._requests) < 2:  # noqa: ASYNC110
            await asyncio.sleep(0.001)
        await second.cancel()
        assert (await second.receipt()).state is RunState.CANCELLED
        assert len(here.pool._requests) == 1
        here.provider.release()
        assert await first.result() == LONG
        assert len(here.provider.seen) == 1


async def test_a_cancel_at_the_very_end_does_not_cut_who_comes_next(
    complaints: list[str],
) -> None:
    """Both want the only connection: the second has it as soon as the first is answered, and that
    is when the first is cancelled."""
    chance = random.Random(fresh_seed())
    for _ in range(10 if FULL else 1):
        async with line("chat", connections=1) as here:
            for n in range(15):
                await _pass_it_on(here, n, chance.randrange(60))
    assert complaints == []


async def _pass_it_on(here: Line, n: int, turns: int) -> None:
    at = len(here.provider.seen)
    here.provider.script = [say(WIDE, stall_after=2), say("Fine."), say("Fine.")]
    first = await here.start(thread=f"a{n}")
    await here.provider.async_wait_stalled(at)
    second = await here.start(thread=f"b{n}")
    await seen(second, StepStarted)
    here.provider.release(at)
    for _ in range(turns):
        await asyncio.sleep(0)
    await first.cancel()
    assert await second.result() == "Fine."
    await first.receipt()
    assert await happened(here.runtime, second.id, StepFailed) == []


class Lingering(WrapperModel):
    """Has something to do after the first answer, when its connection is free again."""

    def __init__(self, wrapped: Model) -> None:
        super().__init__(wrapped)
        self.begun, self.go_on = asyncio.Event(), asyncio.Event()

    @asynccontextmanager
    async def request_stream(self, *args: Any, **more: Any) -> AsyncGenerator[StreamedResponse]:
        async with super().request_stream(*args, **more) as stream:
            yield stream
        if not self.begun.is_set():
            self.begun.set()
            await self.go_on.wait()


async def test_a_request_that_lingers_does_not_cut_who_has_its_connection_now() -> None:
    lingering: list[Lingering] = []

    def wrap(model: Model) -> Model:
        lingering.append(Lingering(model))
        return lingering[0]

    async with line("chat", say("One."), say(LONG, stall_after=2), wrap=wrap) as here:
        first = await here.start(thread="t1")
        await lingering[0].begun.wait()
        second = await here.start(thread="t2")
        await here.provider.async_wait_stalled(1)
        assert here.provider.seen[0].connection is here.provider.seen[1].connection
        await first.cancel()
        assert (await first.receipt()).state is RunState.CANCELLED
        assert here.provider.seen[1].closed_at is None
        here.provider.release()
        assert await second.result() == LONG
        assert await happened(here.runtime, second.id, StepFailed) == []


async def test_no_other_model_is_asked_in_place_of_one_that_was_cut() -> None:
    """A fallback takes the end of the connection for trouble, and tries the next model."""

    def wrap(model: Model) -> Model:
        return FallbackModel(model, model, model)

    reply = say(LONG, stall_before_headers=True)
    async with line("chat", reply, say("Never."), say("Never."), wrap=wrap) as here:
        run = await here.start()
        await here.provider.async_wait_stalled(0)
        await run.cancel()
        assert (await run.receipt()).state is RunState.CANCELLED
        assert (await here.provider.async_wait_closed(0)).cut_short
        await here.is_quiet()
        assert len(here.provider.seen) == 1
        assert all(b"POST" not in one.received for one in here.provider.connections[1:])


# --- the owner hears nothing ---


BLOCKED = [
    ("asleep", "another", "cancel"),
    ("asleep", "another", "pause now"),
    ("asleep", "another", "redirect"),
    ("asleep", "thread", "cancel"),
    ("busy", "another", "cancel"),
    ("busy", "thread", "cancel"),
]


@each_dialect
@pytest.mark.parametrize(("how", "who", "control"), BLOCKED if FULL else [*BLOCKED[:3], BLOCKED[5]])
async def test_the_provider_sees_the_close_also_when_the_owners_loop_is_blocked(
    tmp_path: Path, dialect: Dialect, how: str, who: str, control: str
) -> None:
    with FakeProvider() as provider:
        provider.script = lambda s: say(LONG if s.index == 0 else "Fine.", stall_after=2)
        async with _owner(tmp_path / "runs.db", dialect, provider, how, who) as owner:
            assert await owner.says() == "blocked"
            if who == "another":
                await _command(tmp_path / "runs.db", control)
            assert (await provider.async_wait_closed(0, timeout_s=30)).cut_short
            assert len(provider.seen) == 1
            if control == "redirect":
                await owner.tell("go on")
                await provider.async_wait_for(2)
                await _command(tmp_path / "runs.db", "cancel")
            else:
                await owner.tell("go on")
            state, rung, _ = (await owner.says()).split()
            assert state == ("paused" if control == "pause now" else "cancelled")
            assert rung == "transport_closed"


@each_dialect
async def test_a_blocked_owner_that_waits_for_headers(tmp_path: Path, dialect: Dialect) -> None:
    with FakeProvider() as provider:
        provider.script = [say(LONG, stall_before_headers=True)]
        store = tmp_path / "runs.db"
        async with _owner(store, dialect, provider, "asleep", "another", "silent") as owner:
            await provider.async_wait_stalled(0, timeout_s=30)
            await owner.tell("it has the request")
            assert await owner.says() == "blocked"
            await _command(store, "cancel")
            assert (await provider.async_wait_closed(0, timeout_s=30)).cut_short
            await owner.tell("go on")
            assert await owner.says() == "cancelled transport_closed 0"


@each_dialect
async def test_a_blocked_owner_whose_client_was_used_before(
    tmp_path: Path, dialect: Dialect
) -> None:
    """Its connection is older than the runtime, which has not seen it being opened."""
    with FakeProvider() as provider:
        provider.script = [say("Hello."), say(LONG, stall_after=2)]
        store = tmp_path / "runs.db"
        async with _owner(store, dialect, provider, "asleep", "another", "warm") as owner:
            assert await owner.says() == "blocked"
            assert provider.seen[0].connection is provider.seen[1].connection
            await _command(store, "cancel")
            assert (await provider.async_wait_closed(1, timeout_s=10)).cut_short
            await owner.tell("go on")
            assert (await owner.says()).startswith("cancelled transport_closed")


@asynccontextmanager
async def _owner(
    store: Path, dialect: Dialect, provider: FakeProvider, *how: str
) -> AsyncGenerator[Any]:
    args = str(store), dialect, provider.url(dialect), *how
    async with child("tests.agents.blocked_owner", *args) as owner:
        yield owner


async def _command(store: Path, control: str) -> None:
    commands = {
        "cancel": Cancel(by="ana"),
        "pause now": Pause(by="ana", now=True),
        "redirect": Redirect(by="ana", instruction="carrots!"),
    }
    async with Journal.open(store) as journal:
        assert (await journal.command("r1", commands[control])).verdict == "applied"


async def test_what_was_shown_is_what_people_saw() -> None:
    """The text of a cut answer, as the next turn finds it, is what a watcher has seen."""
    async with line("chat", say(LONG, stall_after=9)) as here:
        run = await here.start()
        await here.provider.async_wait_stalled(0)
        saw = await shown(run, here.provider.seen[0].sent_text)
        await run.cancel()
        assert (await run.receipt()).partial_text == (saw,)
        await here.is_still_usable()
        assert saw.rstrip() in str(here.provider.seen[1].body)
