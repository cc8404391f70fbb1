"""Has the work of a cancelled run's children undone, in order.

A child is a run with an agent of its own, and its undos are recorded there. So the parent's owner
undoes nothing of it: it sends the command `Undo`, as a person would, and waits.
"""

import asyncio
from collections.abc import Coroutine, Sequence
from itertools import groupby
from typing import Any, Final

from pullcord.core.commands import Undo
from pullcord.core.events import AttentionRaised, ChildUndone
from pullcord.core.run import Run
from pullcord.core.undo import children_to_undo, undo_item
from pullcord.errors import ChainBroken, FormatUnknown, RunNotFound
from pullcord.journal.stored_runs.families import Effect
from pullcord.runtime.alarms import Alarm
from pullcord.runtime.driving.live_run import LiveRun

_ELSEWHERE_S: Final = 30.0  # how long to wait for a process that knows a child's agent
_RELEASED_S: Final = 1.0  # how long to wait before the next look at the kill switch


class ChildUndoing:
    """The undos of children's work, while their parent is being undone."""

    def __init__(self, live: LiveRun) -> None:
        self._live = live
        self._hurried = asyncio.Event()
        self._left = asyncio.Event()

    def hurry(self) -> None:
        """Wait no longer for processes that may never come: the second press."""
        self._hurried.set()

    def leave(self) -> None:
        """Stop here. The next owner goes on, and finds the commands."""
        self._left.set()

    async def order(self) -> list[tuple[str, list[Effect]]]:
        """Return the effects to undo, newest first, grouped into turns of one run each."""
        found = await self._live.services.journal.families.effects_to_undo(self._live.run.id)
        return [(run_id, list(effects)) for run_id, effects in groupby(found, lambda e: e.run)]

    async def have_undone(self, run_id: str, steps: Sequence[str]) -> None:
        """Send the undos, and wait until they are done, have failed, or no process can do them."""
        try:
            for step in steps:
                await self._ask(run_id, step)
            await self._wait_for(run_id, steps)
        except (ChainBroken, FormatUnknown, RunNotFound) as damaged:
            text = f"What run {run_id} did could not be undone: {damaged}"
            await self._live.record(AttentionRaised(item=f"undo-{run_id}"[:64], text=text))

    async def _ask(self, run_id: str, step: str) -> None:
        me = self._live.run
        why = me.cancel.reason if me.cancel else ""
        asked = Undo(by=me.id, reason=why, source="parent", step=step)
        while not self._left.is_set():
            ack = await self._live.services.journal.command(run_id, asked)
            if ack.reason != "kill_switch":
                return
            await self._first_of(self._left.wait(), after_s=_RELEASED_S)

    async def _wait_for(self, run_id: str, steps: Sequence[str]) -> None:
        run = await self._live.services.journal.load(run_id)
        undone = self._live.services.journal.changes.until(
            run, lambda run: not any(_is_to_be_undone(run, step) for step in steps)
        )
        if run.agent in self._live.services.agents:
            await self._first_of(undone, self._left.wait())
        else:
            ends = self._left.wait(), self._hurried.wait()
            await self._first_of(undone, *ends, after_s=_ELSEWHERE_S)
            if not self._left.is_set():
                await self._name(run, steps)

    async def _first_of(self, *ends: Coroutine[Any, Any, Any], after_s: float = 0.0) -> None:
        """Return when one of these has ended, or after that time."""
        rings = asyncio.Event()
        alarm = Alarm(self._live.services.alarms, rings.set)
        if after_s:
            alarm.set(after_s)
        tasks = [asyncio.create_task(end) for end in (*ends, rings.wait())]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            alarm.off()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
        for task in done:
            task.result()

    async def _name(self, run: Run, steps: Sequence[str]) -> None:
        """Raise an item for each step, because no process here knows the agent.

        The command stays: a process that knows the agent carries it out, and settles the item.
        """
        for step in steps:
            if not _is_to_be_undone(run, step):
                continue
            text = (
                f"Step {run.steps[step].name!r} could not be undone: no process here knows the "
                f"agent {run.agent}. Start one that does; or try again: "
                f"pullcord undo {run.id} {step}"
            )
            item = AttentionRaised(item=undo_item(step), kind="undo_failed", text=text)
            await self._live.services.journal.witness.remark(run.id, item)

    async def settle(self) -> None:
        """Record that every child was gone through: its effects are undone, or named."""
        for child in children_to_undo(self._live.run):
            steps = await self._live.services.journal.families.undone_of(child)
            await self._live.record(ChildUndone(child=child, steps=steps))


def _is_to_be_undone(run: Run, step: str) -> bool:
    return run.steps[step].undo in ("wanted", "started")
