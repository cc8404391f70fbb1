"""The run of an adapter's agent: its doors to the model, to tools and to people.

The journal records everything that goes through a door, and a control can stop it. When a process
takes the run up again, the door answers from the journal.
"""

import asyncio
from collections.abc import Callable, Coroutine, Generator, Iterable, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from pullcord.adapters.past import PastRequest, PastRun, requests_in
from pullcord.adapters.tools import ToolRequest, call_tool, overtaken
from pullcord.core.conditions import Price
from pullcord.core.events import Event, QuestionAsked, Remembered
from pullcord.core.run import Cost, Run
from pullcord.core.text.secrets import Secrets
from pullcord.core.values import Json, dump, load
from pullcord.errors import NotDone
from pullcord.journal.store import joined
from pullcord.runtime.context import Context
from pullcord.runtime.doors.model_request import Request, ask_model, is_told, shown_before, step_of
from pullcord.runtime.doors.questions import answered
from pullcord.runtime.doors.step import carry_out_step, plain_step
from pullcord.runtime.doors.thread_history import earlier_runs
from pullcord.runtime.policy import Policy, Retry, policy_of
from pullcord.runtime.steps.identity import Identity, named
from pullcord.runtime.steps.manner import Manner

_CURRENT: Final[ContextVar["AgentRun | None"]] = ContextVar("pullcord-agent-run", default=None)


def current_run() -> "AgentRun | None":
    """Return the run that this code works for.

    None: it runs without Pullcord, and a wrapper passes every call through unchanged.
    """
    return _CURRENT.get()


class AgentRun:
    """The run of an agent, as its adapter uses it. Make a new one each time the agent is entered.

    An agent of a framework goes on from its stored messages, and does not ask for earlier steps
    again. So none of them counts as vanished.
    """

    def __init__(self, ctx: Context) -> None:
        self.ctx = ctx
        self._live = ctx.live
        self._taken: set[int] = set()
        for past in self._live.memory.steps.values():
            past.is_met = True

    @contextmanager
    def inside(self) -> Generator["AgentRun"]:
        """Make this the `current_run` of the code inside."""
        token = _CURRENT.set(self)
        try:
            yield self
        finally:
            _CURRENT.reset(token)

    # --- facts about the run ---

    @property
    def is_child(self) -> bool:
        """Whether another run started it. It then knows nothing of the thread's earlier runs."""
        return self._live.run.parent is not None

    @property
    def is_aside(self) -> bool:
        """Whether it only answers a question about the run that it was forked from."""
        return self._live.memory.is_aside

    @property
    def model(self) -> str:
        """The model that the agent has to use instead of its own. Empty: its own."""
        return self._live.memory.model

    @property
    def price(self) -> Price | None:
        """The price of its model, as its limits name it."""
        return self._live.run.price

    @property
    def cost(self) -> Cost:
        """Its cost so far, over all of its lives."""
        return self._live.run.cost

    @property
    def limits_reached(self) -> tuple[str, ...]:
        """The limits that ended it, which leave it only a last word. Empty: none."""
        return self._live.run.reached.leaves if self._live.run.reached else ()

    @property
    def has_last_word(self) -> bool:
        """Whether an earlier life began the request for the last word."""
        return bool(self._live.run.reached and self._live.run.reached.step)

    @property
    def secrets(self) -> Secrets:
        """The registered secrets. Seal what a framework sees; reveal a tool's arguments."""
        return self._live.services.secrets

    @property
    def can_make_deps(self) -> Callable[[], Any] | None:
        """The function that makes `ctx.deps`, which another process may call too. None: no deps."""
        return self._live.makes_deps

    def policy(self, tool: str) -> Policy:
        """Return the policy that the program gave for this tool's name."""
        return policy_of(self._live.services.policies.get(tool, Policy()))

    def has_tools(self, names: Iterable[str]) -> None:
        """Report the agent's tools, so that the runtime can refuse a policy without a tool."""
        self._live.services.policy_names.listed(self._live.run.agent, names)

    def step_id(self, readable: str, *parts: object) -> str:
        """Return the id of a step or question. Every life makes the same id of these parts."""
        return named(self._live.memory.ids, readable, *parts)

    # --- what people say ---

    @property
    def is_told(self) -> bool:
        """Whether a person gave an instruction that no request has delivered yet."""
        return is_told(self._live.run)

    def told(self) -> dict[int, str]:
        """Return the instructions that no request has taken yet, in order, by number.

        The caller puts them into its next request, and names the numbers in `Request.delivers`.
        """
        said = self._live.run.instructions.items()
        new = {n: i.text for n, i in said if i.status == "queued" and n not in self._taken}
        self._taken |= new.keys()
        return new

    def tell_again(self, numbers: Iterable[int]) -> None:
        """Have `told` return these instructions again, unless a request has delivered them.

        The request that was to deliver them never began.
        """
        self._taken -= set(numbers)

    def refuse_if_told(self, name: str) -> None:
        """Refuse a call that has not begun, if a person gave a new instruction.

        Raises:
            NotDone: with the words for the model.
        """
        if self.is_told:
            raise overtaken(name)

    def undelivered(self, numbers: Iterable[int]) -> list[int]:
        """Return the numbers of those instructions that no request has delivered yet."""
        known = self._live.run.instructions
        return [number for number in numbers if known[number].status == "queued"]

    # --- doors ---

    async def ask_model(self, request: Request) -> Json:
        """Return the model's answer, from this life or an earlier one.

        Raises:
            InstructionArrived: a person gave an instruction before the answer was complete.
            OutOfLimits: a limit is reached, and the model was not asked.
            Interrupted: the run is being unwound.
        """
        return await ask_model(self._live, request)

    def has_asked(self, key: str) -> bool:
        """Return whether this life or an earlier one began the request with this key."""
        return step_of(key) in self._live.run.steps

    async def call_tool(self, request: ToolRequest) -> Any:
        """Return the tool's result, from this life or an earlier one.

        Raises:
            NotDone: it did not begin, was denied or stopped, or its outcome is unknown.
            StepError: it raised.
            Interrupted: the run is being unwound.
        """
        return await call_tool(self._live, request, self.ctx.deps)

    async def step(self, step: str, name: str, work: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        """Do the work at most once, and return its result, from this life or an earlier one.

        Raises:
            StepError: it raised.
            Interrupted: the run is being unwound.
        """
        manner = Manner(grace_s=self._live.services.timing.stop_grace_s)
        who = Identity(step, name, "", step, 0)
        once = Retry(attempts=1)
        return await carry_out_step(
            self._live, plain_step(who, work, (), manner, once, self.secrets)
        )

    async def ask_outside(self, question: str, text: str, details: Any) -> Json | None:
        """Return the answer from outside the run.

        None: a redirect withdrew the question, or came before it, and then it was not asked
        (`has_asked_outside`).

        Raises:
            Interrupted: the run is being unwound.
        """
        asked = QuestionAsked(question=question, text=text, details=dump(details))

        def unless_told(run: Run) -> list[Event]:
            """Refuse the question itself: nobody would read its answer before the instruction."""
            if is_told(run):
                raise overtaken(question)
            return []

        try:
            return await answered(self._live, asked, with_it=unless_told)
        except NotDone:
            return None

    def has_asked_outside(self, question: str) -> bool:
        """Return whether this life or an earlier one asked the question."""
        return question in self._live.run.questions or question in self._live.memory.answers

    def in_background(self, work: Coroutine[Any, Any, None]) -> None:
        """Begin work that no run waits for. The runtime waits for it when it closes."""
        self._live.services.waits_for(asyncio.create_task(work))

    # --- what is kept ---

    def kept(self, key: str) -> Any:
        """Return the value that this life or an earlier one kept under this key, or None."""
        value = self._live.memory.values.get(key)
        return None if value is None else load(value)

    async def keep(self, key: str, value: Any) -> None:
        """Keep a value for later lives, such as a checkpoint. It is durable on return."""
        stored = value if isinstance(value, Json) else dump(value)
        await self._live.begin(Remembered(key=key, value=stored))
        self._live.memory.values[key] = stored
        self._live.memory.own_values.add(key)

    def has_kept(self, key: str) -> bool:
        """Return whether this run itself kept it, and not a run that it goes on from."""
        return key in self._live.memory.own_values

    # --- the past ---

    @property
    def requests(self) -> Sequence[PastRequest]:
        """The model requests that earlier lives began, in order."""
        return requests_in(self._live.memory)

    def shown(self, key: str) -> str:
        """Return the text that people saw of a cut answer."""
        return shown_before(self._live.memory, key)

    async def earlier(self) -> list[PastRun]:
        """Return the runs on its thread before it, oldest first, without quarantined ones.

        For a fork, they include the runs before its source.
        """
        run = self._live.run
        return [
            PastRun(records) for records in await earlier_runs(self._live.services.journal, run)
        ]

    async def source(self) -> PastRun | None:
        """Return the run that a question aside is about, as it was at the time of the question."""
        run, journal = self._live.run, self._live.services.journal
        if run.forked_from is None:
            return None
        records = await journal.read(run.forked_from, limit=run.forked_at)
        return PastRun(records, says=joined(await journal.live_text.unended(run.forked_from)))

    async def so_far(self) -> PastRun:
        """Return this run itself, as its journal has it now."""
        return PastRun(await self._live.services.journal.read(self._live.run.id))
