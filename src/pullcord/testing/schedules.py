"""An event loop that explores orders: which of the things outside happens first.

asyncio promises that callbacks run in the order they were scheduled, so that order is kept. What
no program may count on is the order of *outside* events: a commit that is done, a reply that
arrives, a timer that is due. At every step the loop asks a tape of numbers whether to go on or to
let one of them happen. The tape is the schedule: print it, and the same run happens again.
"""

import asyncio
import contextlib
import heapq
import random
from collections import deque
from collections.abc import Callable, Coroutine, Iterator
from contextvars import Context
from dataclasses import dataclass
from typing import Any, TypeVar

from pullcord.journal.one_commit import Trouble
from pullcord.journal.optimistic import Attempts
from pullcord.journal.store import Job, Outcome, Store, Transaction, View
from pullcord.journal.writer import WriteOutcome, settled
from pullcord.testing.shared_memory_store import SharedMemoryStore

T = TypeVar("T")


class Tape:
    """The choices of one schedule: given ones first, then by `default`."""

    def __init__(self, given: list[int], default: Callable[[int], int]) -> None:
        self._given = given
        self._default = default
        self.taken: list[tuple[int, int]] = []  # (choice, out of how many)

    def choose(self, options: int) -> int:
        at = len(self.taken)
        choice = self._given[at] if at < len(self._given) else self._default(options)
        self.taken.append((choice, options))
        return choice

    def __str__(self) -> str:
        return " ".join(str(choice) for choice, _ in self.taken)


class ScheduleLoop(asyncio.AbstractEventLoop):
    """Virtual time, no I/O, and a tape that decides which outside event comes next."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape
        self._ready: deque[asyncio.Handle] = deque()
        self._outside: list[Callable[[], None]] = []
        self._timers: list[tuple[float, int, asyncio.TimerHandle]] = []
        self._now = 0.0
        self._count = 0
        self.patience = 10_000_000  # steps; a story that takes more goes round in circles
        self._tasks: list[Any] = []
        self.errors: list[dict[str, Any]] = []

    # --- what happens outside ---

    def outside(self, happens: Callable[[], None]) -> None:
        """Let `happens` take place at some moment that the tape chooses."""
        self._outside.append(happens)

    async def elsewhere(self) -> None:
        """Wait until the tape lets this task go on: a place where anything may come between."""
        done = self.create_future()
        self.outside(lambda: None if done.done() else done.set_result(None))
        await done

    def meanwhile(self) -> None:
        """Let the tape have one outside event happen now, in the middle of another one, or none."""
        if self._outside and (choice := self._tape.choose(len(self._outside) + 1)):
            self._outside.pop(choice - 1)()

    def choose(self, options: int) -> int:
        """Let the tape settle something else about the story: a number below `options`."""
        return self._tape.choose(options)

    def run_until_complete(self, future: Coroutine[Any, Any, T]) -> T:  # pyright: ignore
        asyncio.events._set_running_loop(self)  # pyright: ignore
        try:
            task = self.create_task(future)
            while not task.done():
                self._step()
            return task.result()
        finally:
            self._tidy_up()
            asyncio.events._set_running_loop(None)  # pyright: ignore

    def _tidy_up(self) -> None:
        """End what a story left behind, quietly: some wait for ever, and that is the story."""
        for task in self._tasks:
            if not task.done():
                task._log_destroy_pending = False
                with contextlib.suppress(BaseException):
                    task.get_coro().close()

    def _step(self) -> None:
        self.patience -= 1
        if self.patience < 0:
            raise RuntimeError(f"the story never ends; the schedule was {self._tape}")
        options = len(self._outside) + bool(self._ready)
        if options == 0:
            self._pass_time()
            return
        choice = self._tape.choose(options) if options > 1 else 0
        if self._ready:
            if choice == 0:
                handle = self._ready.popleft()
                if not handle.cancelled():
                    handle._run()  # pyright: ignore
                return
            choice -= 1
        self._outside.pop(choice)()

    def _pass_time(self) -> None:
        if not self._timers:
            raise RuntimeError(f"nothing can happen any more; the schedule was {self._tape}")
        self._now, _, handle = heapq.heappop(self._timers)
        if not handle.cancelled():
            self._ready.append(handle)

    # --- what asyncio asks of a loop ---

    def time(self) -> float:
        return self._now

    def call_soon(  # pyright: ignore
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    call_soon_threadsafe = call_soon  # pyright: ignore

    def call_at(  # pyright: ignore
        self, when: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        handle = asyncio.TimerHandle(when, callback, args, self, context)
        self._count += 1
        heapq.heappush(self._timers, (when, self._count, handle))
        return handle

    def call_later(  # pyright: ignore
        self, delay: float, callback: Callable[..., object], *args: Any, context: Any = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        pass

    def create_future(self) -> asyncio.Future[Any]:
        return asyncio.Future(loop=self)

    def create_task(self, coro: Any, *, name: Any = None, context: Any = None) -> Any:  # pyright: ignore
        task: Any = asyncio.Task(coro, loop=self, name=name, context=context)
        self._tasks.append(task)
        return task

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context)


class SteppedWriter:
    """Takes a journal's work to its store with two gaps that the tape may fill: before the
    transaction happens, and between the commit and the caller's hearing of it."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def die(self) -> None:
        """The process is killed. What it has sent is still carried out."""

    async def write(self, job: Callable[[Transaction], T]) -> T:
        return await self._take(lambda: self._store.write(job))

    async def read(self, job: Callable[[View], T]) -> T:
        return await self._take(lambda: self._store.read(job))

    def close(self) -> None:
        pass

    async def _take(self, work: Callable[[], T]) -> T:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ScheduleLoop)
        answer: WriteOutcome[T] = WriteOutcome(loop=loop)

        def happens() -> None:
            try:
                result = work()
            except Exception as error:
                refusal = error
                loop.outside(lambda: answer.set_exception(refusal))
            else:
                loop.outside(lambda: answer.set_result(result))

        loop.outside(happens)
        return await settled(answer)


class BatchingWriter(SteppedWriter):
    """Takes what comes at the same time to a store that others write to meanwhile, in one commit.

    The tape may fill every gap of such a transaction: between two questions of a job, before the
    commit, between a refusal and the second try, and between the commit and the answers. It may
    also have the store give up on it, as one does to undo a deadlock.
    """

    def __init__(self, store: SharedMemoryStore) -> None:
        super().__init__(store)
        self._shared = store
        self._waiting: list[_Sent] = []
        self._alone: list[_Sent] = []  # what came with a job that failed
        self._is_busy = self._is_dead = False
        self._patience = 2
        self.batches: list[int] = []  # how many jobs each had

    def die(self) -> None:
        """The process is killed. A transaction that it is in ends before it, or with it."""
        self._is_dead = True

    async def write(self, job: Callable[[Transaction], T]) -> T:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, ScheduleLoop)
        sent = _Sent(job, WriteOutcome[Any](loop=loop))
        self._waiting.append(sent)
        if not self._is_busy:
            self._go_on_with_what_waits(loop)
        return await settled(sent.answer)

    def _go_on_with_what_waits(self, loop: ScheduleLoop) -> None:
        self._is_busy = bool(self._alone or self._waiting)
        if self._is_busy:
            loop.outside(lambda: self._begin(loop))

    def _begin(self, loop: ScheduleLoop) -> None:
        batch, self._alone = self._alone[:1], self._alone[1:]
        if not batch:
            batch, self._waiting = self._waiting, []
        self.batches.append(len(batch))
        self._shared.mine.between = loop.meanwhile
        self._shared.mine.interferes = lambda: self._interferes(loop)
        self._step(loop, batch, self._shared.attempts([sent.job for sent in batch]))

    def _interferes(self, loop: ScheduleLoop) -> bool:
        """Whether the store gives up on a transaction now: seldom, or no answer would ever come."""
        is_now = self._patience > 0 and loop.choose(9) == 4
        self._patience -= is_now
        return is_now

    def _step(self, loop: ScheduleLoop, batch: "list[_Sent]", attempts: Attempts) -> None:
        try:
            if self._is_dead and loop.choose(2):
                attempts.close()
                self._answer(loop, batch, [Outcome() for _ in batch])  # nobody is there to hear it
            else:
                next(attempts)
                loop.outside(lambda: self._step(loop, batch, attempts))
        except StopIteration as done:
            self._answer(loop, batch, done.value)
        except Trouble:
            self._alone = batch
            self._go_on_with_what_waits(loop)
        except Exception as error:
            self._answer(loop, batch, [Outcome(error=error) for _ in batch])

    def _answer(self, loop: ScheduleLoop, batch: "list[_Sent]", outcomes: list[Outcome]) -> None:
        loop.outside(lambda: _tell(batch, outcomes))
        self._go_on_with_what_waits(loop)


@dataclass
class _Sent:
    job: Job
    answer: WriteOutcome[Any]


def _tell(batch: list[_Sent], outcomes: list[Outcome]) -> None:
    for sent, outcome in zip(batch, outcomes, strict=True):
        if outcome.error is None:
            sent.answer.set_result(outcome.result)
        else:
            sent.answer.set_exception(outcome.error)


Story = Callable[[ScheduleLoop], Coroutine[Any, Any, T]]


def run_schedule(story: Story[T], tape: Tape) -> T:
    """Run one story under one schedule."""
    loop = ScheduleLoop(tape)
    return loop.run_until_complete(story(loop))


def explore(story: Story[T], *, limit: int) -> Iterator[tuple[Tape, T]]:
    """Run `story` once per schedule, depth first, until all are done or `limit` is reached."""
    given: list[int] = []
    for _ in range(limit):
        tape = Tape(given, lambda _options: 0)
        yield tape, run_schedule(story, tape)
        taken = tape.taken
        while taken and taken[-1][0] + 1 >= taken[-1][1]:
            taken.pop()
        if not taken:
            return
        given = [choice for choice, _ in taken[:-1]] + [taken[-1][0] + 1]


def explore_random(story: Story[T], *, seeds: range) -> Iterator[tuple[int, Tape, T]]:
    """Run `story` once per seed.

    Each seed draws a temper first: how often the loop's own work goes before outside events, and
    whether what has waited longest or shortest is favoured. Even odds alone would hardly ever
    let one process run far ahead of another.
    """
    for seed in seeds:
        tape = Tape([], _temper(random.Random(seed)))
        yield seed, tape, run_schedule(story, tape)


def _temper(rng: random.Random) -> Callable[[int], int]:
    first, last = rng.choice(((0.0, 0.0), (0.5, 0.0), (0.9, 0.0), (0.0, 0.5), (0.0, 0.9)))

    def draw(options: int) -> int:
        luck = rng.random()
        if luck < first:
            return 0
        return options - 1 if luck > 1 - last else rng.randrange(options)

    return draw
