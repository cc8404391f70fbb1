"""Whole runs in a small world: real runtimes, whose every outside event the tape places.

Each process is a `Runtime` with a journal of its own over one store. What its agents do in the
world is in `effects`, outside any journal. A process can die: nothing it does after that counts.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from pullcord import Call, Context, NotDone, RunHandle, RunState, Timing
from pullcord.core.events import (
    Answered,
    Cancelled,
    CancelRequested,
    ChildEnded,
    Completed,
    Record,
    StepFinished,
    StepInDoubt,
    StepInterrupted,
    StepStarted,
    StepUndone,
)
from pullcord.core.states import LIVING
from pullcord.journal.clock import BootTime
from pullcord.journal.facets.changes import Changes
from pullcord.journal.journal import Journal
from pullcord.journal.memory_store import MemoryStore
from pullcord.journal.watch import Changed
from pullcord.journal.writer import Writer
from pullcord.runtime.policy import DeferredTool, Policy, Tool
from pullcord.runtime.runtime import Runtime
from pullcord.testing.schedules import BatchingWriter, ScheduleLoop, SteppedWriter
from pullcord.testing.shared_memory_store import SharedMemoryStore
from tests.races.laws import journals_of, record_laws, stop_laws
from tests.races.scheduled_journals import Dead, MortalHands

LEASE_S: Final = 30.0
_STEPS_MAX: Final = 60_000


class LoopClock:
    """Time as the schedule's loop has it: it passes only when nothing else can happen."""

    def __init__(self, loop: ScheduleLoop) -> None:
        self._loop = loop

    def wall_ms(self) -> int:
        return 1_700_000_000_000 + round(self._loop.time() * 1000)

    def boot_time(self) -> BootTime:
        return BootTime("boot", self._loop.time())


class TellingHands(SteppedWriter):
    """Hands that tell every listener in the world of a commit, whenever the tape lets the news
    arrive."""

    def __init__(self, store: MemoryStore, scheduled: "ScheduledRuntimes") -> None:
        super().__init__(store)
        self._scheduled = scheduled

    async def write(self, job: Any) -> Any:
        try:
            return await super().write(job)
        finally:
            self._scheduled.commit_happened()


class TellingBatches(BatchingWriter):
    """The same over a store that others write to meanwhile."""

    def __init__(self, store: SharedMemoryStore, scheduled: "ScheduledRuntimes") -> None:
        super().__init__(store)
        self._scheduled = scheduled

    async def write(self, job: Any) -> Any:
        try:
            return await super().write(job)
        finally:
            self._scheduled.commit_happened()


class News(Changes):
    """What the schedule lets a process hear of."""

    def __init__(self, scheduled: "ScheduledRuntimes", writer: Writer) -> None:
        super().__init__(scheduled.store, writer, LoopClock(scheduled.loop))
        self._scheduled = scheduled

    def watch(self, on_change: Callable[[Changed], None]) -> Callable[[], None]:
        return self._scheduled.listen(on_change)


class NewsJournal(Journal):
    """A journal that hears of commits through the schedule, not through a thread."""

    def __init__(self, scheduled: "ScheduledRuntimes", writer: Writer) -> None:
        super().__init__(scheduled.store, clock=LoopClock(scheduled.loop), writer=writer)
        self.changes = News(scheduled, writer)

    async def aclose(self) -> None:
        pass


@dataclass
class ScheduledRuntimes:
    """Everything one schedule did."""

    loop: ScheduleLoop
    store: MemoryStore = field(default_factory=MemoryStore)
    effects: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # run, step
    undone: list[tuple[str, str]] = field(default_factory=list[tuple[str, str]])  # run, step
    errors: list[str] = field(default_factory=list[str])
    _listeners: list[Callable[[Changed], None]] = field(
        default_factory=list[Callable[[Changed], None]]
    )
    _mark: tuple[int, int] = (0, 0)
    _open: list["Process"] = field(default_factory=list["Process"])
    _acts: list[Coroutine[Any, Any, object]] = field(
        default_factory=list[Coroutine[Any, Any, object]]
    )

    def listen(self, on_change: Callable[[Changed], None]) -> Callable[[], None]:
        self._listeners.append(on_change)

        def stop() -> None:
            if on_change in self._listeners:
                self._listeners.remove(on_change)

        return stop

    def commit_happened(self) -> None:
        self._mark, changed = self.store.read(lambda view: view.changed(self._mark))
        if changed:
            for listener in self._listeners:
                self.loop.outside(lambda tell=listener: tell(changed))

    async def process(self, **timing: Any) -> "Process":
        writer = MortalHands(
            TellingBatches(self.store.another(), self)
            if isinstance(self.store, SharedMemoryStore)
            else TellingHands(self.store, self)
        )
        journal = NewsJournal(self, writer)
        patience = Timing(lease_s=LEASE_S, retry_storage_s=1.0, breath_s=0, **timing)
        agents = Agents(self, writer)
        runtime = Runtime(journal, agents=agents.all(), clock=LoopClock(self.loop), timing=patience)
        made = Process(self, runtime, writer)
        self._open.append(made)
        await runtime.__aenter__()
        return made

    async def together(self, *acts: Coroutine[Any, Any, object]) -> None:
        """Begin each after a while that the tape chooses, and wait for all."""
        self._acts += acts
        await asyncio.gather(*(self.loop.create_task(self._after_a_while(act)) for act in acts))

    async def _after_a_while(self, act: Coroutine[Any, Any, object]) -> None:
        for _ in range(self.loop.choose(24)):
            await self.loop.elsewhere()
        await act

    def close(self) -> None:
        for act in self._acts:
            act.close()

    def violations(self) -> list[str]:
        """Every law that this history breaks, in words."""
        journals = journals_of(self.store)
        found = record_laws(journals) + stop_laws(self.store, journals) + self.errors
        if self.loop.time() > LEASE_S and not any(p.writer.is_dead for p in self._open):
            found.append("nobody died, and yet somebody had to wait for a lease to lapse")
        for run_id, records in journals.items():
            found += [f"{run_id}: {broken}" for broken in _judged(records)]
            found += [f"{run_id}: {broken}" for broken in self._taken_back(run_id, records)]
            intents = [r.event for r in records if isinstance(r.event, StepStarted)]
            begun = Counter(event.name for event in intents)
            done = Counter(step for run, step in self.effects if run == run_id)
            names = {event.step: event.name for event in intents}
            finished = Counter(
                names[r.event.step] for r in records if isinstance(r.event, StepFinished)
            )
            for step, times in done.items():
                if times > begun[step]:
                    found.append(f"{run_id}: {step} was done {times} times, intended {begun[step]}")
                if step.startswith("once") and times > 1:
                    found.append(f"{run_id}: {step} was done {times} times")
            for step, times in finished.items():
                if done[step] < times:
                    found.append(f"{run_id}: {step} is called finished, and was not done")
        return found

    def _taken_back(self, run_id: str, records: list[Record]) -> Iterator[str]:
        """A cancelled run's drafts are gone, the newest first; nothing else is undone."""
        events = [record.event for record in records]
        done = [step for run, step in self.effects if run == run_id and step.startswith("draft")]
        undone = [step for run, step in self.undone if run == run_id]
        if not any(isinstance(event, Cancelled) for event in events):
            if undone:
                yield f"{undone} were undone, and it was not cancelled"
            return
        nobody_died = not any(process.writer.is_dead for process in self._open)
        for step in done:
            if step not in undone:
                yield f"{step} was done, and not undone"
            if nobody_died and undone.count(step) > 1:
                yield f"{step} was undone {undone.count(step)} times"
        recorded = [event.step for event in events if isinstance(event, StepUndone)]
        decided = [
            event.step
            for event in events
            if isinstance(event, StepFinished | StepInterrupted | StepInDoubt)
        ]
        if recorded != [step for step in reversed(decided) if step in recorded]:
            yield f"undone in the order {recorded}, decided in the order {decided}"


def _judged(records: list[Record]) -> Iterator[str]:
    events = [record.event for record in records]
    denied = {e.question for e in events if isinstance(e, Answered) and e.by == "bo"}
    for event in events:
        if isinstance(event, StepStarted) and event.approval in denied:
            yield f"{event.name} was begun, and bo had said no"
    if not any(isinstance(event, Completed | Cancelled) for event in events):
        yield f"it never came to an end, or to a wrong one: {events[-1]}"
    asked = next((n for n, e in enumerate(events) if isinstance(e, CancelRequested)), len(events))
    for event in events[asked:]:
        if isinstance(event, ChildEnded) and event.state != RunState.CANCELLED:
            yield f"its child {event.child} was not cancelled with it"


class Ears(logging.Handler):
    """Whatever the runtime complains of aloud is a violation, too."""

    def __init__(self, scheduled: "ScheduledRuntimes") -> None:
        super().__init__(logging.ERROR)
        self._scheduled = scheduled

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        self._scheduled.errors.append(f"{record.getMessage()} {error!r}")


@dataclass
class Process:
    scheduled: ScheduledRuntimes
    runtime: Runtime
    writer: MortalHands

    def die(self) -> None:
        self.writer.die()

    async def start(self, agent: str, run_id: str = "r1", **more: Any) -> RunHandle:
        return await self.runtime.start(agent, run_id=run_id, **more)

    async def leave(self) -> None:
        await self.runtime.aclose()

    async def see_through(self) -> None:
        """Resume, answer and wait until every run has ended, as a patient person would."""
        while living := await self.runtime.list(states=LIVING):
            for head in living:
                await self._care_for(await self.runtime.get(head.run_id))
            await asyncio.sleep(1.0)  # of the schedule: only when nothing else can happen

    async def _care_for(self, run: RunHandle) -> None:
        now = await run.snapshot()
        if now.state is RunState.PAUSED:
            await run.resume(by="patient")
        for name in now.open_questions():
            if now.questions[name].kind != "timer":
                if now.questions[name].kind == "approval":
                    await run.approve(name, by="patient")
                    continue
                await run.answer(
                    name, "skip" if name.startswith(("doubt", "changed")) else "yes", by="patient"
                )


class Agents:
    """What the agents of one process do. They stop existing when it dies."""

    def __init__(self, scheduled: ScheduledRuntimes, writer: MortalHands) -> None:
        self._scheduled, self._writer = scheduled, writer

    def all(self) -> dict[str, Any]:
        return {
            "two": self.two,
            "plan": self.plan,
            "parallel": self.parallel,
            "asks": self.asks,
            "talks": self.talks,
            "family": self.family,
            "child": self.child,
            "sleeps": self.sleeps,
            "toils": self.toils,
            "drafts": self.drafts,
            "pays": self.pays,
        }

    async def do(self, run_id: str, step: str) -> str:
        if self._writer.is_dead:
            raise Dead
        self._scheduled.effects.append((run_id, step))
        await self._scheduled.loop.elsewhere()  # it takes its time
        if self._writer.is_dead:
            raise Dead
        return step

    def step(self, ctx: Context, name: str, effect: Any = "once") -> Any:
        return ctx.step(name, self.do, ctx.run_id, name, effect=effect)

    async def toil(self, run_id: str, step: str) -> str:
        """An effect that is there long before it can be told."""
        await self.do(run_id, step)
        for _ in range(6):
            await self._scheduled.loop.elsewhere()
        return step

    async def toils(self, ctx: Context) -> None:
        await ctx.step("once-a", self.toil, ctx.run_id, "once-a")

    async def discard(self, call: Call) -> None:
        await self._scheduled.loop.elsewhere()
        if self._writer.is_dead:
            raise Dead
        self._scheduled.undone.append((call.args["run_id"], call.args["step"]))
        await self._scheduled.loop.elsewhere()
        if self._writer.is_dead:
            raise Dead

    def draft(self, ctx: Context, name: str) -> Any:
        made = Tool(self.do, Policy(undo=self.discard), name=name)
        return ctx.tool(made, ctx.run_id, name)

    async def drafts(self, ctx: Context) -> None:
        await self.draft(ctx, "draft-a")
        await asyncio.gather(
            self.draft(ctx.branch("x"), "draft-x"), self.draft(ctx.branch("y"), "draft-y")
        )
        await self.step(ctx, "once-z")

    async def pays(self, ctx: Context) -> str:
        pay = Tool(self.do, Policy(approve="always"), name="once-pay")
        policy = Policy(approve="always", deferred=True)
        later: DeferredTool[[str, str], str] = DeferredTool(self.do, policy, name="once-later")
        queued = await ctx.tool(later, ctx.run_id, "once-later")
        try:
            await ctx.tool(pay, ctx.run_id, "once-pay")
        except NotDone as refused:
            await self.step(ctx, "safe-b", "idempotent")
            return refused.outcome
        try:
            return await queued.result()
        except NotDone as refused:
            return refused.outcome

    async def two(self, ctx: Context) -> str:
        await self.step(ctx, "once-a")
        await self.step(ctx, "safe-b", "idempotent")
        return "done"

    async def plan(self, ctx: Context) -> list[str]:
        told = [item.instruction async for item in ctx.plan(["one", "two"])]
        await self.step(ctx, "once-a")
        return told + await ctx.instructions()

    async def parallel(self, ctx: Context) -> None:
        await asyncio.gather(
            self.step(ctx.branch("x"), "once-x"),
            self.step(ctx.branch("y"), "safe-y", "none"),
            ctx.checkpoint(),
        )

    async def asks(self, ctx: Context) -> str:
        await ctx.defer(self.release, ctx.run_id)
        answer = await ctx.ask("sure?")
        await self.step(ctx, "once-a")
        return answer

    async def release(self, run_id: str) -> None:
        if self._writer.is_dead:
            raise Dead

    async def talks(self, ctx: Context) -> str:
        return await ctx.say(self.words())

    async def words(self) -> AsyncIterator[str]:
        for word in ("one ", "two "):
            yield word
            await self._scheduled.loop.elsewhere()

    async def family(self, ctx: Context) -> list[str]:
        first = await ctx.spawn("child", 1)
        second = await ctx.spawn("child", 2)
        return [await first.result(), await second.result()]

    async def child(self, ctx: Context, number: int) -> str:
        return await self.step(ctx, f"once-{number}")

    async def sleeps(self, ctx: Context) -> None:
        await ctx.sleep(5)
        await self.step(ctx, "once-a")


Story: TypeAlias = Callable[[ScheduledRuntimes], Coroutine[Any, Any, None]]


def played(
    story: Story, make_store: Callable[[], MemoryStore] = MemoryStore
) -> Callable[[ScheduleLoop], Coroutine[Any, Any, list[str]]]:
    """A story as the explorer wants it: run, brought to its end, judged."""

    async def play(loop: ScheduleLoop) -> list[str]:
        loop.patience = _STEPS_MAX
        scheduled = ScheduledRuntimes(loop, make_store())
        ears = Ears(scheduled)
        log = logging.getLogger("pullcord.runtime")
        log.addHandler(ears)
        try:
            await story(scheduled)
            return scheduled.violations()
        finally:
            log.removeHandler(ears)
            scheduled.close()

    return play
