"""A small world to race in: processes that own, people who press buttons, and a history of it all.

Each process has a journal of its own over one store, as real processes do. Its effects happen in
`World.effects`, outside any journal: what is there has happened, whatever the records say.
"""

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass, field
from typing import Any, TypeVar

from pullcord.core.acks import Ack
from pullcord.core.commands import Command
from pullcord.core.events import (
    Cancelled,
    Completed,
    Created,
    Event,
    InstructionSettled,
    Paused,
    Record,
    StepFinished,
    StepInDoubt,
    StepStarted,
    TextEnded,
)
from pullcord.core.states import RunState
from pullcord.core.values import dump
from pullcord.errors import Fenced
from pullcord.journal.journal import Journal
from pullcord.journal.memory_store import MemoryStore
from pullcord.journal.rules.ledger import Append
from pullcord.journal.store import Store
from pullcord.runtime.ownership import Ownership
from pullcord.testing import ManualClock
from pullcord.testing.schedules import BatchingWriter, ScheduleLoop, SteppedWriter
from pullcord.testing.shared_memory_store import SharedMemoryStore

T = TypeVar("T")
TTL_S = 30.0
OWNER = "w"  # of every process that drives; another only brings a stopped run to rest


@dataclass
class Asked:
    """A control from its sending to its answer, in moments of the history."""

    run_id: str
    command: Command
    at: int
    told_at: int = 0
    ack: Ack | None = None


@dataclass
class Effect:
    """Something done in the world for a step."""

    run_id: str
    step: str
    attempt: int
    began_at: int
    ended_at: int = 0
    reported: bool = False  # the process lived to hand the outcome to the journal


@dataclass
class Look:
    """A read: begun at `at`, found `seen`."""

    run_id: str
    at: int
    seen: list[Record]


@dataclass
class Said:
    run_id: str
    fate: str
    at: int


@dataclass
class ScheduledJournals:
    """Everything one schedule did."""

    loop: ScheduleLoop
    store: Store = field(default_factory=MemoryStore)
    clock: ManualClock = field(default_factory=ManualClock)
    writer: type[SteppedWriter] = SteppedWriter
    patience: int = 24  # how late anyone may come, in moves of the schedule
    controls: list[Asked] = field(default_factory=list[Asked])
    effects: list[Effect] = field(default_factory=list[Effect])
    looks: list[Look] = field(default_factory=list[Look])
    said: list[Said] = field(default_factory=list[Said])
    given_back: set[tuple[str, int]] = field(default_factory=set[tuple[str, int]])  # run, epoch
    processes: list["Process"] = field(default_factory=list["Process"])
    put_off: list[int] = field(default_factory=list[int])  # how often each control was
    wrong: list[str] = field(default_factory=list[str])  # what the story itself has found
    acts: list[Coroutine[Any, Any, object]] = field(
        default_factory=list[Coroutine[Any, Any, object]]
    )
    moment: int = 0

    def tick(self) -> int:
        self.moment += 1
        return self.moment

    def process(self, clock: ManualClock | None = None) -> "Process":
        """A new process. `clock`: its machine's, if it has another one."""
        store = self.store
        if isinstance(store, SharedMemoryStore):
            store = store.another()
            writer = MortalHands(BatchingWriter(store))
        else:
            writer = MortalHands(self.writer(store))
        journal = Journal(store, clock=clock or self.clock, writer=writer)
        made = Process(self, journal, writer, store)
        self.processes.append(made)
        return made

    async def together(self, *acts: Coroutine[Any, Any, object]) -> None:
        """Begin each after a while that the schedule chooses, and wait for all."""
        self.acts += acts
        await asyncio.gather(*(self.loop.create_task(self._after_a_while(act)) for act in acts))

    def close(self) -> None:
        """Drop what never began or never ended."""
        for act in self.acts:
            act.close()

    async def _after_a_while(self, act: Coroutine[Any, Any, object]) -> None:
        for _ in range(self.loop.choose(self.patience)):
            await self.loop.elsewhere()
        await act


class MortalHands:
    """Hands of a process that can die: what it sent may be lost, what it is told never arrives."""

    def __init__(self, inner: SteppedWriter) -> None:
        self._inner = inner
        self.is_dead = False

    def die(self) -> None:
        self.is_dead = True
        self._inner.die()

    async def write(self, job: Any) -> Any:
        return await self._unless_dead(self._inner.write(job))

    async def read(self, job: Any) -> Any:
        return await self._unless_dead(self._inner.read(job))

    async def _unless_dead(self, act: Coroutine[Any, Any, T]) -> T:
        if self.is_dead:
            act.close()
            raise Dead
        result = await act
        if self.is_dead:
            raise Dead
        return result

    def close(self) -> None:
        pass


class Dead(BaseException):
    """This process was killed. Its coroutines end here, and nothing they would do is done."""


@dataclass
class Process:
    scheduled: ScheduledJournals
    journal: Journal
    writer: MortalHands
    store: Store

    def put_off(self) -> int:
        """How often others have put off what it wanted to write."""
        return self.store.mine.put_off if isinstance(self.store, SharedMemoryStore) else 0

    def base_ms(self) -> int:
        """Where it believes that the clock begins which never jumps. 0: it does not know."""
        ledger: Any = self.journal._ledger  # pyright: ignore[reportPrivateUsage]
        return ledger._steady._base[1]

    def die(self) -> None:
        self.writer.die()

    async def create(self, run_id: str, *, thread: str = "t1", **fields: Any) -> None:
        created = Created(agent="churn", thread=thread, **fields)
        await self.journal.append(Append(run_id=run_id, events=[created], expected_seq=0))

    async def press(self, run_id: str, command: Command, *, resend: bool = False) -> Ack:
        """Send a control and note the answer; with `resend`, as if the first answer was lost."""
        asked = Asked(run_id, command, self.scheduled.tick())
        self.scheduled.controls.append(asked)
        asked.ack = await self.journal.command(run_id, command)
        asked.told_at = self.scheduled.tick()
        return await self.press(run_id, command) if resend else asked.ack

    async def look(self, run_id: str, times: int = 2) -> None:
        for _ in range(times):
            at = self.scheduled.tick()
            self.scheduled.looks.append(Look(run_id, at, await self.journal.read(run_id)))

    async def drive(self, run_id: str, steps: int, *, text: bool = False) -> None:
        """Own the run if it can be had, and carry on with it to its end, a pause, or a loss."""
        try:
            claim = await self.journal.acquire(run_id, owner=OWNER, ttl_s=TTL_S)
            if claim is not None:
                await Driver(self, Ownership(self.journal, claim), text).carry_on(steps)
        except (Fenced, Dead):
            return  # abandoned: whoever owns it goes on


@dataclass
class Driver:
    """What the runtime will do with a claimed run, in its simplest form."""

    process: Process
    mine: Ownership
    text: bool = False

    async def carry_on(self, steps: int) -> None:
        run = self.mine.run
        for step in run.open_steps():  # an earlier owner's: nobody knows whether it happened
            await self.mine.record(StepInDoubt(step=step))
        if self.text:
            await self.talk()
        for number in range(steps):
            step = f"s{number}"
            known = run.steps.get(step)
            if known is None or known.status != "finished":
                attempt = known.attempt + 1 if known else 1
                if not await self.one_step(step, attempt):
                    break
            await self.take_instructions()
        await self.settle()

    async def one_step(self, step: str, attempt: int) -> bool:
        scheduled = self.process.scheduled
        intent = StepStarted(step=step, name=step, attempt=attempt)
        if not await self.record(intent):
            return False
        effect = Effect(self.mine.run.id, step, attempt, scheduled.tick())
        scheduled.effects.append(effect)
        await scheduled.loop.elsewhere()  # it takes its time
        effect.ended_at = scheduled.tick()
        if self.process.writer.is_dead:
            raise Dead
        await self.record(StepFinished(step=step, result=dump(step)))
        effect.reported = True
        return True

    async def record(self, event: Event) -> list[Event]:
        return await self.mine.record(event)

    async def take_instructions(self) -> None:
        await self.mine.catch_up()
        for number, told in list(self.mine.run.instructions.items()):
            if told.status == "queued" and self.mine.run.state is RunState.RUNNING:
                await self.record(InstructionSettled(instruction=number, outcome="delivered"))

    async def talk(self) -> None:
        scheduled, lease = self.process.scheduled, self.mine.lease
        shown = ""
        for word in ("one ", "two "):
            at = scheduled.tick()
            fate = await self.process.journal.live_text.say(lease, "p1", word, offset=len(shown))
            scheduled.said.append(Said(self.mine.run.id, fate, at))
            shown += word if fate != "refused" else ""
        await self.record(TextEnded(part="p1", text=shown, complete=False))

    async def settle(self) -> None:
        """Bring the run to rest, whatever was asked meanwhile."""
        while True:
            await self.mine.catch_up()
            run = self.mine.run
            rest: Event
            match run.state:
                case RunState.RUNNING:
                    rest = Completed(result=dump("done"))
                case RunState.PAUSING:
                    rest = Paused()
                case RunState.CANCELLING:
                    rest = Cancelled()
                case _:
                    self.process.scheduled.given_back.add((run.id, self.mine.lease.epoch))
                    return await self.process.journal.release(self.mine.lease)
            await self.mine.record(rest)
