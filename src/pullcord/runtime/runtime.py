"""A store and the agents that this process knows: starts runs, finds runs, drives runs."""

import asyncio
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, Literal, TypeAlias, Unpack, get_args

from pullcord.core.commands import Answer, Forget, Redirect
from pullcord.core.events import Created
from pullcord.core.limits import Limits, Then, price_in
from pullcord.core.run import Run
from pullcord.core.screening import Guard, Guards
from pullcord.core.states import NEEDS_OWNER, TERMINAL, RunState
from pullcord.core.trail import Runaway, check_runaway
from pullcord.core.values import check_line, dump
from pullcord.errors import (
    AgentUnknown,
    ChainBroken,
    Conflict,
    FormatUnknown,
    InvalidInput,
    JournalClosed,
    NotEntered,
    PullcordError,
    RunNotFound,
    ThreadBusy,
)
from pullcord.journal.clock import Clock, SystemClock
from pullcord.journal.journal import Journal
from pullcord.journal.ledger import Append, Order
from pullcord.journal.store import Head
from pullcord.journal.watch import Changed
from pullcord.killswitch.flags import Whose
from pullcord.killswitch.presence import Present
from pullcord.process import new_owner
from pullcord.runtime.agents import Agent, Foreign, Function, as_agents, name_of
from pullcord.runtime.alarms import Alarm, Alarms, LoopAlarms
from pullcord.runtime.blocking import Watchman
from pullcord.runtime.context import entering
from pullcord.runtime.control import ControlThread
from pullcord.runtime.couriers import Couriers
from pullcord.runtime.driver import Driver
from pullcord.runtime.elsewhere import is_elsewhere, refusal
from pullcord.runtime.forgetting import Forgetting, Which, forget, wanted_of
from pullcord.runtime.forking import Fork, born_of
from pullcord.runtime.handle import RunHandle
from pullcord.runtime.holding import Holding
from pullcord.runtime.hooks import Hook
from pullcord.runtime.identity import LONG_IDS, new_run_id
from pullcord.runtime.leaseholder import Leaseholder
from pullcord.runtime.left_behind import name_if_stopped
from pullcord.runtime.licence import Licence
from pullcord.runtime.limiting import Given, limits_for
from pullcord.runtime.logs import Redacted
from pullcord.runtime.observing import life_of, observer, traced
from pullcord.runtime.policy_names import PolicyNames
from pullcord.runtime.processes import Processes
from pullcord.runtime.site import Habits
from pullcord.runtime.start_hooks import install_start_hooks
from pullcord.runtime.started import Started, is_any_known
from pullcord.runtime.switch import Switch
from pullcord.runtime.tools import Policies, check_policy, policy_of
from pullcord.takeover import address_of

_log: Final = logging.getLogger("pullcord.runtime")
IfBusy: TypeAlias = Literal["refuse", "queue", "redirect"]
_BATCH: Final = 50
_ENDING_S: Final = 0.1  # until a dead process's warden is looked for again


class Runtime:
    """Made by `pullcord.open`, used with `async with`. Two of them do not know each other.

    One with agents takes up every run of theirs that nobody drives; one without only looks and
    controls. Leaving the block gives back what is running, unharmed, for any process to go on.
    """

    def __init__(
        self,
        journal: Journal,
        *,
        agents: Mapping[str, "Agent | Function | Foreign"] | None = None,
        clock: Clock | None = None,
        habits: Habits | None = None,
        only: str | None = None,
        tools: Policies | None = None,
        hooks: Sequence[Hook] = (),
        guards: Sequence[Guard] = (),
    ) -> None:
        if is_elsewhere():
            raise refusal()
        self.journal, self.secrets = journal, journal.secrets
        self._logs = Redacted(self.secrets)
        self._only = only  # take up nothing but this run and its children
        self.clock: Clock = clock or SystemClock()
        self.alarms: Alarms = self.clock if isinstance(self.clock, Alarms) else LoopAlarms()
        self.habits = habits or Habits()
        self.policies: Policies = {n: policy_of(given) for n, given in (tools or {}).items()}
        for name, policy in self.policies.items():
            check_policy(name, policy_of(policy))
        self.policy_names = PolicyNames(self.policies)
        self.owner = new_owner()
        who = Present(self.owner, self.habits.killable)
        self._drivers: dict[str, Driver] = {}
        self._work = asyncio.Event()
        self._holding = Holding(self._drivers, journal.flags.over, self._work.set)
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
        self._leaseholder = Leaseholder(self._drivers, self.processes)
        self._control: ControlThread | None = None
        self._watchman = Watchman(journal, self._whose, after_s=self.habits.blocked_after_s)
        self.observer = observer()
        self._couriers = Couriers(journal, self.clock, hooks, self.habits)
        self.agents: dict[str, Agent] = as_agents(agents or {})
        self._guards = {n: Guards((*guards, *a.guards)) for n, a in self.agents.items()}
        self._moved: set[str] = set()  # runs that somebody has moved, and nobody drives here
        self._left_alone: set[str] = set()  # damaged, or written by a newer build
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_entered = self._is_closing = False
        self.drives = True  # False: it starts runs for others to drive, and is not entered
        self._stop_watching: Any = None
        self._lapses = Alarm(self.alarms, self._work.set)
        self._timer = Alarm(self.alarms, self._work.set)
        self._timer_due_ms = 0

    async def __aenter__(self) -> "Runtime":
        try:  # by now every module of the program has said which tools its agents have
            self.policy_names.meet({name: agent.body for name, agent in self.agents.items()})
        except InvalidInput:
            await self.journal.aclose()
            raise
        self._is_entered = True
        self._logs.install()
        await self._couriers.open()
        if self.agents:
            loop = asyncio.get_running_loop()

            def changed(runs: Changed) -> None:
                with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
                    loop.call_soon_threadsafe(self._changed, runs)

            self._stop_watching = self.journal.watch(changed)
            self._holding.open()
            self._leaseholder.open()
            self.switch.open()
        self._spawn(self._keep_house())
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Give every run back and close the store. Steps under way get `shutdown_grace_s`."""
        self._is_closing = True
        self._work.set()
        for driver in list(self._drivers.values()):
            driver.leave()
        while self._tasks:
            await asyncio.wait(self._tasks)
        await self._couriers.aclose()  # every run has been given back: that is told too
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

    # --- start, get, list ---

    async def start(
        self,
        agent: "str | Function | Foreign",
        given: Any = None,
        *,
        run_id: str | None = None,
        thread: str | None = None,
        if_busy: IfBusy = "refuse",
        by: str = "program",
        target: str | None = None,
        model: str = "",
        limits: Given = None,
        on_exhausted: Then | None = None,
        runaway: Runaway | None = None,
    ) -> RunHandle:
        """Start a run of this agent and return it at once; it is durable, whatever happens next.

        A thread is a conversation: its runs are driven one after the other, and each finds in
        `ctx.history()` what those before it have said and done. If one of them is still living:
        `refuse`, `queue` this one behind it, or `redirect` that one with the new input. `model`:
        the one that a language-model agent is to use instead of its own. `limits`: what the run
        and everybody who works for it may use (see `pullcord.limits`), instead of what its agent
        has; `on_exhausted`: what happens then. `runaway`: when the run is paused for having lost
        its way, if not as its agent says.

        Raises:
            AgentUnknown: not one of this runtime's agents.
            InvalidInput: something that was given cannot be used, and nothing was started.
            ThreadBusy: with `refuse`, and nothing was started.
        """
        self._check_entered("start a run")
        name = name_of(agent, self.agents)
        if if_busy not in get_args(IfBusy):
            raise InvalidInput(f"if_busy cannot be {if_busy!r}. Nothing was started.")
        if name not in self.agents:
            raise AgentUnknown(name, known=self.agents)
        check_line(model, field="model")
        own = await self._limits(name, limits, on_exhausted, model)
        born = Created(
            agent=name,
            thread=thread or run_id or new_run_id(),
            input=dump(given),
            code_version=self.agents[name].version,
            target=target,
            cwd=os.getcwd() if target else None,
            by=by,
            model=model,
            limits=own,
            price=price_in(own),
            runaway=check_runaway(runaway) if runaway is not None else self.agents[name].runaway,
            ids=LONG_IDS,
        )
        while True:
            made = run_id or (born.thread if thread is None else new_run_id())
            try:
                await self._create(made, born, alone=if_busy != "queue")
                return self._taken_up(made)
            except Conflict:
                raise InvalidInput(
                    f"There is already a run {made}. Nothing was started. Choose another id, or "
                    f"look at that one: pullcord show {made}"
                ) from None
            except ThreadBusy as busy:
                if if_busy != "redirect":
                    raise
                told = Redirect(by=by, instruction=given if isinstance(given, str) else str(given))
                other = self._handle(busy.run_id)
                if (await self.journal.command(busy.run_id, told)).holds:
                    return other
                await other.reached(*TERMINAL)  # it is being cancelled: this one comes after it

    async def _limits(self, agent: str, given: Given, then: Then | None, model: str) -> Limits:
        if agent not in self.agents:
            raise AgentUnknown(agent, known=self.agents)
        now_ms, wall_ms = await self.journal.now_ms(), self.clock.wall_ms()
        return limits_for(
            self.agents[agent], given, then, model=model, now_ms=now_ms, wall_ms=wall_ms
        )

    def _check_entered(self, what: str) -> None:
        if self.agents and self.drives and not self._is_entered:
            raise NotEntered(what)

    async def let_go(self, run_id: str) -> None:
        """Wait until this process does not drive the run, if it does.

        Raises:
            NotEntered: this runtime drives nothing: nobody has entered it.
        """
        self._check_entered("wait for a run")
        while driver := self._drivers.get(run_id):
            await driver.is_gone.wait()

    async def get(self, run_id: str) -> RunHandle:
        """Return a run of this store, whoever started it.

        Raises:
            RunNotFound: there is none.
        """
        await self.journal.head(run_id)
        return self._handle(run_id)

    async def list(
        self,
        *,
        states: Iterable[RunState] = RunState,
        thread: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[Head]:
        """Return the newest runs; page on with `before`, the id of the last one."""
        return await self.journal.runs(states=states, thread=thread, before=before, limit=limit)

    async def fork(
        self,
        run_id: str,
        *,
        by: str,
        at: int | None = None,
        instruction: str | None = None,
        aside: str | None = None,
        limits: Given = None,
        on_exhausted: Then | None = None,
        made: str | None = None,
    ) -> RunHandle:
        """See `RunHandle.fork` and `RunHandle.ask_aside`. `made`: the id of the new run."""
        self._check_entered("start a run")
        made = made or new_run_id()
        wanted = Fork(by, at, aside, limits, on_exhausted, made)
        born = await born_of(self.journal, run_id, wanted, self._limits)
        if born.aside and self.drives and (agent := self.agents.get(born.agent)):
            agent.check_question(run_id)
        told = Redirect(by=by, instruction=instruction) if instruction is not None else None
        await self._create(made, born, alone=True, told=told)
        return self._taken_up(made)

    async def forget(
        self,
        *runs: str,
        yes: bool = False,
        drop_thread_name: bool = False,
        rewrite: bool = False,
        by: str = "program",
        reason: str = "",
        **which: Unpack[Which],
    ) -> Forgetting:
        """Delete what was said and done in these runs, or in those that are meant by `which`, and
        in their children; that they ran is kept. Without `yes` only say what that would be.

        One run is one transaction. `drop_thread_name`: list each under its own id. `rewrite`: the
        whole store anew, also if it is so large that others have to wait for that.
        """
        wanted = wanted_of(runs, which, now_ms=self.clock.wall_ms())
        asked = Forget(by=by, reason=reason, drop_thread_name=drop_thread_name)
        return await forget(self.journal, wanted, asked if yes else None, rewrite=rewrite)

    async def _create(
        self, run_id: str, born: Created, *, alone: bool, told: Redirect | None = None
    ) -> None:
        born = traced(born, self.observer)
        birth = Append(run_id=run_id, events=[born], expected_seq=0, alone=alone)
        await self.journal.append(birth, *([Order(run_id, told)] if told else []))

    def _taken_up(self, run_id: str) -> RunHandle:
        self._work.set()
        return self._handle(run_id)

    def _handle(self, run_id: str) -> RunHandle:
        return RunHandle(run_id, self.journal, self)

    # --- what a driver needs ---

    def waits_for(self, task: "asyncio.Task[Any]") -> None:
        """For what goes on behind runs: it has ended before this runtime is closed."""
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def mind(self, whose: "list[Whose]", what: str, goes_on: Callable[[], bool] | Started) -> None:
        """Something goes on that no step stands for. The kill switch has to know."""
        self._holding.mind(whose, what, goes_on)

    def set_timer(self, due_ms: int) -> None:
        if not self._timer.is_set or due_ms < self._timer_due_ms:
            self._timer.off()
            self._timer_due_ms = due_ms
            self._timer.set(max(due_ms - self.journal.steady_ms(), 0) / 1000)

    @property
    def control(self) -> ControlThread:
        """What reaches process tools while this event loop is blocked. There when it is needed."""
        self._control = self._control or ControlThread(self.journal)
        return self._control

    # --- housekeeping: take runs up, wake sleepers, hold on to leases ---

    def _changed(self, runs: Changed) -> None:
        for run_id, seq in runs.items():
            if driver := self._drivers.get(run_id):
                driver.heard(seq)
            else:
                if is_any_known(self._is_not_driven):
                    self._moved.add(run_id)
                self._work.set()

    def _is_not_driven(self, started: Started) -> bool:
        return started.store == self.journal.path and started.run_id not in self._drivers

    async def _keep_house(self) -> None:
        again_s = self.habits.lease_s / 3
        while not self._is_closing:
            try:
                if not self._lapses.is_set:  # at first, and whenever it has rung
                    ending = await self.journal.free_the_gone()
                    again_s = _ENDING_S if ending else self.habits.lease_s / 3
                    await self.journal.finish_cancelled()
                while self._moved:  # somebody may have stopped what rests, or was parked here
                    await name_if_stopped(self.journal, self._moved.pop())
                if self.agents:  # who knows none looks and controls, and drives nothing
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
        """Claim what nobody drives. A run that cannot be had is another's, or is not due."""
        while not self._is_closing:
            found = await self._found()
            todo = [run_id for run_id in found if run_id not in self._drivers]
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
        driver = self._drivers[run_id] = Driver(self, claim, entering(agent), life=life, **how)
        self.licence.keep()
        self._spawn(self._drive(driver))
        return True

    async def _drive(self, driver: Driver) -> None:
        run_id = driver.run.id
        if self.habits.watch_starts:
            install_start_hooks()
        try:
            if self._is_closing:
                driver.leave()
            with self._watchman.watching(), self.switch.driving():
                await driver.drive()
        except PullcordError:
            _log.exception("Run %s could not be driven.", run_id)
        finally:
            self._drivers.pop(run_id, None)
            driver.is_gone.set()
            self._work.set()

    def _whose(self, task: "asyncio.Task[Any]") -> tuple[str, str] | None:
        """The run that a task works for, and the step of it. Also called by other threads."""
        for run_id, driver in tuple(self._drivers.items()):
            if (step := driver.carries(task)) is not None:
                return run_id, step
        return None

    async def _wake_sleepers(self) -> None:
        """Answer every timer that is due, also of runs that are in nobody's memory."""
        now = await self.journal.now_ms()
        limit = _BATCH + len(self._left_alone) + len(self._drivers)
        for run_id, due_ms in await self.journal.due(agents=self.agents, limit=limit):
            if due_ms > now:
                return self.set_timer(due_ms)
            if run_id in self._left_alone or (run := await self._loaded(run_id)) is None:
                continue
            if run.ended:  # what it has left behind is to be undone
                only = self._only
                is_ours = only is None or await self.journal.works_for(run_id, only)
                if run_id not in self._drivers and is_ours:
                    await self._claim(run_id)
                continue
            for name in run.open_questions():
                if 0 < run.questions[name].due_ms <= now:
                    rings = Answer(by="clock", question=name, source="clock")
                    await self.journal.command(run_id, rings)
                    self._work.set()  # there may be more than one look finds
        return None

    async def _loaded(self, run_id: str) -> Run | None:
        try:
            return await self.journal.load(run_id)
        except (ChainBroken, FormatUnknown) as refused:
            self._leave_alone(run_id, refused)
            return None

    def _leave_alone(self, run_id: str, refused: PullcordError) -> bool:
        """Damaged, or written by a newer build: not ours to touch, nor to be asked for again."""
        _log.warning("Run %s is left alone: %s", run_id, refused)
        self._left_alone.add(run_id)
        self._work.set()  # others stood behind it
        return False

    def _spawn(self, work: Any) -> None:
        self.waits_for(asyncio.create_task(work))
