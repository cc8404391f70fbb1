"""A cancel right behind any record of a run with a tool: what never began is not attempted and not
undone, what began is never said not to have."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

import pytest

from pullcord import Call, Context, Receipt, RunState, Runtime, Timing
from pullcord.core.commands import Cancel
from pullcord.core.events import StepInterrupted
from pullcord.journal.clock import SystemClock
from pullcord.journal.journal import Journal
from pullcord.journal.memory_store import MemoryStore
from pullcord.journal.rules.ledger import Ledger
from pullcord.journal.store import Store, Transaction
from pullcord.testing.crashing import WrappedStore
from tests.declaring import declared_as
from tests.runs import some_tools
from tests.runs.observed_runs import BOUND_S

T = TypeVar("T")
LAST: Final = 6  # records of a run that calls one tool, and one that never comes


class CancellingStore(WrappedStore):
    """Somebody cancels the run right behind its n-th record, before anybody learns of that one."""

    def __init__(self, inner: Store, at: int) -> None:
        super().__init__(inner)
        self._at = at
        self._ledger = Ledger(SystemClock())

    def write(self, job: Callable[[Transaction], T]) -> T:
        result = self._inner.write(job)
        self._inner.write(self._cancel)
        return result

    def _cancel(self, tx: Transaction) -> None:
        if (head := tx.head("r1")) and head.seq == self._at:
            self._ledger.command(tx, "r1", Cancel(by="ana"))


def forgets(call: Call) -> None:
    some_tools.happened(call.args["path"], "undone")


async def _in_loop(path: str, what: str) -> bool:
    return some_tools.happened(path, what)


async def cancelled_at(at: int, place: str, path: Path) -> tuple[Receipt, list[StepInterrupted]]:
    declared = declared_as(undo=forgets, **({} if place == "loop" else {"run_in": place}))
    tool: Callable[..., Any] = declared(_in_loop if place == "loop" else some_tools.happened)

    async def agent(ctx: Context) -> Any:
        return await ctx.tool(tool, str(path), "entered")

    store = CancellingStore(MemoryStore(), at)
    timing = Timing(quiet_s=0.002, breath_s=0.001)
    async with (
        asyncio.timeout(BOUND_S),
        Runtime(Journal(store), agents={"agent": agent}, timing=timing) as runtime,
    ):
        run = await runtime.start("agent", run_id="r1")
        await run.wait_for(RunState.CANCELLED, RunState.COMPLETED)
        records = await runtime.journal.read("r1")
        receipt = await run.receipt()
    return receipt, [r.event for r in records if isinstance(r.event, StepInterrupted)]


@pytest.mark.parametrize("place", ["loop", "thread", "process"])
async def test_what_never_began_is_neither_interrupted_nor_undone(
    place: str, tmp_path: Path
) -> None:
    states: list[RunState] = []
    headings: set[str] = set()
    for at in range(1, LAST + 1):
        path = tmp_path / f"{at}"
        receipt, interrupted = await cancelled_at(at, place, path)
        did = path.read_text().split() if path.exists() else []
        states.append(receipt.state)
        for step in receipt.steps:
            headings.add(step.heading)
            if "entered" in did:
                assert step.heading == "undone" or receipt.state == RunState.COMPLETED, (at, step)
            elif place != "process":  # a process begins before its function does
                assert step.heading == "not_attempted", (at, step)
        if any(not event.began for event in interrupted):
            assert did == [], f"{at}: it began, or was undone"
        if "undone" in did and place != "process":
            assert did == ["entered", "undone"], at
    assert states == [RunState.CANCELLED] * 4 + [RunState.COMPLETED] * 2
    assert headings == {"not_attempted", "undone", "done"}
