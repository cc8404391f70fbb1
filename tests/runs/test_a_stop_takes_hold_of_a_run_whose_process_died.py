"""A stop needs nobody else: if the process that drove a run is dead, it takes hold all the same."""

from pathlib import Path
from typing import Literal

import pytest

import pullcord
from pullcord.core.states import RunState
from tests.cli.terminal import Terminal, agent


@pytest.mark.parametrize(
    ("verb", "state"), [("pause", RunState.PAUSED), ("cancel", RunState.CANCELLED)]
)
async def test_it_takes_hold_at_once(
    tmp_path: Path, verb: Literal["pause", "cancel"], state: RunState
) -> None:
    terminal = Terminal(tmp_path)
    with terminal.running("run", agent("hangs"), "--run-id", "r1") as process:
        terminal.until(lambda _: bool(terminal.effects()))
        process.kill()
        process.wait()
    async with pullcord.open(terminal.store) as runtime:  # knows no agent
        run = await runtime.get("r1")
        ack = await (run.pause(by="ana") if verb == "pause" else run.cancel(by="ana"))
        assert (ack.verdict, ack.state) == ("applied", state)
        assert (await run.look()).state is state


async def test_what_somebody_drives_is_left_to_them(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with terminal.running("run", agent("hangs"), "--run-id", "r1"):
        terminal.until(lambda _: bool(terminal.effects()))
        async with pullcord.open(terminal.store) as runtime:
            ack = await (await runtime.get("r1")).pause(by="ana")
    assert (ack.verdict, ack.state) == ("applied", RunState.PAUSING)
