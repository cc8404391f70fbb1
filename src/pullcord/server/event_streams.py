"""Events as they happen, over one connection that any reader may drop and take up again.

An event's id is its place in the journal. Whoever comes back with the last one it has seen is
given what came after it: nothing is missing, nothing comes twice.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Final

import msgspec
from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from pullcord.core.events import Record
from pullcord.core.show.viewer_progress import ViewerProgress
from pullcord.errors import JournalClosed
from pullcord.journal.stored_runs.run_records import START, Cursor
from pullcord.journal.views.for_people import News
from pullcord.server.bounds import Bounds
from pullcord.server.hub import Channel, Frame, Hub, Rows, framed, further
from pullcord.server.problems import RequestRefused

_FIRST_BATCH: Final = 16
_BATCH: Final = 200
_ASK_S: Final = 2.0
_BYE: Final = b'event: bye\ndata: {"why":"%s"}\n\n'
_BEAT: Final = b":\n\n"
_HEADERS: Final = [
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]


def place_of(request: Request) -> str:
    """Where the reader says that it is: the last id it has seen. The header says it later: who
    connects again by itself sends the address as it was, and the header as it is."""
    return request.headers.get("last-event-id") or request.query_params.get("after") or "0"


def cursor_of(said: str, *, seq: int, text_end: int, run_id: str) -> Cursor:
    """The place with this id.

    Raises:
        RequestRefused: there is no such place in a run whose last record is `seq`, where live text
        has
            got to `text_end`.
    """
    if said == "now":
        return Cursor(seq)
    number, _, position = said.partition(".")
    parts = (number, position or "0")
    if not all(part.isascii() and part.isdigit() and len(part) < 16 for part in parts):
        raise RequestRefused(
            400, "place", f"{said[:40]!r} is not a place in a run: it looks like 12 or 12.3."
        )
    if int(number) > seq:
        raise RequestRefused(
            400,
            "place",
            f"Run {run_id} has no record {number}: it ends at {seq}. An id belongs to the run "
            "that it was seen in.",
        )
    if int(parts[1]) > text_end:
        raise RequestRefused(
            400,
            "place",
            f"{said[:40]!r} is no place that anybody was told: nothing was said so late. An id "
            "belongs to the store that it was seen in.",
        )
    return Cursor(int(number), int(parts[1]))


class Stream:
    """The answer to whoever wants to be told what happens: an ASGI app for one request."""

    def __init__(
        self,
        hub: Hub,
        *,
        channel: Channel | None,
        changed: asyncio.Event,
        place: Cursor,
        handed: ViewerProgress | None = None,
        rows: Rows | None = None,
        only_panel: bool = False,
        still: Callable[[], Awaitable[bool]],
    ) -> None:
        self._hub = hub
        self._bounds: Bounds = hub.bounds
        self._channel = channel
        self._changed = changed
        self._place = place
        self._handed = handed
        self._rows = rows
        self._only_panel = only_panel
        self._still = still
        self._asked_at: float = 0.0
        self._taken_back: int = 0
        self._version = 0
        self._was_in_ring = False
        self._withdrawn_seq = 0
        self._is_whole = False
        self._may = True
        self._batch = _FIRST_BATCH

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        with self._hub.signals:
            await self._serve(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        gone = asyncio.create_task(_disconnect(receive))
        writing = asyncio.create_task(self._write(send))
        try:
            await asyncio.wait({gone, writing}, return_when=asyncio.FIRST_COMPLETED)
            if writing.done() and not self._is_whole and (cut := scope.get("state", {}).get("cut")):
                cut()
        finally:
            for task in (gone, writing):
                task.cancel()
            await asyncio.wait({gone, writing})
            if self._channel:
                self._hub.leave(self._channel, self._changed)
            if self._rows:
                self._hub.leave_rows(self._rows)

    async def _write(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": _HEADERS})
        async with aclosing(self._pieces()) as pieces:
            async for piece in pieces:
                try:
                    async with asyncio.timeout(self._bounds.stall_s):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
                except TimeoutError:
                    return  # it takes nothing
                if self._handed:
                    self._handed.taken()
        await send({"type": "http.response.body", "body": b"", "more_body": False})
        self._is_whole = True

    async def _pieces(self) -> AsyncGenerator[bytes]:
        yield b"retry: 500\n\n"
        while not self._hub.is_closed.is_set() and not self._hub.is_leaving:
            self._changed.clear()
            if not await self._may_go_on():
                yield _BYE % b"revoked"
                return
            if self._channel and self._channel.is_over:
                yield _BYE % b"trouble"
                return
            is_new = False
            try:
                async with aclosing(self._news()) as news:
                    async for piece in news:
                        is_new = True
                        yield piece
            except JournalClosed:
                break
            if not is_new and not await self._something():
                yield _BEAT
        yield _BYE % b"shutdown"

    async def _may_go_on(self) -> bool:
        """Whether who reads may still do so. Asked now and then: a right may be taken back."""
        now, taken_back = time.monotonic(), self._hub.taken_back
        is_due = now - self._asked_at >= _ASK_S or taken_back != self._taken_back
        if self._may and is_due:
            self._asked_at, self._taken_back = now, taken_back
            self._may = await self._still()
        return self._may

    async def _something(self) -> bool:
        """Wait for something new. False: it is time to say that the stream lives."""
        try:
            async with asyncio.timeout(self._bounds.beat_s):
                await self._changed.wait()
        except TimeoutError:
            return False
        return True

    async def _news(self) -> AsyncGenerator[bytes]:
        channel = self._channel
        if channel:
            if not self._only_panel:
                async with aclosing(self._frames(channel)) as pieces:
                    async for piece in pieces:
                        yield piece
            if channel.version != self._version:
                self._version = channel.version
                yield channel.panel
        if self._rows and (rows := self._rows.take()):
            yield rows

    async def _frames(self, channel: Channel) -> AsyncGenerator[bytes]:
        """In pieces of a bounded size. No more than one is held for a reader that takes nothing."""
        is_all = False
        while not is_all and await self._may_go_on():
            if channel.withdrawn_seq != self._withdrawn_seq:
                self._withdrawn_seq = channel.withdrawn_seq
                if self._place > START and self._place.seq < self._withdrawn_seq:
                    self._place, self._was_in_ring = START, False
                    yield b"event: anew\ndata: {}\n\n"
            if self._was_in_ring and not channel.reaches(self._place):
                yield b"event: lagged\ndata: " + _encode({"from": str(self._place)}) + b"\n\n"
            self._was_in_ring = channel.reaches(self._place)
            if self._was_in_ring:
                piece, is_all = self._joined(channel.after(self._place))
            else:
                piece = await self._older(channel)
            if piece:
                yield piece

    async def _older(self, channel: Channel) -> bytes:
        """The next piece from the journal, of which no more is read than such a piece has."""
        end = channel.end
        items, withdrawn_seq = await self._past(channel.run_id)
        channel.withdraw(withdrawn_seq)
        if withdrawn_seq < channel.withdrawn_seq:
            return b""  # it was looked at before: not all of this may be shown any more
        piece, is_all = self._joined([framed(item, channel.names) for item in items])
        if is_all and sum(isinstance(what, Record) for _, what in items) < self._batch:
            self._place = further(self._place, end)  # all that was there: so much is in it
        self._batch = min(self._batch * 2, _BATCH) if is_all else max(self._batch // 2, 1)
        return piece

    async def _past(self, run_id: str) -> News:
        async with self._hub.past:
            return await self._hub.look(lambda look: look.news(run_id, self._place, self._batch))

    def _joined(self, frames: list[Frame]) -> tuple[bytes, bool]:
        """With their ids, as many as fit; and whether that is all of them."""
        piece = bytearray()
        for number, frame in enumerate(frames, start=1):
            self._place = further(self._place, frame.cursor)
            if self._handed and frame.is_text:
                self._handed.text(frame.part, frame.end)
            elif self._handed:
                self._handed.record(frame.cursor.seq, ended=frame.part)
            piece += b"id: %s\n" % str(self._place).encode() + frame.data
            if len(piece) >= self._bounds.chunk:
                return bytes(piece), number == len(frames)
        return bytes(piece), True


_encode: Final = msgspec.json.Encoder().encode


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
