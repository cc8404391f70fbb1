"""A store and the agents that this process knows: starts runs, finds runs, drives runs."""

import logging
import os
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, Unpack, get_args

from pullcord.core.action_trail import Runaway, check_runaway
from pullcord.core.commands import Forget, Redirect
from pullcord.core.events import Created
from pullcord.core.limits import Limits, Then, price_in
from pullcord.core.states import TERMINAL, RunState
from pullcord.core.text.screening import Guard
from pullcord.core.values import check_line, dump
from pullcord.errors import (
    AgentUnknown,
    Conflict,
    InvalidInput,
    NotEntered,
    ThreadBusy,
)
from pullcord.journal.clock import Clock
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Order
from pullcord.journal.store import Head
from pullcord.runtime.agents import AgentConfig, Foreign, Function, Result, as_agents, name_of
from pullcord.runtime.engine import Engine, InProcess
from pullcord.runtime.forgetting import Forgetting, Which, forget, wanted_of
from pullcord.runtime.forking import Fork, born_of
from pullcord.runtime.handle import RunHandle
from pullcord.runtime.hooks.hook import Hook
from pullcord.runtime.housekeeping import Housekeeper
from pullcord.runtime.inside_tool import is_elsewhere, refusal
from pullcord.runtime.policy import Policies, check_policy, policy_of
from pullcord.runtime.policy_names import PolicyNames
from pullcord.runtime.services import Timing
from pullcord.runtime.starting_limits import Given, limits_for
from pullcord.runtime.steps.identity import LONG_IDS, new_run_id
from pullcord.runtime.watching.observer import traced
from pullcord.runtime.worker import ProcessWorker

_log: Final = logging.getLogger("pullcord.runtime")
IfBusy: TypeAlias = Literal["refuse", "queue", "redirect"]


class Runtime:
    """Made by `pullcord.open`, used with `async with`. Two of them do not know each other.

    Entering the block opens the store. A runtime with agents then takes up every run of theirs that
    no process drives; one without only looks and controls. Leaving the block gives back what is
    running, unharmed, for any process to go on. Before the block, every call but `aclose` raises
    `NotEntered`.
    """

    def __init__(
        self,
        journal: Journal | Callable[[], Journal],
        *,
        agents: Mapping[str, "AgentConfig | Function | Foreign"] | None = None,
        clock: Clock | None = None,
        timing: Timing | None = None,
        only: str | None = None,
        tools: Policies | None = None,
        hooks: Sequence[Hook] = (),
        guards: Sequence[Guard] = (),
        engine: Engine | None = None,
    ) -> None:
        if is_elsewhere():
            raise refusal()
        self._journal = journal
        self._clock, self._only, self._hooks, self._guards = clock, only, hooks, guards
        self._engine: Engine = engine or InProcess()
        self.timing = timing or Timing()
        self._policies: Policies = {n: policy_of(given) for n, given in (tools or {}).items()}
        for name, policy in self._policies.items():
            check_policy(name, policy_of(policy))
        self.agents: dict[str, AgentConfig] = as_agents(agents or {})
        self.drives = True  # False: it only records runs, which others drive
        self._house: Housekeeper | None = None

    async def __aenter__(self) -> "Runtime":
        if self._house is not None:
            raise InvalidInput(
                "This runtime was entered before. Nothing was opened. Make another one: "
                "pullcord.open(...)"
            )
        names = PolicyNames(self._policies)
        # By now every module of the program has said which tools its agents have.
        names.meet({name: agent.body for name, agent in self.agents.items()})
        journal = self._journal if isinstance(self._journal, Journal) else self._journal()
        worker = ProcessWorker(
            journal,
            agents=self.agents,
            clock=self._clock,
            timing=self.timing,
            policies=self._policies,
            policy_names=names,
            guards=self._guards,
        )
        house = Housekeeper(worker, self._engine, only=self._only, hooks=self._hooks)
        try:
            if self.drives:
                await house.open()
        except BaseException:
            await house.aclose()
            raise
        self._house = house
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Give every run back and close the store. Steps under way get `shutdown_grace_s`."""
        if self._house is not None:
            await self._house.aclose()
        elif isinstance(self._journal, Journal):
            await self._journal.aclose()

    @property
    def journal(self) -> Journal:
        """For extensions: the open store.

        Raises:
            NotEntered: nothing is open yet.
        """
        return self._entered("use its journal").journal

    @property
    def clock(self) -> Clock:
        """The clock that this runtime goes by.

        Raises:
            NotEntered: nothing is open yet.
        """
        return self._entered("read its clock").clock

    def _entered(self, what: str) -> ProcessWorker:
        """Return what drives the runs.

        Raises:
            NotEntered: nobody has entered this runtime.
        """
        if self._house is None:
            raise NotEntered(what)
        return self._house.worker

    # --- start, get, list ---

    async def start(
        self,
        agent: str | Callable[..., Coroutine[Any, Any, Result]] | Foreign,
        input: Any = None,
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
    ) -> RunHandle[Result]:
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
        self._entered("start a run")
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
            input=dump(input),
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
                told = Redirect(by=by, instruction=input if isinstance(input, str) else str(input))
                other = self._handle(busy.run_id)
                if (await self.journal.command(busy.run_id, told)).holds:
                    return other
                await other.wait_for(*TERMINAL)  # it is being cancelled: this one comes after it

    async def _limits(self, agent: str, given: Given, then: Then | None, model: str) -> Limits:
        if agent not in self.agents:
            raise AgentUnknown(agent, known=self.agents)
        now_ms, wall_ms = await self.journal.clock.now_ms(), self.clock.wall_ms()
        return limits_for(
            self.agents[agent], given, then, model=model, now_ms=now_ms, wall_ms=wall_ms
        )

    async def get(self, run_id: str) -> RunHandle:
        """Return a run of this store, whoever started it.

        Raises:
            RunNotFound: there is none.
        """
        await self._entered("look for a run").journal.head(run_id)
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
        journal = self._entered("list its runs").journal
        return await journal.runs(states=states, thread=thread, before=before, limit=limit)

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
        self._entered("start a run")
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
        worker = self._entered("forget runs")
        wanted = wanted_of(runs, which, now_ms=worker.clock.wall_ms())
        asked = Forget(by=by, reason=reason, drop_thread_name=drop_thread_name)
        return await forget(worker.journal, wanted, asked if yes else None, rewrite=rewrite)

    async def _create(
        self, run_id: str, born: Created, *, alone: bool, told: Redirect | None = None
    ) -> None:
        worker = self._entered("start a run")
        birth = Append(
            run_id=run_id, events=[traced(born, worker.observer)], expected_seq=0, alone=alone
        )
        await worker.journal.append(birth, *([Order(run_id, told)] if told else []))

    def _taken_up(self, run_id: str) -> RunHandle:
        self._entered("start a run").news.set()
        return self._handle(run_id)

    def _handle(self, run_id: str) -> RunHandle:
        worker = self._entered("look for a run")
        return RunHandle(run_id, worker.journal, _Origin(self, worker))


class _Origin:
    """What a handle needs of the runtime that made it."""

    def __init__(self, runtime: Runtime, worker: ProcessWorker) -> None:
        self.fork, self.let_go = runtime.fork, worker.let_go


def worker_of(runtime: Runtime) -> ProcessWorker:
    """Return what drives the runs of an entered runtime: for the server beside it.

    Raises:
        NotEntered: nobody has entered it.
    """
    return runtime._entered("drive runs")  # pyright: ignore[reportPrivateUsage]
