"""What an agent is handed: a few live, each journalled, each a place where it can be stopped."""

import random
import uuid
from collections.abc import (
    AsyncIterable,
    AsyncIterator,
    Awaitable,
    Callable,
    Coroutine,
    Iterable,
)
from typing import Any, Concatenate, ParamSpec, TypeVar, TypeVarTuple, Unpack, overload

import msgspec

from pullcord.core.calls import ToolContext
from pullcord.core.conditions import MOST, is_amount, is_whole
from pullcord.core.events import (
    Created,
    Deferred,
    Effect,
    Event,
    InstructionSettled,
    ItemRewritten,
    ItemStarted,
    PlanEnded,
    PlanItem,
    Planned,
    QuestionAsked,
    Remembered,
    Spent,
    TextEnded,
)
from pullcord.core.limits import Limits, Then, price_in
from pullcord.core.run import Run
from pullcord.core.values import check_id, check_text, dump, load
from pullcord.errors import AgentUnknown, InvalidInput
from pullcord.journal.rules.ledger import Append
from pullcord.runtime.agents import AgentConfig, Foreign, Function, Result, guarded_by, name_of
from pullcord.runtime.doors.child_runs import ChildRun, child_id, known_child, lineage_of
from pullcord.runtime.doors.questions import answered, ask_outside
from pullcord.runtime.doors.spoken_text import say_as_it_comes
from pullcord.runtime.doors.step import carry_out_step, plain_step
from pullcord.runtime.doors.thread_history import Turn, history
from pullcord.runtime.driving.guard_verdicts import pass_or_cut, withheld_from
from pullcord.runtime.driving.live_run import LiveRun
from pullcord.runtime.policy import (
    CommandTool,
    Declared,
    DeferredTool,
    Retry,
    Tool,
    as_tool,
    policy_of,
)
from pullcord.runtime.starting_limits import Given, limits_for
from pullcord.runtime.steps.flight import current_flight
from pullcord.runtime.steps.identity import LONG_IDS, Scope, named
from pullcord.runtime.steps.manner import Manner
from pullcord.runtime.tools.tool_call import (
    Command,
    CommandResult,
    Queued,
    ToolCall,
    called,
    queued,
)
from pullcord.runtime.watching.observer import traced

P = ParamSpec("P")
R = TypeVar("R")
Args = TypeVarTuple("Args")


def _named(call: Coroutine[Any, Any, R], method: str, what: str) -> Coroutine[Any, Any, R]:
    """Have it known by what the agent wrote: Python says it of one that was never awaited."""
    call.__qualname__ = f"ctx.{method}({what}, ...)"  # pyright: ignore[reportAttributeAccessIssue]
    return call


class PlanStep(msgspec.Struct, frozen=True):
    """One item of a plan, as it is to be carried out: `instruction` is its title, or what
    somebody has rewritten it to."""

    id: str
    title: str
    instruction: str
    told: tuple[str, ...] = ()  # all that people said about it, in order; the last one counts


class Context:
    """A run as its agent sees it.

    An agent is entered from the top each time its run is taken up again, and finds everything
    answered that it did before. Code between the doors may run again; what is done through them
    is not. Every door raises `Interrupted` when the run is being unwound: let it pass.
    """

    def __init__(self, live: LiveRun, deps: Any = None, scope: Scope | None = None) -> None:
        self._live = live
        self._secrets = live.services.secrets
        self._names = scope or Scope(secrets=self._secrets, ids=live.memory.ids)
        self.deps = deps

    def _scope(self, method: str) -> Scope:
        """What names things for this method. Not inside a step: its function may be carried out
        again, or not at all, and what it names there would be another thing the next time."""
        if flight := current_flight():
            raise InvalidInput(
                f"Step {flight.name!r} used ctx.{method}(): inside a step or a tool only "
                "ctx.checkpoint() can be used, because its function may be carried out again, or "
                "not at all. Nothing was begun by it. Do it in the agent, before or after the step."
            )
        return self._names

    @property
    def live(self) -> LiveRun:
        """For adapters: what is behind the live."""
        return self._live

    @property
    def run_id(self) -> str:
        return self._live.run.id

    @property
    def thread(self) -> str:
        return self._live.run.thread

    # --- doing ---

    def step(
        self,
        name: str,
        function: Callable[[*Args], Awaitable[R]],
        *args: *Args,
        key: str | None = None,
        effect: Effect = "once",
        retry: int | Retry = 1,
        timeout_s: float | None = None,
    ) -> Coroutine[Any, Any, R]:
        """Carry out `await function(*args)` at most once, and return its result as JSON has it.

        The intent is durable before it begins and the outcome before it is returned; in a later
        life the outcome is returned and nothing is carried out. `effect`: `once` (default; a
        crash in the middle becomes a question to a person), `idempotent` (may be begun again with
        the same arguments) or `none` (it only reads). A pause lets it finish, a cancel stops it.

        Raises:
            StepError: it raised, or took longer than `timeout_s`, in the last attempt it has.
        """
        check_text(name, field="step name", empty=False)
        again = Retry(attempts=retry) if isinstance(retry, int) else retry
        identity = self._live.memory.told_apart(self._scope("step").step(name, args, key))
        grace_s = self._live.services.timing.stop_grace_s
        manner = Manner(effect=effect, timeout_s=timeout_s, grace_s=grace_s)
        wish = plain_step(identity, function, args, manner, again, self._secrets)
        return _named(carry_out_step(self._live, wish), "step", repr(name))

    @overload
    def tool(
        self, tool: Callable[..., Awaitable[R]], /, *args: Any, key: str, **kwargs: Any
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def tool(
        self, tool: Callable[..., R], /, *args: Any, key: str, **kwargs: Any
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def tool(
        self, tool: CommandTool[P], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, CommandResult]: ...
    @overload
    def tool(
        self,
        tool: CommandTool[Concatenate[ToolContext, P]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[Any, Any, CommandResult]: ...
    @overload
    def tool(
        self, tool: DeferredTool[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, Queued[R]]: ...
    @overload
    def tool(
        self,
        tool: DeferredTool[Concatenate[ToolContext, P], R],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[Any, Any, Queued[R]]: ...
    @overload
    def tool(
        self,
        tool: Callable[Concatenate[ToolContext, P], Awaitable[R]],
        /,
        *args: P.args,
        **kwargs: P.kwargs,
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def tool(
        self, tool: Callable[P, Awaitable[R]], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def tool(
        self, tool: Callable[Concatenate[ToolContext, P], R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...
    @overload
    def tool(
        self, tool: Callable[P, R], /, *args: P.args, **kwargs: P.kwargs
    ) -> Coroutine[Any, Any, R]: ...
    def tool(
        self, tool: Callable[..., Any], /, *args: Any, key: str | None = None, **kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        """Call a tool and return its result as JSON has it, under the policy that it declares
        with `@pullcord.tool`, or that the runtime was given for its name.

        Like a step, it is carried out at most once; besides, it is stopped with everything it has
        started, frozen by a pause, undone by a cancel, and begun only when it is allowed to be.
        A tool that is declared `deferred` gives a `Queued` at once.

        Raises:
            NotDone: it was denied, not started, or stopped.
            StepError: it raised, as often as it may.
        """
        meant = as_tool(tool, self._live.services.policies)
        self._live.services.policy_names.called(meant)
        return self._call(meant, meant.arguments(*args, **kwargs), key)

    async def exec(
        self,
        *argv: str,
        key: str | None = None,
        input: str = "",
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        **declared: Unpack[Declared],
    ) -> CommandResult:
        """Run a command in a process tree of its own and return its status and output.

        What it puts out is shown as it comes. `declared` is what a tool could declare
        (`effect`, `timeout_s`, `undo`, `approve`, …).
        """
        for part in argv:
            check_text(part, field="command")
        declared["command"] = True
        policy = policy_of(declared)
        name = argv[0].rpartition("/")[2] if argv else ""
        meant = Tool(Command, policy, name=check_text(name, field="command", empty=False))
        return await self._call(meant, meant.arguments(list(argv), cwd, env, input), key)

    def _call(
        self,
        tool: Tool[..., Any],
        args: dict[str, Any],
        key: str | None,
    ) -> Coroutine[Any, Any, Any]:
        method = "exec" if tool.policy.command else "tool"
        identity = self._live.memory.told_apart(self._scope(method).step(tool.name, [args], key))
        call = ToolCall(self._live, tool, identity, args, deps=self.deps)
        wish = call.wish()
        if tool.policy.deferred:
            return _named(queued(self._live, tool, wish), "tool", tool.name)
        return _named(called(self._live, tool, wish), "tool", tool.name)

    def branch(self, name: str) -> "Context":
        """Return a context of its own for something that is done concurrently with its like."""
        check_text(name, field="branch name", empty=False)
        return Context(self._live, self.deps, self._scope("branch").branch(name))

    async def checkpoint(self) -> None:
        """Let a pause, redirect or cancel take effect here.

        Returns at once if nothing was asked. While paused, returns only after resume. Inside a
        step it is the place where that step stands still.
        """
        await self._live.stand_still()

    async def defer(self, function: Callable[[*Args], Awaitable[object]], *args: *Args) -> None:
        """Have `await function(*args)` carried out however the run ends, last one first.

        After a crash it may be carried out a second time: it should be one that does not mind. It
        cannot use the doors of the context, and has `Timing.release_s`.
        """
        name = getattr(function, "__name__", "release")
        defer = self._scope("defer").other("defer", name)
        release: Callable[..., Awaitable[object]] = function
        reveal = self._secrets.reveal_value
        self._live.defers[defer] = lambda: release(*reveal(args, tool=name))
        if defer not in self._live.run.defers and defer not in self._live.memory.own_values:
            # Remembered too, because one that was released is not to be held once more.
            await self._live.begin(
                lambda _: [Deferred(defer=defer, name=name), Remembered(key=defer)]
            )

    # --- being told ---

    async def plan(self, titles: Iterable[str]) -> AsyncIterator[PlanStep]:
        """Say what you mean to do, and be handed it item by item, as people have left it.

        A redirect rewrites the next item that has not begun. An item that has begun is handed
        over with the same text whenever the agent is entered again.
        """
        plan = self._scope("plan").other("plan")
        screen = self._secrets.screen
        items = tuple(
            PlanItem(f"{plan}-{number}", screen(check_text(title, field="title", empty=False)))
            for number, title in enumerate(titles, start=1)
        )
        await pass_or_cut(self._live, dump([item.title for item in items]), part=plan)
        begun = self._live.memory.plans.get(plan, [])
        if plan not in self._live.run.plans:
            await self._live.begin(Planned(plan=plan, items=items, started=len(begun)))
        for item, start in zip(items, begun, strict=False):
            yield PlanStep(item.id, item.title, start.text, start.told)
        while (item := self._live.run.plans[plan].next) is not None:
            recorded = await self._live.begin(lambda run: _start_next(run, plan))
            started = next(event for event in recorded if isinstance(event, ItemStarted))
            yield PlanStep(item.id, item.title, started.text, started.told)
        if not self._live.run.plans[plan].ended:
            await self._live.begin(PlanEnded(plan=plan))

    async def instructions(self) -> list[str]:
        """Return what people have said since the last time, in order, each of it once. What has
        rewritten an item of a plan that has not begun is among it.

        What is never drained is returned to its author when the run ends.
        """
        key = self._scope("instructions").other("instructions")
        if key not in self._live.memory.values:
            recorded = await self._live.begin(lambda run: _drain(run, key))
            remembered = recorded[-1]
            assert isinstance(remembered, Remembered)
            return load(remembered.value)
        return load(self._live.memory.values[key])

    async def ask(self, question: str, *, details: Any = None) -> Any:
        """Ask a person and return the answer. The run waits, also for days, without a process."""
        check_text(question, field="question", empty=False)
        name = self._scope("ask").other("ask", question)
        await pass_or_cut(self._live, dump([question, details]), part=named(LONG_IDS, "ask", name))
        return await ask_outside(self._live, name, question, details=dump(details))

    async def history(self) -> list[Turn]:
        """Return what earlier runs on this thread have said and done, oldest first."""
        return await history(self._live.services.journal, self.thread, before=self._live.run)

    # --- saying ---

    async def say(self, text: str | AsyncIterable[str]) -> str:
        """Say something, whole or as it comes, and return what was said.

        What has been shown is kept, marked as partial, if it is cut. In a later life, a part that
        was complete is not said again.
        """
        part = self._scope("say").other("say")
        times, tripped = 1, self._live.memory.tripped
        while (said := self._live.memory.texts.get(part)) is not None and part not in tripped:
            if said[1]:
                return said[0]
            times += 1  # it was cut: what was shown stays, and it is said anew as another part
            part = f"{part.rpartition('--')[0] or part}--{times}"
        if part in tripped:
            raise withheld_from(self._live, part)
        if isinstance(text, str):
            text = self._secrets.screen(check_text(text, field="text"))
            await pass_or_cut(self._live, text, part=part)
            await self._live.begin(TextEnded(part=part, text=text))
            return text
        return await say_as_it_comes(self._live, part, text)

    # --- children ---

    async def spawn(
        self,
        agent: str | Callable[..., Coroutine[Any, Any, Result]] | Foreign,
        input: Any = None,
        *,
        detached: bool = False,
        final: bool = False,
        key: str | None = None,
        limits: Given = None,
        on_exhausted: Then | None = None,
    ) -> ChildRun[Result]:
        """Start another agent under this run; `await child.result()` waits for it. Awaited children
        share its fate: paused, resumed and cancelled with it, and it does not end before them. What
        one of them did is undone if this run is cancelled later, also when the child has completed;
        `final`: not then. Detached ones are only listed. What awaited ones use counts against the
        limits of this run too; they have others of their own only if they are given some, or their
        agent is."""
        agent = check_id(name_of(agent, self._live.services.agents), kind="agent")
        who = self._scope("spawn").step(f"spawn {agent}", [agent, input], key)
        live = self._live
        known = known_child(live, agent, who)
        if known.is_the_same:
            return ChildRun(live, known.run_id)
        if agent not in live.services.agents:
            raise AgentUnknown(agent, known=live.services.agents)
        child = child_id(agent, live.run.id, who, ids=live.memory.ids)
        home = live.memory.home
        line = await lineage_of(live, agent, who, known.run_id)
        born = Created(
            agent=agent,
            thread=self.thread,
            input=dump(input),
            parent=live.run.id,
            detached=detached,
            depth=0 if detached else live.run.depth + 1,
            by=live.run.id,
            target=f"{home[0]}:{agent}" if home else None,
            cwd=home[1] if home else None,
            limits=(own := await self._limits_of(agent, limits, on_exhausted, detached=detached)),
            price=price_in(own) or live.run.price,
            runaway=guarded_by(live.services.agents[agent]) or live.run.runaway,
            forked_from=line.elder,
            forked_at=line.at,
            ids=line.ids,
        )
        await live.begin(
            line.birth(child, detached=detached, final=final),
            Append(run_id=child, events=[traced(born, live.services.observer)], expected_seq=0),
        )
        return ChildRun(live, child)

    async def _limits_of(
        self, name: str, given: Given, then: Then | None, *, detached: bool
    ) -> Limits | None:
        services = self._live.services
        agent = services.agents[name]
        assert isinstance(agent, AgentConfig)
        if given is None and then is None and agent.limits is None and not detached:
            return None
        now_ms, wall_ms = await services.journal.clock.now_ms(), services.clock.wall_ms()
        return limits_for(agent, given, then, model="", now_ms=now_ms, wall_ms=wall_ms)

    async def spent(
        self,
        *,
        usd: float | None = None,
        tokens_in: int | None = None,
        tokens_out: int | None = None,
    ) -> None:
        """Say what something has cost that you have done yourself: a call of a model, say. It is
        counted once, and against the limits of the run. What is not said is unknown, not nothing.
        """
        counts = (tokens_in, tokens_out)
        is_fine = usd is None or (is_amount(usd) and usd <= MOST)
        if not is_fine or any(n is not None and not (is_whole(n, 0) and n <= MOST) for n in counts):
            raise InvalidInput(
                f"Cannot count usd={usd!r}, tokens_in={tokens_in!r}, tokens_out={tokens_out!r} as "
                f"spent: these are numbers from 0 to {MOST:g}, and tokens are whole ones. Nothing "
                "was counted."
            )
        key = self._scope("spent").other("spent")
        if key not in self._live.memory.values:
            micros = None if usd is None else round(usd * 1_000_000)
            cost = Spent(cost_usd_micros=micros, tokens_in=tokens_in, tokens_out=tokens_out)
            await self._live.begin(lambda _: [cost, Remembered(key=key)])

    def has_spawned(self, agent: "str | Function | Foreign", *, key: str) -> bool:
        """Whether `spawn` with this key has started it, in this life or an earlier one."""
        name = name_of(agent, self._live.services.agents)
        who = Scope(self._names.path, ids=self._names.ids).step(f"spawn {name}", (), key)
        return known_child(self._live, name, who).is_the_same

    # --- what would be another the next time ---

    async def now(self) -> float:
        """Return the time in seconds since 1970; the same whenever the agent is entered again."""
        return await self._remember("now", lambda: self._live.services.clock.wall_ms() / 1000)

    async def random(self) -> float:
        """Return a random number in [0, 1), remembered."""
        return await self._remember("random", lambda: random.SystemRandom().random())

    async def uuid(self) -> str:
        """Return a random UUID, remembered: good as an idempotency key for the world outside."""
        return await self._remember("uuid", lambda: str(uuid.uuid4()))

    async def sleep(self, seconds: float) -> None:
        """Wait. Durable: the run needs no process meanwhile, and a restart does not begin anew."""
        if not 0 <= seconds < 10**9:
            raise InvalidInput(f"Cannot sleep for {seconds} s. Nothing was changed.")
        name = self._scope("sleep").other("sleep")
        due_ms = await self._live.services.journal.clock.now_ms() + round(seconds * 1000)
        text = f"sleeping {seconds:g} s"
        await answered(
            self._live, QuestionAsked(question=name, kind="timer", text=text, due_ms=due_ms)
        )

    async def _remember(self, kind: str, make: Callable[[], Any]) -> Any:
        key = self._scope(kind).other(kind)
        if key not in self._live.memory.values:
            value = dump(make())
            await self._live.begin(Remembered(key=key, value=value))
            return load(value)
        return load(self._live.memory.values[key])


def entering(agent: AgentConfig) -> Callable[[LiveRun], Coroutine[Any, Any, Any]]:
    """How an agent is entered: from the top, with what it needs made anew."""

    async def enter(live: LiveRun) -> Any:
        if live.memory.is_aside:  # asked by a process that does not know the agent
            agent.check_question(live.run.forked_from or live.run.id)
        live.makes_deps = agent.deps
        deps = agent.deps() if agent.deps else None
        return await agent.enter(Context(live, deps), load(live.memory.input))

    return enter


def _start_next(run: Run, plan: str) -> list[Event]:
    """Begin the next item with its text as people have left it. What was said before there was
    an item to rewrite rewrites this one."""
    known = run.plans[plan]
    item = known.next
    if item is None:
        return []
    text = known.text(item)
    events: list[Event] = []
    said: list[str] = []
    for number, told in run.instructions.items():
        if told.status == "queued" and told.item in ("", item.id):
            said.append(told.text)
            if not told.item:
                rewritten = ItemRewritten(plan=plan, item=item.id, before=text, after=told.text)
                settled = InstructionSettled(instruction=number, outcome="delivered")
                events += [rewritten, settled]
                text = told.text
    return [*events, ItemStarted(plan=plan, item=item.id, text=text, told=tuple(said))]


def _drain(run: Run, key: str) -> list[Event]:
    told = {n: i.text for n, i in run.instructions.items() if i.status == "queued"}
    settled: list[Event] = [InstructionSettled(instruction=n, outcome="delivered") for n in told]
    return [*settled, Remembered(key=key, value=dump(list(told.values())))]
