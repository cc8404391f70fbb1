"""An owner whose line to the database goes silent: it holds what it does before another process may
take its run over, and loses nothing if nobody does. See tests/promises for the same on SQLite."""

from pathlib import Path
from typing import Any

import pullcord
from pullcord import RunState, Runtime, Timing
from tests.postgres.partition import a_line
from tests.postgres.server import Server
from tests.promises.children import child
from tests.promises.lease_owners import (
    LEASE_S,
    LIVES,
    driving,
    is_alive,
    nothing_was_asked,
    stands_still,
    ticks_of,
    until,
)
from tests.promises.licence_lives import ticker


def opened(url: str, **agents: Any) -> Runtime:
    return pullcord.open(url, agents=agents, timing=Timing(lease_s=float(LEASE_S)))


async def test_its_tool_is_dead_when_another_process_says_cancelled(
    server: Server, tmp_path: Path
) -> None:
    url, tool = server.url("cut_off"), tmp_path / "ticks"
    async with (
        a_line(server, tmp_path / "line") as line,
        child(LIVES, "ticking", line.url("cut_off"), LEASE_S, str(tool)) as owner,
    ):
        _, ticking = await driving(owner, tool)
        line.is_up.clear()
        async with opened(url, ticker=ticker) as runtime:
            run = await runtime.get("r1")
            await run.cancel(by="ana")
            await run.wait_for(RunState.CANCELLED)
            assert not is_alive(ticking), "cancelled, and its tool is there"
        line.is_up.set()
        await owner.tell("end")
    assert len({by for _, by in ticks_of(tool)}) == 1


async def test_a_silence_longer_than_a_lease_costs_nothing(server: Server, tmp_path: Path) -> None:
    url, tool = server.url("silent"), tmp_path / "ticks"
    async with (
        a_line(server, tmp_path / "line") as line,
        child(LIVES, "ticking", line.url("silent"), LEASE_S, str(tool)) as owner,
    ):
        _, ticking = await driving(owner, tool)
        line.is_up.clear()
        await until(lambda: stands_still(tool))
        assert is_alive(ticking)
        before = len(ticks_of(tool))
        line.is_up.set()
        await until(lambda: len(ticks_of(tool)) > before)
        Path(f"{tool}.end").touch()
        await owner.tell("result")
        assert await owner.says() == "ticked"
        await owner.tell("end")
    assert len({by for _, by in ticks_of(tool)}) == 1
    await nothing_was_asked(url)
