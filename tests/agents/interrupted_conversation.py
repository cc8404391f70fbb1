"""A conversation with everything in it, and a hand that interrupts it at the n-th turn of its loop.

The loop is the one of the races: no threads, no real time, the same turns each time. So "at every
point" can be meant: `n` grows until the run ends by itself. What the model was sent, what tools
did and what people saw is kept outside of any journal.
"""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, get_args

from pydantic import BaseModel
from pydantic_ai import Agent, ModelRetry, RunContext, Tool
from pydantic_ai import messages as m
from pydantic_ai.exceptions import ModelConnectionError
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings

from pullcord import Run, RunHandle, RunState, Timing
from pullcord.core.commands import Cancel, Command, Pause, Redirect
from pullcord.core.events import Event, Record, StepStarted
from pullcord.core.run import Question
from pullcord.core.states import TERMINAL
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Ledger
from pullcord.journal.store import LiveText, Transaction
from pullcord.runtime.runtime import Runtime
from pullcord.testing.schedules import ScheduleLoop, SteppedWriter, Tape
from pullcord.testing.scripted import Call, Fail, Piece, Say, ScriptedModel, Think
from tests.agents.scripted_agents import told_on
from tests.races.laws import journals_of
from tests.races.scheduled_journals import Dead, MortalHands
from tests.races.scheduled_runtimes import (
    Ears,
    LoopClock,
    NewsJournal,
    ScheduledRuntimes,
    TellingHands,
)

RUN: Final = "r1"
NEXT_RUN: Final = "r2"
THREAD: Final = "t1"
PROMPT: Final = "Plan the party."
NEXT_PROMPT: Final = "And what now?"
_WORD: Final = re.compile(r"\[word \d+\]")
_TURNS_MAX: Final = 60_000

Mode: TypeAlias = Literal[
    "pause",
    "pause, parked",
    "pause now",
    "pause without patience",
    "redirect",
    "redirect twice",
    "redirect while paused",
    "resume with a word",
    "cancel",
    "shutdown",
    "shutdown without grace",
    "death",
]
MODES: Final[tuple[Mode, ...]] = get_args(Mode)
PAUSES: Final = ("pause", "pause, parked", "pause now", "pause without patience")
REDIRECTS: Final = ("redirect", "redirect twice", "redirect while paused", "resume with a word")
RESTARTS: Final = ("shutdown", "shutdown without grace", "death", "kill")


# --- what the model says ------------------------------------------------------------------------


class Plan(BaseModel):
    """What is given back, where it is not plain text."""

    guests: int
    heard: int


class Script:
    """What the model says next, as a function of what it was sent: it may have to say it twice."""

    def __init__(self, *, structured: bool = False) -> None:
        self.structured = structured
        self.has_failed = False

    def __call__(self, messages: list[m.ModelMessage]) -> list[Piece]:
        answered = {
            part.tool_call_id
            for message in messages
            for part in message.parts
            if isinstance(part, m.ToolReturnPart)
        }
        heard = len(set(_WORD.findall(repr(messages))))
        if NEXT_PROMPT in repr(messages):
            return self._end(answered, "next", "The next thing is to rest.", heard)
        if "look-1" not in answered:
            return [
                Think("Where would one begin? With a look."),
                Say("First I look it up."),
                Call("look", {"what": "the weather in the garden"}, id="look-1"),
            ]
        if "quick-1" not in answered:
            said: list[Piece] = [Say("Three things at once.")]
            if not self.has_failed:
                self.has_failed = True
                return [*said, Fail(ModelConnectionError("scripted", "the line is gone"))]
            return [
                *said,
                Call("quick", {"what": "chairs"}, id="quick-1"),
                Call("slow", {"what": "cake"}, id="slow-1"),
                Call("flaky", {"what": "band"}, id="flaky-1"),
            ]
        if "flaky-2" not in answered:
            return [Call("flaky", {"what": "another band"}, id="flaky-2"), Say("Once more.")]
        if "send-1" not in answered:
            return [
                Think("It has to be asked for."),
                Say("Now I send it."),
                Call("send", {"to": "everybody"}, id="send-1"),
            ]
        return self._end(answered, "end", "All is ready for nine guests.", heard)

    def _end(self, answered: set[str], name: str, text: str, heard: int) -> list[Piece]:
        if not self.structured:
            return [Think("That is all."), Say(f"{text} ({heard})")]
        nth = sum(one.startswith(name) for one in answered)
        call = Call("final_result", {"guests": 9, "heard": heard}, id=f"{name}-{nth}")
        return [Say(text), call]

    def result(self, heard: int) -> Any:
        if self.structured:
            return {"guests": 9, "heard": heard}
        return f"All is ready for nine guests. ({heard})"


class Mouth(ScriptedModel):
    """The model, as one process talks to it: a dead process is not heard by it any more."""

    def __init__(
        self, script: Script, conversation: "InterruptedConversation", writer: MortalHands
    ) -> None:
        super().__init__(script)
        self.requests = conversation.it.requests
        self._writer, self._loop = writer, conversation.loop

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[m.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        if self._writer.is_dead:
            raise Dead
        async with super().request_stream(
            messages, model_settings, model_request_parameters, run_context
        ) as stream:
            comes = stream._get_event_iterator  # pyright: ignore[reportPrivateUsage]

            async def slowly() -> AsyncGenerator[m.ModelResponseStreamEvent]:
                async for event in comes():
                    await self._loop.elsewhere()  # it comes from outside
                    yield event

            stream._get_event_iterator = slowly  # pyright: ignore[reportPrivateUsage]
            yield stream


# --- what tools do ------------------------------------------------------------------------------


class Tools:
    """What can be called. `do` has the effect of a call, and takes so many turns for it."""

    def __init__(self, do: Callable[[str, int], Awaitable[None]]) -> None:
        self._does = do

    async def _do(self, ctx: RunContext[Any], turns: int) -> None:
        await self._does(ctx.tool_call_id or "", turns)

    async def look(self, ctx: RunContext[Any], what: str) -> str:
        await self._do(ctx, 1)
        return f"found {what}"

    async def quick(self, ctx: RunContext[Any], what: str) -> str:
        await self._do(ctx, 0)
        return f"quickly: {what}"

    async def slow(self, ctx: RunContext[Any], what: str) -> str:
        await self._do(ctx, 6)
        return f"slowly: {what}"

    async def flaky(self, ctx: RunContext[Any], what: str) -> str:
        await self._do(ctx, 2)
        if ctx.tool_call_id == "flaky-1":
            raise ModelRetry("ask for another band")
        return f"at last: {what}"

    async def send(self, ctx: RunContext[Any], to: str) -> str:
        await self._do(ctx, 2)
        return f"sent to {to}"


def planner(
    model: Model, do: Callable[[str, int], Awaitable[None]], *, structured: bool = False
) -> Agent[Any, Any]:
    """The agent of the conversation."""
    can = Tools(do)
    tools = [Tool(tool) for tool in (can.look, can.quick, can.slow, can.flaky)]
    tools.append(Tool(can.send, requires_approval=True))
    kind: Any = Plan if structured else str
    return Agent(model, output_type=kind, tools=tools, name="planner")


# --- the loop with a hand in it -----------------------------------------------------------------


class PointLoop(ScheduleLoop):
    """A loop in which somebody does something right before its n-th turn."""

    def __init__(self, tape: Tape) -> None:
        super().__init__(tape)
        self.turns = 0
        self.before_turn: dict[int, Callable[[], None]] = {}

    def _step(self) -> None:
        self.turns += 1
        if act := self.before_turn.get(self.turns):
            act()
        super()._step()

    def get_task_factory(self) -> None:  # (anyio asks)
        return None


def patient(turns: int = 12) -> Tape:
    """A schedule in which the loop's own work goes first, and what is outside comes in its order,
    after so many turns at the latest: a loop that is busy for ever waits for nobody else."""
    waited = 0

    def choose(options: int) -> int:
        nonlocal waited
        waited = waited + 1 if options > 1 else 0
        if waited > turns:
            waited = 0
            return 1
        return 0

    return Tape([], choose)


@dataclass
class Process:
    runtime: Runtime
    writer: MortalHands


@dataclass
class Happened:
    """What became of one conversation, and what was seen of it from outside."""

    mode: Mode | Literal["kill"] | None = None
    then: Mode | None = None  # another interrupt, a little later
    script: Script = field(default_factory=Script)
    requests: list[list[m.ModelMessage]] = field(default_factory=list[list[m.ModelMessage]])
    did: list[str] = field(default_factory=list[str])  # the ids of calls, as they had an effect
    shown: list[LiveText | Record] = field(default_factory=list[LiveText | Record])
    was_pulled: bool = False
    is_cancelled: bool = False  # somebody was told that it is
    results: dict[str, Any] = field(default_factory=dict[str, Any])
    runs: dict[str, Run] = field(default_factory=dict[str, Run])
    records: list[Record] = field(default_factory=list[Record])
    history: list[m.ModelMessage] = field(default_factory=list[m.ModelMessage])
    errors: list[str] = field(default_factory=list[str])
    turns: list[int] = field(default_factory=list[int])  # of the loop, at which it was recorded
    ended_at: int = 0  # in turns of the loop

    @property
    def heard(self) -> list[str]:
        """What was said, and read by the agent; the rest was given back to whoever said it."""
        said = self.runs[RUN].instructions.values()
        return [one.text for one in said if one.status == "delivered"]

    def turn_of(self, kind: type[Event], /, *, nth: int = 1, **fields: object) -> int:
        """The turn of the loop after which the n-th such event was there."""
        found = [
            turn
            for turn, record in zip(self.turns, self.records, strict=False)
            if isinstance(record.event, kind)
            and all(getattr(record.event, name) == value for name, value in fields.items())
        ]
        return found[nth - 1]


@dataclass
class InterruptedConversation(ScheduledRuntimes):
    """One conversation, interrupted at one point."""

    it: Happened = field(default_factory=Happened)
    _words: int = 0
    _owner: Process | None = None
    _successor: "asyncio.Task[None] | None" = None

    @property
    def _turn(self) -> int:
        assert isinstance(self.loop, PointLoop)
        return self.loop.turns

    # --- processes ---

    async def owner(self) -> Process:
        writer = MortalHands(TellingHands(self.store, self))

        async def do(call: str, turns: int) -> None:
            if writer.is_dead:
                raise Dead
            self.it.did.append(call)
            for _ in range(turns):
                await self.loop.elsewhere()
                if writer.is_dead:
                    raise Dead

        model = Mouth(self.it.script, self, writer)
        agent = planner(model, do, structured=self.it.script.structured)
        timing = Timing(
            park_after_s=0.0 if self.it.mode == "pause, parked" else 60.0,
            hold_s=0.0 if self.it.mode == "pause without patience" else 10.0,
            shutdown_grace_s=0.0 if self.it.mode == "shutdown without grace" else 5.0,
            breath_s=0,
        )
        clock = LoopClock(self.loop)
        runtime = Runtime(
            NewsJournal(self, writer), agents={"planner": agent}, clock=clock, timing=timing
        )
        await runtime.__aenter__()
        self._owner = Process(runtime, writer)
        return self._owner

    # --- the hand ---

    def pull(self, mode: Mode | None) -> None:
        """Do it: what is commanded is durable before the loop takes its next turn."""
        head = self.store.read(lambda view: view.head(RUN))
        if mode in RESTARTS:  # also of a process that is only about to start it
            is_possible = self._owner is not None and not (head and head.state in TERMINAL)
        else:
            is_possible = head is not None
        if not is_possible:
            return
        self.it.was_pulled = True
        match mode:
            case "pause" | "pause, parked" | "pause without patience":
                self._command(Pause(by="ana"))
            case "pause now":
                self._command(Pause(by="ana", now=True))
            case "redirect while paused" | "resume with a word":
                self._command(Pause(by="ana"))
            case "redirect":
                self._command(Redirect(by="ana", instruction=self._word()))
            case "redirect twice":
                self._command(Redirect(by="ana", instruction=self._word()))
                self._command(Redirect(by="ana", instruction=self._word()))
            case "cancel":
                self._command(Cancel(by="ana", reason="wrong path"))
            case "shutdown" | "shutdown without grace" | "death":
                before = self._successor
                self._successor = self.loop.create_task(self._succeed(mode, before))
            case _:
                pass

    def _command(self, command: Command) -> None:
        ledger = Ledger(LoopClock(self.loop))

        def decide(tx: Transaction) -> None:
            ack = ledger.command(tx, RUN, command)
            if isinstance(command, Cancel):
                self.it.is_cancelled = ack.holds

        self.store.write(decide)
        self.commit_happened()

    async def _succeed(self, mode: Mode, before: "asyncio.Task[None] | None") -> None:
        if before:
            await before
        assert self._owner is not None
        if mode == "death":
            self._owner.writer.is_dead = True
        else:
            await self._owner.runtime.aclose()
        await self.owner()

    # --- people ---

    def _word(self) -> str:
        """Something to say that nobody has said before."""
        self._words += 1
        return f"[word {self._words}]"

    async def converse(self) -> None:
        await self.owner()
        people = NewsJournal(self, SteppedWriter(self.store))
        await self._start(RUN, PROMPT)
        viewing = self.loop.create_task(self._view(people))
        await self._see_through(people, RUN)
        self.it.ended_at = self._turn
        await self._start(NEXT_RUN, NEXT_PROMPT)
        await self._see_through(people, NEXT_RUN)
        await viewing
        await (await self._latest()).runtime.aclose()

    async def _start(self, run_id: str, prompt: str) -> None:
        """Start it. Whoever does so may die before they are told: then all of it is durable, or
        nothing, and they start it again if it is not there."""
        while self.store.read(lambda view: view.head(run_id)) is None:
            runtime = (await self._latest()).runtime
            with suppress(Dead):
                await runtime.start("planner", prompt, run_id=run_id, thread=THREAD)

    async def _latest(self) -> Process:
        """The process that came last, when everybody has come."""
        while self._successor and not self._successor.done():
            await self._successor
        assert self._owner is not None
        return self._owner

    async def _view(self, journal: Journal) -> None:
        async with aclosing(RunHandle(RUN, journal, None).events()) as stream:  # pyright: ignore[reportArgumentType]
            async for _, item in stream:
                self.it.shown.append(item)

    async def _see_through(self, journal: Journal, run_id: str) -> None:
        """Resume it, allow it, tell what is asked, as somebody would who knows the world."""
        run = RunHandle(run_id, journal, None)  # pyright: ignore[reportArgumentType]
        while not (now := await run.snapshot()).ended:
            if now.state is RunState.PAUSED:
                await self._resume(run)
            for name in now.open_questions():
                await self._answer(run, name, now.questions[name])
            await asyncio.sleep(1.0)  # of the loop's time: when nothing else can happen
        self.it.runs[run_id] = now
        if now.state is RunState.COMPLETED:
            self.it.results[run_id] = await run.result()

    async def _resume(self, run: RunHandle) -> None:
        if self.it.mode == "redirect while paused":
            await run.redirect(self._word(), by="ana")
            await run.redirect(self._word(), by="ana")
        word = self._word() if self.it.mode == "resume with a word" else None
        await run.resume(word, by="ana")

    async def _answer(self, run: RunHandle, name: str, asked: Question) -> None:
        if asked.kind == "approval":
            await run.approve(name, by="bo")
        elif asked.kind == "doubt":
            call = call_of(asked.step, journals_of(self.store)[RUN])
            happened = call in self.it.did
            await run.answer(name, {"happened": f"saw {call}"} if happened else "run", by="bo")

    # --- what happened ---

    def commit_happened(self) -> None:
        super().commit_happened()
        head = self.store.read(lambda view: view.head(RUN))
        self.it.turns += [self._turn] * ((head.seq if head else 0) - len(self.it.turns))


def call_of(step: str, records: Sequence[Record]) -> str:
    """The call that a step is."""
    for record in records:
        if isinstance(record.event, StepStarted) and record.event.step == step:
            return record.event.digest
    raise LookupError(step)


def play(
    mode: Mode | None,
    at: int,
    *,
    then: Mode | None = None,
    gap: int = 1,
    structured: bool = False,
    tape: Tape | None = None,
) -> Happened:
    """The conversation, interrupted in this way before the `at`-th turn of its loop, `then` in
    another `gap` turns later."""
    loop = PointLoop(tape or patient())
    loop.patience = _TURNS_MAX
    it = Happened(mode=mode, then=then, script=Script(structured=structured))
    conversation = InterruptedConversation(loop, it=it)
    loop.before_turn = {
        at: lambda: conversation.pull(mode),
        at + gap: lambda: conversation.pull(then) if then else None,
    }
    ears = Ears(conversation)
    log = logging.getLogger("pullcord")
    log.addHandler(ears)

    async def story() -> None:
        await conversation.converse()
        people = NewsJournal(conversation, SteppedWriter(conversation.store))
        it.records = await people.read(RUN)
        it.history = await told_on(people, THREAD)

    try:
        loop.run_until_complete(story())
    finally:
        log.removeHandler(ears)
        conversation.close()
    it.errors += conversation.errors + [str(one) for one in loop.errors]
    return it
