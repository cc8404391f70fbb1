"""The threads that touch a store: one that writes, a few that read. No cancellation reaches them.

Callers that write at the same time share one commit. A caller that is cancelled while its write
is under way gets its answer first; the cancellation is delivered at its next await. So nobody is
ever told "cancelled" about something that was written.
"""

import asyncio
import logging
import queue
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final, Protocol, TypeVar, cast

from pullcord.errors import JournalClosed
from pullcord.journal.store import Outcome, Store, Transaction, View

T = TypeVar("T")
_log: Final = logging.getLogger("pullcord.journal")
_BATCH_MAX: Final = 256


class Writer(Protocol):
    """How work reaches a store from an event loop."""

    async def write(self, job: Callable[[Transaction], T]) -> T: ...
    async def read(self, job: Callable[[View], T]) -> T: ...
    def close(self) -> None:
        """Finish what was handed in, then stop. Blocks; safe to call twice."""
        ...


class ThreadWriter:
    """One writer thread with group commit, and a small pool of readers."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._jobs: queue.SimpleQueue[_Job[Any] | None] = queue.SimpleQueue()
        self._closed = False
        self._door = threading.Lock()
        self._readers = ThreadPoolExecutor(store.readers, "pullcord-reader")
        self._writer = threading.Thread(target=self._work, name="pullcord-writer", daemon=True)
        self._writer.start()

    async def write(self, job: Callable[[Transaction], T]) -> T:
        """Carry out `job` in a write transaction and return its result once that is durable."""
        task = asyncio.current_task()
        if task and task.cancelling():
            await asyncio.sleep(0)  # a cancellation that waited for the last write is due now
        todo = _Job(job, asyncio.get_running_loop())
        with self._door:
            if self._closed:
                raise JournalClosed
            self._jobs.put(todo)
        return await settled(todo)

    async def read(self, job: Callable[[View], T]) -> T:
        with self._door:
            if self._closed:
                raise JournalClosed
            found = self._readers.submit(self._store.read, job)
        return await asyncio.wrap_future(found)

    def close(self) -> None:
        with self._door:
            if not self._closed:
                self._closed = True
                self._jobs.put(None)
        self._writer.join()
        self._readers.shutdown()

    # --- the writer thread ---

    def _work(self) -> None:
        while (first := self._jobs.get()) is not None:
            batch, is_last = self._gather(first)
            self._carry_out(batch)
            if is_last:
                return

    def _gather(self, first: "_Job[Any]") -> "tuple[list[_Job[Any]], bool]":
        """Everything that has queued up meanwhile goes into the same commit."""
        batch = [first]
        while len(batch) < _BATCH_MAX and not self._jobs.empty():
            job = self._jobs.get()
            if job is None:
                return batch, True
            batch.append(job)
        return batch, False

    def _carry_out(self, batch: "Sequence[_Job[Any]]") -> None:
        try:
            outcomes = self._store.write_each([job.work for job in batch])
        except BaseException as error:  # it says so of each job, but this thread must live
            outcomes = [Outcome(error=error) for _ in batch]
        try:
            self._store.poke()  # before the answers: afterwards it would contend with their readers
        except Exception:  # nobody's write depends on it, and this thread must live
            _log.exception("Could not wake other processes; they will look by themselves.")
        _answer(batch, outcomes)


class WriteOutcome(asyncio.Future[T]):
    """A future that no cancellation ends: whoever awaits it is told the outcome. See `settled`."""

    def cancel(self, msg: object = None) -> bool:
        return False


class _Job(WriteOutcome[T]):
    """A piece of work, and the future of its answer."""

    def __init__(self, work: Callable[[Transaction], T], loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(loop=loop)
        self.work = work

    def deliver(self, outcome: Outcome) -> None:
        if outcome.error is None:
            self.set_result(cast("T", outcome.result))
        else:
            self.set_exception(outcome.error)


def _answer(batch: "Sequence[_Job[Any]]", outcomes: Sequence[Outcome]) -> None:
    """One wake-up per event loop, however many callers it has in the batch."""
    by_loop: dict[asyncio.AbstractEventLoop, list[tuple[_Job[Any], Outcome]]] = {}
    for job, outcome in zip(batch, outcomes, strict=True):
        by_loop.setdefault(job.get_loop(), []).append((job, outcome))
    for loop, mine in by_loop.items():
        try:
            loop.call_soon_threadsafe(_deliver, mine)
        except RuntimeError:
            pass  # that loop is closed: nobody is left to be told


def _deliver(batch: "Sequence[tuple[_Job[Any], Outcome]]") -> None:
    for job, outcome in batch:
        job.deliver(outcome)


async def settled(answer: WriteOutcome[T]) -> T:
    """Return the answer, however often the caller is cancelled meanwhile.

    A task that is cancelled while it awaits an `WriteOutcome` is told so only when the answer is
    there: asyncio then raises in place of the result. Here the caller gets the result all the
    same, and the cancellation at its next await, unless it was called off meanwhile (the
    `asyncio.timeout()` that asked for it has been left).
    """
    task = asyncio.current_task()
    asked_before = task.cancelling() if task else 0
    try:
        return await answer
    except asyncio.CancelledError:
        if not answer.done():
            raise  # the coroutine itself is being closed
        if task:
            asyncio.get_running_loop().call_soon(_cancel_again, task, asked_before)
        return answer.result()


def _cancel_again(task: asyncio.Task[Any], asked_before: int) -> None:
    if task.cancelling() > asked_before and not task.done():
        task.uncancel()  # the number of requests stays what it was
        task.cancel()
