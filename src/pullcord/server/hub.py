"""One look at a run for all who watch it. A reader is a place in the stream, never a queue.

The latest events of a run that somebody watches are kept once, encoded, up to a bound. A reader
takes what comes after its place; one that was too slow finds its place gone, is told so, and
reads on from the journal. So no reader can hold up a run, another reader, or grow the memory.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable, Iterable
from contextlib import aclosing, suppress
from typing import Final, NamedTuple, TypeVar

import msgspec

from pullcord.core.events import Record, TextEnded, encode_event
from pullcord.core.show.panel import Panel
from pullcord.core.show.story import Names, tell
from pullcord.core.show.viewer_progress import ViewerProgress, shown
from pullcord.core.states import NEEDS_OWNER
from pullcord.core.stops import HEARD, StopShown
from pullcord.errors import JournalClosed, PullcordError
from pullcord.journal.journal import Journal
from pullcord.journal.store import LiveText
from pullcord.journal.stored_runs.run_records import Cursor, Item
from pullcord.journal.views.for_people import ForPeople, News
from pullcord.journal.watch import Changed
from pullcord.server.bounds import Bounds
from pullcord.server.ending_signals import EndingSignals
from pullcord.server.problems import RequestRefused

T = TypeVar("T")
_log: Final = logging.getLogger("pullcord.server")
_encode: Final = msgspec.json.Encoder().encode
_ROWS_S: Final = 0.1  # how often a list is told what has changed
_LOOK_S: Final = 5.0  # how often a run that needs a process is asked whether it has one
_BATCH: Final = 200
_LEAVING_S: Final = 10.0


class Frame(NamedTuple):
    """One event as it goes over the wire, but for its id."""

    cursor: Cursor
    is_text: bool
    data: bytes
    part: str = ""  # that it is a piece, or the end, of
    end: int = 0  # of a piece: the character of its part that it goes up to

    def is_after(self, place: Cursor) -> bool:
        """Text is counted on its own: what was held back comes after records that followed it."""
        return self.cursor.pos > place.pos if self.is_text else self.cursor.seq > place.seq


def framed(item: Item, names: Names) -> Frame:
    """Return what has happened as it goes over the wire."""
    cursor, what = item
    if isinstance(what, LiveText):
        said = {"part": what.part, "offset": what.offset, "text": what.text}
        data = b"event: text\ndata: " + _encode(said) + b"\n\n"
        return Frame(cursor, True, data, what.part, what.offset + len(what.text))
    part = what.event.part if isinstance(what.event, TextEnded) else ""
    data = b"event: record\ndata: " + record_json(what, names) + b"\n\n"
    return Frame(cursor, False, data, part)


def record_json(record: Record, names: Names) -> bytes:
    """The record, with the words for it."""
    shown: dict[str, object] = {
        "seq": record.seq,
        "at_ms": record.at_ms,
        "epoch": record.epoch,
        "event": msgspec.Raw(encode_event(record.event)),
        "told": tell(record, names),
    }
    if record.drift_ms:
        shown["drift_ms"] = record.drift_ms
    return _encode(shown)


class State(NamedTuple):
    """How a run is, and the record that withdrew what came before it from viewers (0: none)."""

    panel: Panel
    withdrawn_seq: int
    names: Names


class Channel:
    """What is new in one run, for as long as somebody watches it."""

    def __init__(self, run_id: str, hub: "Hub", state: State, start: Cursor) -> None:
        self.run_id = run_id
        self.readers: dict[
            asyncio.Event, ViewerProgress | None
        ] = {}  # how far each is; None: no text
        self.panel = b""
        self.version = 0  # of the panel
        self.withdrawn_seq = 0  # who has read up to a place before it reads anew
        self.is_over = False  # what happens in the run cannot be read any more
        self.start = start  # the ring has everything after this place
        self.end = start
        self._hub = hub
        self._ring: deque[Frame] = deque()
        self._ended: dict[str, int] = {}  # part → the record in the ring that has all of it
        self._size = 0
        self._needs_look = False
        self._seq = 0
        self.names = state.names
        self.learn(state)
        self._task = asyncio.create_task(self._follow(), name=f"pullcord-channel-{run_id}")

    def close(self) -> None:
        self._task.cancel()

    def reaches(self, place: Cursor) -> bool:
        """Whether all that came after this place is kept."""
        return place.seq >= self.start.seq and place.pos >= self.start.pos

    def after(self, place: Cursor) -> list[Frame]:
        """What is new since a place that this reaches. Nothing, for one that has read the journal
        and is ahead of this: text that comes here now may have ended there."""
        found: list[Frame] = []
        if place.seq > self.end.seq:
            return found
        for frame in reversed(self._ring):
            if frame.cursor.seq <= place.seq and frame.cursor.pos <= place.pos:
                break  # and so were all before it
            has_whole = frame.is_text and self._ended.get(frame.part, place.seq + 1) <= place.seq
            if frame.is_after(place) and not has_whole:
                found.append(frame)
        return found[::-1]

    async def _follow(self) -> None:
        looking = asyncio.create_task(self._look_after())
        try:
            following = self._hub.journal.changes.follow(
                self.run_id, after=self.start, limit=_BATCH
            )
            async with aclosing(following) as batches:
                async for items, withdrawn_seq in batches:
                    self.withdraw(withdrawn_seq)
                    self._add(items, is_stale=withdrawn_seq < self.withdrawn_seq)
                    if any(isinstance(what, Record) for _, what in items):
                        await self._look()
                    self.wake()
        except JournalClosed:
            self._hub.close()
        except Exception:
            _log.exception("Run %s cannot be shown any more.", self.run_id)
            self.is_over = True
            self.wake()
            self._hub.drop(self)
        finally:
            looking.cancel()

    def _add(self, items: Iterable[Item], *, is_stale: bool = False) -> None:
        """Keep what has happened. `is_stale`: it was looked at before something was withdrawn, so
        it is not kept, and readers find it in the journal."""
        for item in items:
            what = item[1]
            if isinstance(what, Record) and type(what.event) in HEARD:
                self._hub.note(self.run_id, what.seq, self.readers.values())
            self.end = further(self.end, item[0])
            if is_stale:
                self.start = self.end
                continue
            frame = framed(item, self.names)
            self._ring.append(frame)
            self._size += len(frame.data)
            if frame.part and not frame.is_text:
                self._ended[frame.part] = frame.cursor.seq
        while self._size > self._hub.bounds.ring:
            gone = self._ring.popleft()
            self._size -= len(gone.data)
            if not gone.is_text:
                self._ended.pop(gone.part, None)
            self.start = further(self.start, gone.cursor)

    def withdraw(self, seq: int) -> None:
        """Viewers may see less of what came before this record (0: all of it), so it is not kept
        here either."""
        if seq <= self.withdrawn_seq:  # an older look may come later
            return
        self.withdrawn_seq = seq
        self.names.hide = True
        if self._ring:
            self.start = further(self.start, self._ring[-1].cursor)
        self._ring.clear()
        self._ended.clear()
        self._size = 0

    async def _look_after(self) -> None:
        """That a process has died is in no record."""
        while True:
            await asyncio.sleep(_LOOK_S)
            if self._needs_look:
                with suppress(PullcordError):
                    await self._look()
                self.wake()

    async def _look(self) -> None:
        self.learn(await self._hub.state(self.run_id))

    def learn(self, state: State) -> None:
        """Who comes now is shown nothing older than this."""
        panel, withdrawn_seq, _ = state
        self.withdraw(withdrawn_seq)
        if panel.seq < self._seq:
            return
        self._seq = panel.seq
        self._needs_look = panel.state in NEEDS_OWNER
        self.panel = b"event: panel\ndata: " + _encode(panel) + b"\n\n"
        self.version += 1

    def wake(self) -> None:
        for reader in self.readers:
            reader.set()


class Rows:
    """The runs that have changed since a reader of the list looked: the latest of each."""

    def __init__(self, only: str | None) -> None:
        self.only = only
        self.changed = asyncio.Event()
        self._latest: dict[str, bytes] = {}

    def add(self, run_id: str, row: bytes) -> None:
        if self.only in (None, run_id):
            self._latest[run_id] = row
            self.changed.set()

    def take(self) -> bytes:
        rows, self._latest = self._latest, {}
        return b"".join(rows.values())


class Hub:
    """Everybody who watches something here."""

    def __init__(self, journal: Journal, bounds: Bounds, hold_s: float) -> None:
        self.journal = journal
        self.bounds = bounds
        self.is_closed = asyncio.Event()
        self.signals = EndingSignals(self.dismiss)
        self._leaves_until = 0.0
        self.past = asyncio.Semaphore(1)  # who reads the past waits for others who do, not controls
        self.taken_back = 0  # how often a right was
        self._hold_s = hold_s
        self._channels: dict[str, Channel] = {}
        self._opening = asyncio.Lock()
        self._lists: set[Rows] = set()
        self._readers = 0
        self._changed: set[str] = set()
        self._telling: asyncio.Task[None] | None = None
        self._noting: set[asyncio.Task[None]] = set()
        self._stop_watching = lambda: None

    async def look(self, at: Callable[[ForPeople], T]) -> T:
        """Return what is found at one look, as people may see it."""
        return await self.journal.for_people(at, hold_s=self._hold_s)

    async def state(self, run_id: str) -> State:
        return await self.look(
            lambda look: State(look.panel(run_id), look.withdrawn_seq(run_id), look.names(run_id))
        )

    def ask_again(self) -> None:
        """A right was taken back: every reader is asked whether it still has its own."""
        self.taken_back += 1
        self._wake_everybody()

    @property
    def is_leaving(self) -> bool:
        """Whether the process was asked to end a moment ago: streams end, and none begins."""
        return time.monotonic() < self._leaves_until

    def dismiss(self) -> None:
        """The process is asked to end: let everybody go. If it goes on all the same, they may come
        back after a while."""
        self._leaves_until = time.monotonic() + _LEAVING_S
        self._wake_everybody()

    def close(self) -> None:
        """Let everybody go, with a word."""
        self.is_closed.set()
        for channel in self._channels.values():
            channel.close()
        self._wake_everybody()
        if self._telling:
            self._telling.cancel()
        self._stop_watching()

    def _wake_everybody(self) -> None:
        for channel in self._channels.values():
            channel.wake()
        for rows in self._lists:
            rows.changed.set()

    # --- one run ---

    async def watch(
        self, run_id: str, changed: asyncio.Event, handed: ViewerProgress | None = None
    ) -> Channel:
        """Tell `changed` whenever there is something new in this run, until `leave`. `handed`
        says how far whoever watches is.

        Raises:
            RequestRefused: too many watch already.
            RunNotFound: there is no such run.
        """
        self._admit()
        try:
            async with self._opening:
                channel = self._channels.get(run_id) or await self._open(run_id)
            if len(channel.readers) >= self.bounds.readers_of_a_run:
                raise _too_many(self.bounds.readers_of_a_run, f"run {run_id}")
        except BaseException:
            self._readers -= 1
            raise
        channel.readers[changed] = handed
        return channel

    def leave(self, channel: Channel, changed: asyncio.Event) -> None:
        self._readers -= 1
        channel.readers.pop(changed, None)
        if not channel.readers:
            self.drop(channel)

    def drop(self, channel: Channel) -> None:
        if self._channels.get(channel.run_id) is channel:
            del self._channels[channel.run_id]
        channel.close()

    async def _open(self, run_id: str) -> Channel:
        def look(at: ForPeople) -> tuple[Panel, News, Names]:
            panel = at.panel(run_id)
            return panel, at.news(run_id, Cursor(panel.seq)), at.names(run_id)

        panel, (texts, withdrawn_seq), names = await self.look(look)
        start = texts[-1][0] if texts else Cursor(panel.seq)
        channel = Channel(run_id, self, State(panel, withdrawn_seq, names), start)
        self._channels[run_id] = channel
        return channel

    def note(self, run_id: str, asked_seq: int, readers: Iterable[ViewerProgress | None]) -> None:
        """A stop was heard of: keep who watches, and what each had been handed at this moment."""
        said = shown(asked_seq, [handed for handed in readers if handed is not None])
        if said.viewers:
            noting = asyncio.create_task(self._note(run_id, said), name="pullcord-shown")
            self._noting.add(noting)
            noting.add_done_callback(self._noting.discard)

    async def _note(self, run_id: str, said: StopShown) -> None:
        try:
            await self.journal.stop_log.note(said, run_id)
        except PullcordError as error:
            _log.warning("Who was watching run %s when it was stopped is lost: %s", run_id, error)

    # --- the list of runs ---

    def watch_rows(self, only: str | None) -> Rows:
        """Collect what becomes of all runs, or of one, until `leave_rows`."""
        self._admit()
        rows = Rows(only)
        self._lists.add(rows)
        if self._telling is None:
            loop = asyncio.get_running_loop()

            def heard(runs: Changed) -> None:
                with suppress(RuntimeError):  # the loop is closed: nobody is left to be told
                    if runs:
                        loop.call_soon_threadsafe(self._changed.update, runs)
                    else:
                        loop.call_soon_threadsafe(self.close)

            self._stop_watching = self.journal.changes.watch(heard)
            self._telling = asyncio.create_task(self._tell_rows(), name="pullcord-rows")
        return rows

    def leave_rows(self, rows: Rows) -> None:
        self._readers -= 1
        self._lists.discard(rows)

    async def _tell_rows(self) -> None:
        """At most half of the time is spent on it, however many runs change."""
        took_s = 0.0
        while True:
            await asyncio.sleep(max(_ROWS_S, took_s))
            changed = list(self._changed)
            self._changed.clear()
            if not changed or not self._lists:
                continue
            began = time.monotonic()
            try:
                for panel in await self._panels(changed):
                    row = b"event: row\ndata: " + _encode(panel) + b"\n\n"
                    for rows in self._lists:
                        rows.add(panel.run, row)
            except JournalClosed:
                return self.close()
            took_s = time.monotonic() - began

    async def _panels(self, run_ids: Iterable[str]) -> list[Panel]:
        """All of them at one look; if one cannot be read, all but that."""
        try:
            return await self.look(lambda look: [look.panel(one) for one in run_ids])
        except JournalClosed:
            raise
        except PullcordError:
            found: list[Panel] = []
            for run_id in run_ids:
                with suppress(PullcordError):
                    found.append((await self.state(run_id)).panel)
            return found

    def _admit(self) -> None:
        if self.is_closed.is_set() or self.is_leaving:
            raise RequestRefused(
                503, "closing", "This server is being stopped. Try again in a moment."
            )
        if self._readers >= self.bounds.readers:
            raise _too_many(self.bounds.readers, "this server")
        self._readers += 1


def further(place: Cursor, other: Cursor) -> Cursor:
    """Where whoever has seen both has got to."""
    return Cursor(max(place.seq, other.seq), max(place.pos, other.pos))


def _too_many(limit: int, what: str) -> RequestRefused:
    return RequestRefused(
        429,
        "too_many_readers",
        f"{limit:,} readers watch {what} already, which is the limit. Nothing was changed. "
        "Try again later.",
        headers={"Retry-After": "5"},
    )
