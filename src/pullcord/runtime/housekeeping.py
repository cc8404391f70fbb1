"""Keeps house in an open store.

Housekeeping frees the runs of dead processes, rings timers, and finds the runs that need a process.
It has the engine bring those to one.
"""

import asyncio
import logging
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from pullcord.core.commands import Answer
from pullcord.core.states import NEEDS_OWNER
from pullcord.errors import JournalClosed, PullcordError, RunNotFound, StorageFailed
from pullcord.journal.store import Named
from pullcord.journal.watch import Changed
from pullcord.runtime.alarms import Alarm
from pullcord.runtime.driving.left_behind import name_if_stopped
from pullcord.runtime.engine import Engine
from pullcord.runtime.hooks.courier_thread import Couriers
from pullcord.runtime.hooks.hook import Hook
from pullcord.runtime.processes.started_work import StartedWork, is_any_known
from pullcord.runtime.watching.log_redaction import Redacted
from pullcord.runtime.worker import ProcessWorker

_log: Final = logging.getLogger("pullcord.runtime")
_BATCH: Final = 50
_ENDING_S: Final = 0.1  # until a dead process's warden is looked for again


class Housekeeper:
    """Does the periodic work of an entered runtime."""

    def __init__(
        self, worker: ProcessWorker, engine: Engine, *, only: str | None, hooks: Sequence[Hook]
    ) -> None:
        self.worker, self._engine = worker, engine
        self._journal = worker.journal
        self._only = only  # drive only this run and its children
        self._logs = Redacted(worker.secrets)
        self._couriers = Couriers(worker.journal, worker.clock, hooks, worker.timing)
        self._moved: set[str] = set()  # runs with new records that this process does not drive
        self._stop_watching = _nothing
        self._lapses = Alarm(worker.alarms, worker.news.set)

    async def open(self) -> None:
        """Begin to drive runs and to call hooks. They notice every record from this return on."""
        self._logs.install()
        await self._couriers.open()
        if self.worker.agents:
            loop = asyncio.get_running_loop()

            def changed(runs: Changed) -> None:
                with suppress(RuntimeError):  # the loop is closed, so no driver is left
                    loop.call_soon_threadsafe(self._changed, runs)

            self._stop_watching = self._journal.changes.watch(changed)
            self.worker.open()
        await self._engine.open(self.worker if self.worker.agents else None)
        self.worker.begin(self._keep_house())

    async def aclose(self) -> None:
        """Give every run back and close the store. Steps have `shutdown_grace_s` to end."""
        await self._engine.aclose()
        await self.worker.leave()
        await self._couriers.aclose()  # so hooks also hear that this process gave every run back
        self._lapses.off()
        self._stop_watching()
        await self.worker.aclose()
        await self._journal.aclose()
        self._logs.remove()

    # --- what has changed ---

    def _changed(self, runs: Changed) -> None:
        going_on = runs.going_on if isinstance(runs, Named) else frozenset[str]()
        for run_id, seq in runs.items():
            if driver := self.worker.drivers.get(run_id):
                driver.live.heard(seq)
                continue
            is_known = is_any_known(self._is_not_driven)
            if is_known:
                self._moved.add(run_id)
            if is_known or run_id not in going_on:
                self.worker.news.set()

    def _is_not_driven(self, started: StartedWork) -> bool:
        is_of_here = started.store == self._journal.path
        return is_of_here and started.run_id not in self.worker.drivers

    # --- keeping house ---

    async def _keep_house(self) -> None:
        worker = self.worker
        again_s = worker.timing.lease_s / 3
        while not worker.is_closing:
            try:
                if not self._lapses.is_set:  # at first, and whenever it has rung
                    ending = await self._journal.queue.free_the_gone()
                    again_s = _ENDING_S if ending else worker.timing.lease_s / 3
                    await self._journal.queue.finish_cancelled()
                while self._moved:  # a control may have stopped a run that rests
                    await name_if_stopped(self._journal, self._moved.pop())
                if worker.agents:  # a runtime without agents drives nothing
                    if worker.switch.raised:
                        await self._journal.kill_switch.hold()
                    await self._wake_sleepers()
                    await self._wake_runs()
            except JournalClosed:
                return
            except PullcordError:  # a full disk, say: not the end of housekeeping
                _log.exception("Housekeeping failed; it is tried again.")
            self._lapses.set(again_s)
            await asyncio.sleep(worker.timing.breath_s)  # others may be writing all the time
            await worker.news.wait()
            worker.news.clear()

    async def _wake_runs(self) -> None:
        """Have the engine wake runs that need a process, until this process claims no more."""
        worker = self.worker
        while not worker.is_closing:
            before = worker.taken_up
            for run_id in await self._found():
                if run_id not in worker.drivers:
                    await self._wake(run_id)
            if worker.taken_up == before:
                return

    async def _wake(self, run_id: str) -> None:
        """Ask the engine for a process. If it fails, it is asked again when housekeeping looks."""
        try:
            await self._engine.wake(run_id)
        except (JournalClosed, StorageFailed):
            raise
        except RunNotFound:
            pass  # about to be started
        except Exception:
            _log.exception("The engine cannot bring run %s; it is asked again.", run_id)

    async def _found(self) -> "list[str]":
        worker = self.worker
        if self._only is None:
            limit = _BATCH + len(worker.left_alone)
            agents = [name for name in worker.agents if not worker.switch.covers((name, ""))]
            found = await self._journal.queue.claimable(agents=agents, limit=limit)
            return [run_id for run_id in found if run_id not in worker.left_alone]
        family, found = [self._only], list[str]()
        for run_id in family:
            try:
                run = await self._journal.load(run_id)
            except RunNotFound:
                continue  # about to be started
            family += [child for child, known in run.children.items() if not known.state]
            if run.state in NEEDS_OWNER and run.agent in worker.agents:
                found.append(run_id)
        return found

    async def _wake_sleepers(self) -> None:
        """Answer every timer that is due, also of parked runs."""
        worker, now = self.worker, await self._journal.clock.now_ms()
        limit = _BATCH + len(worker.left_alone) + len(worker.drivers)
        for run_id, due_ms in await self._journal.queue.due(agents=worker.agents, limit=limit):
            if due_ms > now:
                return worker.set_timer(due_ms)
            if run_id in worker.left_alone or (run := await worker.loaded(run_id)) is None:
                continue
            if run.ended:  # it has effects to undo
                only = self._only
                is_ours = only is None or await self._journal.families.works_for(run_id, only)
                if run_id not in worker.drivers and is_ours:
                    await self._wake(run_id)
                continue
            for name in run.open_questions():
                if 0 < run.questions[name].due_ms <= now:
                    rings = Answer(by="clock", question=name, source="clock")
                    await self._journal.command(run_id, rings)
                    worker.news.set()  # one look may not find all due timers
        return None


def _nothing() -> None:
    """Do nothing: no watch has begun."""
