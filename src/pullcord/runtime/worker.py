"""Drives runs in this process, and holds the services that they share.

A worker does not look for runs. An engine brings them (`pullcord.runtime.engine`). It may bring a
run twice, or a run that another process owns: only the journal decides who owns a run.
"""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pullcord.core.run import Run
from pullcord.core.text.screening import Guard, Guards
from pullcord.errors import ChainBroken, FormatUnknown, PullcordError
from pullcord.journal.clock import Clock, SystemClock
from pullcord.journal.journal import Journal
from pullcord.killswitch.flags import Whose
from pullcord.killswitch.presence import Present
from pullcord.process import new_owner
from pullcord.runtime.agents import AgentConfig
from pullcord.runtime.alarms import Alarm, Alarms, LoopAlarms
from pullcord.runtime.context import entering
from pullcord.runtime.control_thread import ControlThread
from pullcord.runtime.driving.driver import Driver
from pullcord.runtime.driving.leaseholder import Leaseholder
from pullcord.runtime.driving.switch_hold import SwitchHold
from pullcord.runtime.licence import Licence
from pullcord.runtime.policy import Policies
from pullcord.runtime.policy_names import PolicyNames
from pullcord.runtime.processes.start_hooks import install_start_hooks
from pullcord.runtime.processes.started_work import StartedWork
from pullcord.runtime.processes.warden_client import Processes
from pullcord.runtime.services import Timing
from pullcord.runtime.switch_watch import SwitchWatch
from pullcord.runtime.watching.blocked_loop import Watchman
from pullcord.runtime.watching.observer import life_of, observer
from pullcord.takeover import address_of

_log: Final = logging.getLogger("pullcord.runtime")


class ProcessWorker:
    """This process as a worker, and the `Services` of its drivers. Each entered runtime has one.

    The worker sets `news` when there may be work: a timer has rung, or a driver has let go of its
    run.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        agents: Mapping[str, AgentConfig],
        clock: Clock | None,
        timing: Timing,
        policies: Policies,
        policy_names: PolicyNames,
        guards: Sequence[Guard],
    ) -> None:
        self.journal, self.secrets = journal, journal.secrets
        self.agents, self.timing = agents, timing
        self.policies, self.policy_names = policies, policy_names
        self.clock: Clock = clock or SystemClock()
        self.alarms: Alarms = self.clock if isinstance(self.clock, Alarms) else LoopAlarms()
        self.owner = new_owner()
        who = Present(self.owner, self.timing.killable)
        self.drivers: dict[str, Driver] = {}
        self.tasks: set[asyncio.Task[Any]] = set()
        self.news = asyncio.Event()
        self._holding = SwitchHold(self.drivers, journal.kill_switch.flags.over, self.news.set)
        self.switch = SwitchWatch(journal.kill_switch.flags, who, journal.side, self._holding)
        self.licence = Licence(journal, self.clock, self.alarms, self.timing.lease_s)
        self.processes = Processes(
            fence=self.timing.fence,
            store=journal.path,
            name=who.warden if journal.side else "",
            runs=address_of(self.owner) if journal.side else "",
            lapse_kill_s=self.timing.lapse_kill_s,
            secrets=journal.secrets,
        )
        self._leaseholder = Leaseholder(self.drivers, self.processes)
        self._control: ControlThread | None = None
        self._watchman = Watchman(journal, self._whose, after_s=self.timing.blocked_after_s)
        self.observer = observer()
        self._guards = {n: Guards((*guards, *a.guards)) for n, a in self.agents.items()}
        self.taken_up = 0  # how many claims this process has made
        self.left_alone: set[str] = set()  # damaged, or written by a newer build
        self.is_closing = False
        self._timer = Alarm(self.alarms, self.news.set)
        self._timer_due_ms = 0

    def open(self) -> None:
        """Begin to answer the kill switch and the wardens."""
        self._holding.open()
        self._leaseholder.open()
        self.switch.open()

    async def leave(self) -> None:
        """Give every run back. Steps under way have `shutdown_grace_s` to end."""
        self.is_closing = True
        self.news.set()
        for driver in list(self.drivers.values()):
            driver.leave()
        while self.tasks:
            await asyncio.wait(self.tasks)

    async def aclose(self) -> None:
        """Close the services that the runs shared. `leave` has to return first."""
        await self.licence.aclose()
        self._timer.off()
        if self._control:
            self._control.close()
        self._watchman.close()
        self.switch.close()
        await self.processes.aclose()

    # --- driving ---

    async def drive(self, run_id: str) -> bool:
        """Drive a run until it ends or leaves this memory, and return whether this call drove it.

        It does so if the run needs an owner, has none, and this process knows its agent. Cancelling
        this call does not cancel the run: the driver hands it over to other processes.

        Raises:
            RunNotFound: there is no such run.
        """
        taking = asyncio.create_task(self.take_up(run_id))
        try:
            is_taken = await asyncio.shield(taking)
            if is_taken and (driver := self.drivers.get(run_id)):
                await driver.is_gone.wait()
        except asyncio.CancelledError:
            await asyncio.wait({taking})  # a claim that succeeds now has to be given back
            if (driver := self.drivers.get(run_id)) and not taking.exception() and taking.result():
                driver.leave()
            raise
        return is_taken

    async def take_up(self, run_id: str) -> bool:
        """Claim a run, begin to drive it, and return whether this call claimed it.

        Raises:
            RunNotFound: there is no such run.
        """
        if run_id in self.drivers or run_id in self.left_alone or self.is_closing:
            return False
        head = await self.journal.head(run_id)
        if (agent := self.agents.get(head.agent)) is None:
            return False
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
            self.leave_alone(run_id, refused)
            return False
        if claim is None:
            return False
        self.taken_up += 1
        self.licence.begin(self._leaseholder, sent_s)
        how: Any = {"code_version": agent.version, "guards": self._guards[claim.run.agent]}
        driver = self.drivers[run_id] = Driver(self, claim, entering(agent), life=life, **how)
        self.licence.keep()
        self.begin(self._driven(driver))
        return True

    async def _driven(self, driver: Driver) -> None:
        run_id = driver.live.run.id
        if self.timing.watch_starts:
            install_start_hooks()
        try:
            if self.is_closing:
                driver.leave()
            with self._watchman.watching(), self.switch.driving():
                await driver.drive()
        except Exception:  # a bug of ours: its lease lapses, and then a process tries again
            _log.exception("Run %s could not be driven.", run_id)
        finally:
            self.drivers.pop(run_id, None)
            driver.is_gone.set()
            self.news.set()

    async def let_go(self, run_id: str) -> None:
        """Wait until this process no longer drives the run."""
        while driver := self.drivers.get(run_id):
            await driver.is_gone.wait()

    async def loaded(self, run_id: str) -> Run | None:
        """Return the run. None: this build cannot read it, and leaves it alone from now on."""
        try:
            return await self.journal.load(run_id)
        except (ChainBroken, FormatUnknown) as refused:
            self.leave_alone(run_id, refused)
            return None

    def leave_alone(self, run_id: str, refused: PullcordError) -> None:
        """Skip a run from now on: it is damaged, or a newer build wrote it."""
        _log.warning("Run %s is left alone: %s", run_id, refused)
        self.left_alone.add(run_id)
        self.news.set()  # this run may have taken the place of another in the list of work

    # --- what a driver needs ---

    def begin(self, work: Any) -> None:
        """Begin work beside the runs. `leave` waits for it."""
        self.waits_for(asyncio.create_task(work))

    def waits_for(self, task: "asyncio.Task[Any]") -> None:
        """Make `leave` wait for this task."""
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    def mind(
        self, whose: "list[Whose]", what: str, goes_on: Callable[[], bool] | StartedWork
    ) -> None:
        """Tell the kill switch of work that belongs to no step."""
        self._holding.mind(whose, what, goes_on)

    def set_timer(self, due_ms: int) -> None:
        """Look for work at this time, by the steady clock, unless an earlier time is set."""
        if not self._timer.is_set or due_ms < self._timer_due_ms:
            self._timer.off()
            self._timer_due_ms = due_ms
            self._timer.set(max(due_ms - self.journal.clock.known_ms(), 0) / 1000)

    @property
    def control(self) -> ControlThread:
        """The thread that stops calls while this event loop is blocked. Its first use makes it."""
        self._control = self._control or ControlThread(self.journal)
        return self._control

    def _whose(self, task: "asyncio.Task[Any]") -> tuple[str, str] | None:
        """Return the run and the step that a task works for. Other threads call this too."""
        for run_id, driver in tuple(self.drivers.items()):
            if (step := driver.carries(task)) is not None:
                return run_id, step
        return None
