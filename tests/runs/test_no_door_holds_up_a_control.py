"""What an agent has under way beside its steps holds up no control: a check of a call, a wait at
the gate, a clean-up, a wait before another attempt."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from pullcord import Call, Context, Interrupted, Retry, RunHandle, RunState, Timing, tool
from pullcord.core.events import QuestionAsked
from pullcord.runtime.tools import tool_call
from tests.runs.observed_runs import HASTY, OutsideWorld, runtime_with, seen

LONG_S = 3600.0


async def test_a_pause_takes_hold_while_a_call_in_doubt_waits_to_be_looked_into(
    tmp_path: Path,
) -> None:
    """The branch stood busy at the shut gate: the run was pausing for ever, and nothing closed."""
    world, in_time = OutsideWorld(), asyncio.Event()
    lives: list[int] = []

    async def has_happened(_: Call) -> bool:
        return True

    @tool(effect="once", probe=has_happened)
    async def pay() -> None:
        world.noticed.set()
        await asyncio.Event().wait()

    async def agent(ctx: Context) -> None:
        lives.append(1)
        is_first = len(lives) == 1

        async def works() -> None:
            if not is_first:
                await ctx.branch("works").step("slow", world.slow, 1)

        async def pays() -> None:
            if not is_first:
                await in_time.wait()
            await ctx.branch("pays").tool(pay)

        await asyncio.gather(works(), pays())

    async with runtime_with(tmp_path / "runs.db", timing=HASTY, agent=agent) as runtime:
        await runtime.start("agent", run_id="r1")
        await world.noticed.wait()
    async with runtime_with(tmp_path / "runs.db", timing=HASTY, agent=agent) as runtime:
        run = await runtime.get("r1")
        await world.begun.wait()
        await run.pause(by="ana")
        in_time.set()
        await asyncio.sleep(0)
        world.go_on.set()
        await run.wait_for(RunState.PAUSED)
        await run.resume(by="ana")
        await run.result()


@asynccontextmanager
async def checking(
    path: Path, monkeypatch: pytest.MonkeyPatch, *, deferred: bool = False
) -> AsyncGenerator[tuple[RunHandle, asyncio.Event]]:
    """A run whose approved call is being checked, which takes as long as it may; and an event that
    is set when the check is cut."""
    monkeypatch.setattr(tool_call, "_CHECK_S", LONG_S)
    begun, cut = asyncio.Event(), asyncio.Event()

    async def still_valid(_: Call) -> bool:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cut.set()
        return True

    @tool(approve="always", still_valid=still_valid, deferred=deferred)
    async def pay() -> None: ...

    async def agent(ctx: Context) -> None:
        await ctx.tool(pay)

    async with runtime_with(path, timing=HASTY, agent=agent) as runtime:
        run = await runtime.start("agent", run_id="r1")
        card = (await seen(run, QuestionAsked)).question
        await run.approve(card, by="ana")
        await begun.wait()
        yield run, cut


@pytest.mark.parametrize("deferred", [False, True])
@pytest.mark.parametrize("is_paused", [False, True])
async def test_a_shutdown_waits_for_no_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deferred: bool, is_paused: bool
) -> None:
    async with checking(tmp_path / "runs.db", monkeypatch, deferred=deferred) as (run, cut):
        if is_paused:
            await run.pause(by="ana")
    assert cut.is_set()


@pytest.mark.parametrize("deferred", [False, True])
async def test_a_cancel_waits_for_no_check(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, deferred: bool
) -> None:
    async with checking(tmp_path / "runs.db", monkeypatch, deferred=deferred) as (run, cut):
        await run.cancel(by="ana")
        await run.wait_for(RunState.CANCELLED)
        assert cut.is_set()


async def test_a_second_press_does_not_wait_for_a_clean_up() -> None:
    cleaning = asyncio.Event()

    async def agent(ctx: Context) -> None:
        try:
            await ctx.ask("Go on?")
        except Interrupted:
            cleaning.set()
            await asyncio.Event().wait()

    async with runtime_with(timing=Timing(stop_grace_s=LONG_S), agent=agent) as runtime:
        run = await runtime.start("agent")
        await run.wait_for(RunState.WAITING)
        await run.cancel(by="ana")
        await cleaning.wait()
        await run.cancel(by="ana", now=True)
        await run.wait_for(RunState.CANCELLED)


async def test_another_attempt_waits_for_no_answer_to_something_else() -> None:
    """A run that waits for a person is parked, and its retry came only with the answer."""
    tries: list[int] = []
    done = asyncio.Event()

    async def flaky() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise ValueError("not yet")
        done.set()

    async def agent(ctx: Context) -> None:
        again = Retry(attempts=2, wait_s=0.3)
        await asyncio.gather(
            ctx.branch("asks").ask("Go on?"),
            ctx.branch("tries").step("flaky", flaky, effect="idempotent", retry=again),
        )

    timing = Timing(park_after_s=0, quiet_s=0)
    async with runtime_with(timing=timing, agent=agent) as runtime:
        run = await runtime.start("agent")
        await done.wait()
        await run.cancel(by="ana")
        await run.wait_for(RunState.CANCELLED)
