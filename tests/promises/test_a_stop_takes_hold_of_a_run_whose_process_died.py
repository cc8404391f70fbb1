"""A stop needs nobody else: if the process that drove a run is dead, it takes hold all the same."""

import signal
from pathlib import Path
from typing import Literal

import pytest

import pullcord
from pullcord.core.commands import Cancel
from pullcord.core.events import Created
from pullcord.core.states import RunState
from pullcord.journal.journal import Journal
from pullcord.journal.memory_store import MemoryStore
from pullcord.journal.rules.ledger import Append
from pullcord.testing import ManualClock
from tests.cli.serving import serve
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
        assert (await run.snapshot()).state is state


async def test_what_somebody_drives_is_left_to_them(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    with terminal.running("run", agent("hangs"), "--run-id", "r1"):
        terminal.until(lambda _: bool(terminal.effects()))
        async with pullcord.open(terminal.store) as runtime:
            ack = await (await runtime.get("r1")).pause(by="ana")
    assert (ack.verdict, ack.state) == ("applied", RunState.PAUSING)


# --- it died while it was being cancelled: nobody presses twice (finding V15) ---


def cancelling_and_killed(terminal: Terminal, name: str = "stays_on") -> None:
    """A run that does not heed its cancel, and whose process is killed then."""
    with terminal.running("run", agent(name), "--run-id", "r1") as process:
        terminal.until(lambda run: bool(run.open_steps()))
        assert terminal("cancel", "r1").status == 0
        terminal.reached(RunState.CANCELLING)
        process.kill()
        process.wait()


async def test_any_process_that_comes_ends_it_where_nothing_is_left_to_undo(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    cancelling_and_killed(terminal)
    shown = terminal("show", "r1").out
    assert "pullcord resume" not in shown
    assert "The next one that comes here ends it: pullcord cancel r1" in shown
    async with pullcord.open(terminal.store) as runtime:  # knows no agent
        run = await (await runtime.get("r1")).wait_for(RunState.CANCELLED)
    assert run.cancel
    assert run.cancel.by == "ana"


def test_a_control_of_another_run_ends_it_too(tmp_path: Path) -> None:
    terminal = Terminal(tmp_path)
    cancelling_and_killed(terminal)
    assert terminal("run", agent("quick"), "--run-id", "r2").status == 0
    terminal("pause", "r2")
    assert terminal.ended().state is RunState.CANCELLED


async def test_what_is_to_be_undone_waits_for_who_knows_how_and_grows_no_journal(
    tmp_path: Path,
) -> None:
    terminal = Terminal(tmp_path)
    with terminal.running("run", agent("drafts"), "--run-id", "r1") as process:
        terminal.reached(RunState.WAITING)
        process.kill()
        process.wait()
    assert terminal("cancel", "r1").status == 0
    before = terminal.reached(RunState.CANCELLING).seq
    for _ in range(2):
        async with pullcord.open(terminal.store) as runtime:
            await runtime.journal.queue.finish_cancelled()
            assert (await runtime.journal.head("r1")).seq == before
    shown = terminal("show", "r1").out
    assert "pullcord resume" not in shown
    assert "pullcord undo r1" in shown
    assert terminal("undo", "r1").status == 0
    assert terminal.effects() == ["a draft", "took a draft back"]
    assert terminal.ended().state is RunState.CANCELLED


async def test_the_clock_of_a_run_whose_process_died_stands_and_never_goes_back() -> None:
    """It stands at the last sign of life, and what comes after that is nobody's work."""
    clock = ManualClock()
    async with Journal(MemoryStore(), clock=clock) as journal:
        born = Created(agent="a", thread="t")
        await journal.append(Append(run_id="r1", events=[born], expected_seq=0))
        claim = await journal.acquire("r1", owner="o", ttl_s=30)
        assert claim is not None

        async def working_ms() -> int:
            panel = await journal.for_people(lambda look: look.panel("r1"))
            return panel.times["working_ms"]

        clock.advance(15)
        await journal.renew(claim.lease, ttl_s=30)
        seen = [await working_ms()]
        clock.advance(31)  # and not a word of it
        seen.append(await working_ms())
        await journal.command("r1", Cancel(by="ana"))
        seen.append(await working_ms())
    assert seen == [15_000] * 3


@pytest.mark.parametrize("way", ["store", "server"])
def test_a_stop_of_a_process_that_stands_still_says_so(tmp_path: Path, way: str) -> None:
    terminal = Terminal(tmp_path)
    with terminal.running("run", agent("hangs"), "--run-id", "r1") as process:
        terminal.until(lambda _: bool(terminal.effects()))
        process.send_signal(signal.SIGSTOP)
        try:
            if way == "store":
                said = terminal("cancel", "r1")
            else:
                with serve(tmp_path) as server:
                    said = server("cancel", "r1")
            assert said.status == 4
            assert f"its process {process.pid} stands still" in said.err
            assert "being stopped" not in said.out + said.err
            assert "stands still" in terminal("show", "r1").out
        finally:
            process.send_signal(signal.SIGCONT)
        assert terminal.ended().state is RunState.CANCELLED
