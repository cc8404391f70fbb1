"""Drives the runs of an open store: takes them up, wakes sleepers, frees runs of dead processes."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from pullcord.core.commands import Answer
from pullcord.core.run import Run
from pullcord.core.screening import Guard, Guards
from pullcord.core.states import NEEDS_OWNER
from pullcord.errors import (
    ChainBroken,
    FormatUnknown,
    JournalClosed,
    PullcordError,
    RunNotFound,
)
from pullcord.journal.clock import Clock, SystemClock
from pullcord.journal.journal import Journal
from pullcord.journal.watch import Changed
from pullcord.killswitch.flags import Whose
from pullcord.killswitch.presence import Present
from pullcord.process import new_owner
from pullcord.runtime.agents import Agent
from pullcord.runtime.alarms import Alarm, Alarms, LoopAlarms
from pullcord.runtime.blocking import Watchman
from pullcord.runtime.context import entering
from pullcord.runtime.control import ControlThread
from pullcord.runtime.couriers import Couriers
from pullcord.runtime.driver import Driver
from pullcord.runtime.holding import Holding
from pullcord.runtime.hooks import Hook
from pullcord.runtime.leaseholder import Leaseholder
from pullcord.runtime.left_behind import name_if_stopped
from pullcord.runtime.licence import Licence
from pullcord.runtime.logs import Redacted
from pullcord.runtime.observing import life_of, observer
from pullcord.runtime.policy_names import PolicyNames
from pullcord.runtime.processes import Processes
from pullcord.runtime.site import Habits
from pullcord.runtime.start_hooks import install_start_hooks
from pullcord.runtime.started import Started, is_any_known
from pullcord.runtime.switch import Switch
from pullcord.runtime.tools import Policies
from pullcord.takeover import address_of

_log: Final = logging.getLogger("pullcord.runtime")
_BATCH: Final = 50
_ENDING_S: Final = 0.1  # until a dead process's warden is looked for again


class Housekeeper:
    """Finds work in the store and starts a driver for each run that this process takes up.

    A runtime makes one when it is entered. It is the `Site` of every driver: it holds the open
    store, and everything else that the runs of one process share.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        agents: Mapping[str, Agent],
        clock: Clock | None,
        habits: Habits,
        only: str | None,
        policies: Policies,
        policy_names: PolicyNames,
        hooks: Sequence[Hook],
        guards: Sequence[Guard],
    ) -> None:
        self.journal, self.secrets = journal, journal.secrets
        self.agents, self.habits = agents, habits
        self.policies, self.policy_names = policies, policy_names
        self._logs = Redacted(self.secrets)
        self._only = only  # take up nothing but this run and its children
        self.clock: Clock = clock or SystemClock()
        self.alarms: Alarms = self.clock if isinstance(self.clock, Alarms) else LoopAlarms()
        self.owner = new_owner()
        who = Present(self.owner, self.habits.killable)
        self.drivers: dict[str, Driver] = {}
        self.tasks: set[asyncio.Task[Any]] = set()
        self._work = asyncio.Event()
        self._holding = Holding(self.drivers, journal.flags.over, self._work.set)
        self.switch = Switch(journal.flags, who, journal.side, self._holding)
        self.licence = Licence(journal, self.clock, self.alarms, self.habits.lease_s)
        self.processes = Processes(
            fence=self.habits.fence,
            store=journal.path,
            name=who.warden if journal.side else "",
            runs=address_of(self.owner) if journal.side else "",
            lapse_kill_s=self.habits.lapse_kill_s,
            secrets=journal.secrets,
        )
        self._leaseholder = Leaseholder(self.drivers, self.processes)
        self._control: ControlThread | None = None
        self._watchman = Watchman(journal, self._whose, after_s=self.habits.blocked_after_s)
        self.observer = observer()
        self._couriers = Couriers(journal, self.clock, hooks, self.habits)
        self._guards = {n: Guards((*guards, *a.guards)) for n, a in self.agents.items()}
        self._moved: set[str] = set()  # runs with new records that this process does not drive
        self._left_alone: set[str] = set()  # damaged, or written by a newer build
        self.is_closing = False
        self._stop_watching: Callable[[], object] | None = None
        self._lapses = Alarm(self.alarms, self._work.set)
        self._timer = Alarm(self.alarms, self._work.set)
        self._timer_due_ms = 0

    async def open(self) -> None:
        """Begin to drive runs and to tell hooks. Every record after this returns is noticed."""
        self._logs.install()
        await self._couriers.open()
        if self.agents:
            loop = asyncio.get_running_loop()

            def changed(runs: Changed) -> None:
                with suppress(RuntimeError):  # the loop is closed: no driver is left to tell
                    loop.call_soon_threadsafe(self._changed, runs)

            self._stop_watching = self.journal.watch(changed)
            self._holding.open()
            self._leaseholder.open()
            self.switch.open()
        self._spawn(self._keep_house())

    async def aclose(self) -> None:
        """Give every run back and close the store. Steps under way get `shutdown_grace_s`."""
        self.is_closing = True
        self._work.set()
        for driver in list(self.drivers.values()):
            driver.leave()
        while self.tasks:
            await asyncio.wait(self.tasks)
        await self._couriers.aclose()  # hooks also hear that every run was given back
        await self.licence.aclose()
        for alarm in (self._lapses, self._timer):
            alarm.off()
        if self._stop_watching:
            self._stop_watching()
        if self._control:
            self._control.close()
        self._watchman.close()
        self.switch.close()
        await self.processes.aclose()
        await self.journal.aclose()
        self._logs.remove()

    def look_again(self) -> None:
        """Look for work: a run was started, or may have moved."""
        self._work.set()

    async def let_go(self, run_id: str) -> None:
        """Wait until this process no longer drives the run."""
        while driver := self.drivers.get(run_id):
            await driver.is_gone.wait()

    # --- what a driver needs ---

    def waits_for(self, task: "asyncio.Task[Any]") -> None:
        """Make `aclose` wait for this task."""
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def mind(self, whose: "list[Whose]", what: str, goes_on: Callable[[], bool] | Started) -> None:
        """Tell the kill switch of work that no step stands for."""
        self._holding.mind(whose, what, goes_on)

    def set_timer(self, due_ms: int) -> None:
        """Look for work at this time, by the steady clock, unless an earlier time is set."""
        if not self._timer.is_set or due_ms < self._timer_due_ms:
            self._timer.off()
            self._timer_due_ms = due_ms
            self._timer.set(max(due_ms - self.journal.steady_ms(), 0) / 1000)

    @property
    def control(self) -> ControlThread:
        """The thread that stops calls while this event loop is blocked. Made at its first use."""
        self._control = self._control or ControlThread(self.journal)
        return self._control

    # --- housekeeping: free runs of dead processes, wake sleepers, take runs up ---

    def _changed(self, runs: Changed) -> None:
        for run_id, seq in runs.items():
            if driver := self.drivers.get(run_id):
                driver.heard(seq)
            else:
                if is_any_known(self._is_not_driven):
                    self._moved.add(run_id)
                self._work.set()

    def _is_not_driven(self, started: Started) -> bool:
        return started.store == self.journal.path and started.run_id not in self.drivers

    async def _keep_house(self) -> None:
        again_s = self.habits.lease_s / 3
        while not self.is_closing:
            try:
                if not self._lapses.is_set:  # at first, and whenever it has rung
                    ending = await self.journal.free_the_gone()
                    again_s = _ENDING_S if ending else self.habits.lease_s / 3
                    await self.journal.finish_cancelled()
                while self._moved:  # a control may have stopped a run that rests or was parked
                    await name_if_stopped(self.journal, self._moved.pop())
                if self.agents:  # a runtime without agents drives nothing
                    if self.switch.raised:
                        await self.journal.hold()
                    await self._wake_sleepers()
                    await self._take_up()
            except JournalClosed:
                return
            except PullcordError:  # a full disk, say: not the end of housekeeping
                _log.exception("Housekeeping failed; it is tried again.")
            self._lapses.set(again_s)
            await asyncio.sleep(self.habits.breath_s)  # others may be writing all the time
            await self._work.wait()
            self._work.clear()

    async def _take_up(self) -> None:
        """Claim the runs that no process drives, until there are none that this process can get."""
        while not self.is_closing:
            found = await self._found()
            todo = [run_id for run_id in found if run_id not in self.drivers]
            taken = [await self._claim(run_id) for run_id in todo]
            if not any(taken):
                return

    async def _found(self) -> "list[str]":
        if self._only is None:
            limit = _BATCH + len(self._left_alone)
            agents = [name for name in self.agents if not self.switch.covers((name, ""))]
            found = await self.journal.claimable(agents=agents, limit=limit)
            return [run_id for run_id in found if run_id not in self._left_alone]
        family, found = [self._only], list[str]()
        for run_id in family:
            try:
                run = await self.journal.load(run_id)
            except RunNotFound:
                continue  # about to be started
            family += [child for child, known in run.children.items() if not known.state]
            if run.state in NEEDS_OWNER and run.agent in self.agents:
                found.append(run_id)
        return found

    async def _claim(self, run_id: str) -> bool:
        head = await self.journal.head(run_id)
        agent = self.agents[head.agent]
        try:
            life = await life_of(self.observer, self.journal, run_id)
            sent_s = self.licence.now_s()
            claim = await self.journal.acquire(
                run_id,
                owner=self.owner,
                ttl_s=self.licence.ttl_s,
                code_version=agent.version,
                trace=life.trace,
            )
        except (ChainBroken, FormatUnknown) as refused:
            return self._leave_alone(run_id, refused)
        if claim is None:
            return False
        self.licence.begin(self._leaseholder, sent_s)
        how: Any = {"code_version": agent.version, "guards": self._guards[claim.run.agent]}
        driver = self.drivers[run_id] = Driver(self, claim, entering(agent), life=life, **how)
        self.licence.keep()
        self._spawn(self._drive(driver))
        return True

    async def _drive(self, driver: Driver) -> None:
        run_id = driver.run.id
        if self.habits.watch_starts:
            install_start_hooks()
        try:
            if self.is_closing:
                driver.leave()
            with self._watchman.watching(), self.switch.driving():
                await driver.drive()
        except PullcordError:
            _log.exception("Run %s could not be driven.", run_id)
        finally:
            self.drivers.pop(run_id, None)
            driver.is_gone.set()
            self._work.set()

    def _whose(self, task: "asyncio.Task[Any]") -> tuple[str, str] | None:
        """Return the run and the step that a task works for. Other threads call it too."""
        for run_id, driver in tuple(self.drivers.items()):
            if (step := driver.carries(task)) is not None:
                return run_id, step
        return None

    async def _wake_sleepers(self) -> None:
        """Answer every timer that is due, also of runs that are in no process's memory."""
        now = await self.journal.now_ms()
        limit = _BATCH + len(self._left_alone) + len(self.drivers)
        for run_id, due_ms in await self.journal.due(agents=self.agents, limit=limit):
            if due_ms > now:
                return self.set_timer(due_ms)
            if run_id in self._left_alone or (run := await self._loaded(run_id)) is None:
                continue
            if run.ended:  # its effects are to be undone
                only = self._only
                is_ours = only is None or await self.journal.works_for(run_id, only)
                if run_id not in self.drivers and is_ours:
                    await self._claim(run_id)
                continue
            for name in run.open_questions():
                if 0 < run.questions[name].due_ms <= now:
                    rings = Answer(by="clock", question=name, source="clock")
                    await self.journal.command(run_id, rings)
                    self._work.set()  # one look may not find all of them
        return None

    async def _loaded(self, run_id: str) -> Run | None:
        try:
            return await self.journal.load(run_id)
        except (ChainBroken, FormatUnknown) as refused:
            self._leave_alone(run_id, refused)
            return None

    def _leave_alone(self, run_id: str, refused: PullcordError) -> bool:
        """Skip a run from now on: it is damaged, or a newer build wrote it. Return False."""
        _log.warning("Run %s is left alone: %s", run_id, refused)
        self._left_alone.add(run_id)
        self._work.set()  # the list may have been cut short because of it
        return False

    def _spawn(self, work: Any) -> None:
        self.waits_for(asyncio.create_task(work))
