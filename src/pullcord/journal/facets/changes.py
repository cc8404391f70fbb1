"""Hears of the commits of every process, and streams the events of a run."""

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from typing import Any, TypeVar

from pullcord.core.events import Record
from pullcord.core.fold import evolve
from pullcord.core.run import Run
from pullcord.journal.clock import Clock
from pullcord.journal.store import Store, View
from pullcord.journal.stored_runs.run_records import ALL, START, Cursor, Item, records_of, stream
from pullcord.journal.views.for_people import ForPeople, News
from pullcord.journal.watch import Changed, Watch
from pullcord.journal.writer import Writer

T = TypeVar("T")


class Changes:
    """The changes in the runs of a store, as they happen. The first caller starts the thread."""

    def __init__(self, store: Store, writer: Writer, clock: Clock) -> None:
        self._store, self._writer, self._clock = store, writer, clock
        self._watch: Watch | None = None
        self._changing = threading.Lock()
        self._followed = Counter[str]()  # by run: who follows it
        self._heard = Counter[str]()  # by run that is followed: how often it has changed
        self._reads: dict[tuple[object, ...], asyncio.Task[Any]] = {}  # those that are under way

    def watch(self, on_change: Callable[[Changed], None]) -> Callable[[], None]:
        """Call `on_change(runs)` soon after any commit, and return a function that ends this.

        The commit may be by any process. `runs` has the number of the last record of each changed
        run. One thread of the journal calls `on_change`, without an event loop: a blocked loop does
        not delay it. `on_change` must be quick. If it raises, the thread calls it again for the
        same runs, a few times. Empty `runs` mean that the journal closes.
        """
        with self._changing:
            if self._watch is None:
                self._watch = Watch(self._store)
                self._watch.add(self._count)  # before anybody is woken
            return self._watch.add(on_change)

    def ask(self, run_id: str) -> None:
        """Notify every watcher of this run, changed or not, as soon as the store can be read.

        Any thread may call it. It never waits for the store.
        """
        with self._changing:
            if self._watch is not None:
                self._watch.ask(run_id)

    def read_now(self, run_id: str, *, after_seq: int = 0) -> list[Record]:
        """Return what `Journal.read` returns, for a thread without an event loop."""
        return self._store.read(lambda view: records_of(view, run_id, after_seq, ALL))

    async def subscribe(self, run_id: str, *, after: Cursor = START) -> AsyncGenerator[Item]:
        """Yield every item of the run after `after`, then the new ones, for ever.

        They come in order, without a gap or a duplicate. Live text comes before the record that
        ends its part.
        """
        async with aclosing(self._of(run_id)) as changes:
            async for _ in changes:
                while items := await self._items(run_id, after):
                    after = items[-1][0]
                    for item in items:
                        yield item

    async def follow(
        self, run_id: str, *, after: Cursor = START, limit: int = ALL
    ) -> AsyncGenerator[News]:
        """Yield the same as people may see it, in batches of at most `limit` records."""
        async with aclosing(self._of(run_id)) as changes:
            async for _ in changes:
                while (news := await self._news(run_id, after, limit)).items:
                    after = news.items[-1][0]
                    yield news

    async def until(self, run: Run, holds: Callable[[Run], bool]) -> None:
        """Apply new records to the run, as they come, until this holds of it."""
        async with aclosing(self.subscribe(run.id, after=Cursor(run.seq))) as items:
            while not holds(run):
                _, item = await anext(items)
                if isinstance(item, Record):
                    evolve(run, item)

    async def _items(self, run_id: str, after: Cursor) -> Sequence[Item]:
        return await self._together(
            run_id, ("items", after), lambda view: stream(view, run_id, after)
        )

    async def _news(self, run_id: str, after: Cursor, limit: int) -> News:
        return await self._together(
            run_id,
            ("news", after, limit),
            lambda view: ForPeople(view, self._clock).news(run_id, after, limit),
        )

    async def _together(
        self, run_id: str, what: tuple[object, ...], look: Callable[[View], T]
    ) -> T:
        """Read once for all who ask for the same at the same moment.

        Who joins a read has heard of no change that came after it had begun.
        """
        loop = asyncio.get_running_loop()
        key = (loop, run_id, self._heard[run_id], *what)
        if (reading := self._reads.get(key)) is None:
            reading = self._reads[key] = loop.create_task(self._writer.read(look))
            reading.add_done_callback(lambda read: self._is_read(key, read))
        return await asyncio.shield(reading)

    def _is_read(self, key: tuple[object, ...], read: "asyncio.Task[Any]") -> None:
        del self._reads[key]
        if not read.cancelled():
            read.exception()  # nobody may be left who asks for it

    def _count(self, runs: Changed) -> None:
        for run_id in runs:
            if run_id in self._followed:
                self._heard[run_id] += 1

    async def _of(self, run_id: str) -> AsyncGenerator[None]:
        """Yield at once, and after every commit that may have changed the run."""
        loop, changed = asyncio.get_running_loop(), asyncio.Event()
        self._followed[run_id] += 1

        def on_change(runs: Changed) -> None:
            is_mine = run_id in runs or not runs  # none: the journal closes
            if is_mine and not changed.is_set():
                loop.call_soon_threadsafe(changed.set)

        stop = self.watch(on_change)
        try:
            while True:
                changed.clear()
                yield
                await changed.wait()
        finally:
            stop()
            self._followed[run_id] -= 1
            if not self._followed[run_id]:
                del self._followed[run_id], self._heard[run_id]

    def close(self) -> None:
        """Tell every watcher that the journal closes. It blocks, and is safe to call twice."""
        with self._changing:
            watch, self._watch = self._watch, None
        if watch:
            watch.close()
