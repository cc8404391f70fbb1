"""One connection of the fake provider: what its peer does, and the reply as scripted."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import time
from collections.abc import Callable
from typing import Protocol, cast

from tests.agents.provider.dialects import (
    PATHS,
    Dialect,
    Frame,
    error_body,
    error_frame,
    frames,
    whole,
)
from tests.agents.provider.reply import Reply
from tests.agents.provider.seen import Chunk, Closer, ConnectionSeen, Seen, Write
from tests.agents.provider.wire import Request, chunk, half, head, take_request


class Host(Protocol):
    """What a connection needs of its provider."""

    changed: threading.Condition
    accept_delay_s: float
    script_errors: list[Exception]

    def opened(self, connection: Connection) -> ConnectionSeen: ...
    def forget(self, connection: Connection) -> None: ...
    def note(self, request: Request, dialect: Dialect, connection: ConnectionSeen) -> Seen: ...
    def reply_to(self, seen: Seen) -> Reply: ...


class PeerGone(Exception):
    """The other side ended the connection; there is nobody left to write to."""


class Connection(asyncio.Protocol):
    """One connection: reads without pause, answers one request after the other."""

    def __init__(self, provider: Host) -> None:
        self._provider = provider
        self._inbox = bytearray()
        self._arrived = asyncio.Event()
        self._gone = asyncio.Event()
        self._writable = asyncio.Event()
        self._writable.set()
        self._ended_by_us: str | None = None
        self._transport: asyncio.Transport
        self._record: ConnectionSeen
        self.released = asyncio.Event()
        self.seen: Seen | None = None  # the request in progress
        self.task: asyncio.Task[None] | None = None

    # What the event loop reports.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._transport.set_write_buffer_limits(high=0)  # "written" means: the kernel has it
        self._record = self._provider.opened(self)
        self.task = asyncio.get_running_loop().create_task(self._answer_all())

    def data_received(self, data: bytes) -> None:
        self._record.received += data
        self._inbox += data
        self._arrived.set()

    def eof_received(self) -> None:
        self._closed("peer", "fin")

    def connection_lost(self, exc: Exception | None) -> None:
        if self._ended_by_us is not None:
            self._closed("us", self._ended_by_us)
        else:
            self._closed("peer", "fin" if exc is None else "reset")
        self._provider.forget(self)

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def _closed(self, by: Closer, how: str) -> None:
        now = time.monotonic()
        with self._provider.changed:
            if self._record.closed_at is None:
                self._record.closed_at = now
                self._record.closed_by = by
                self._record.closed_how = how
            self._provider.changed.notify_all()
        self._gone.set()

    def end(self, *, reset: bool = False) -> None:
        """End the connection from our side."""
        if self._ended_by_us is None and self._record.closed_at is None:
            self._ended_by_us = "reset" if reset else "fin"
        if reset:
            raw = cast(socket.socket, self._transport.get_extra_info("socket"))
            linger = struct.pack("ii", 1, 0)
            if raw.fileno() >= 0:
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            self._transport.abort()
        else:
            self._transport.close()
        self._gone.set()

    # What we do.

    async def _answer_all(self) -> None:
        try:
            await self._pause(self._provider.accept_delay_s)
            while True:
                request = take_request(self._inbox)
                if request is None:
                    self._arrived.clear()
                    await self._first_of(self._arrived)
                    continue
                await self._answer(request)
        except PeerGone:
            pass
        except Exception as e:  # a fault of ours or a request that is no HTTP: shown to the test
            self._provider.script_errors.append(e)
        finally:
            if self._record.closed_at is None:
                self.end()

    async def _answer(self, request: Request) -> None:
        dialect = PATHS.get(request.path)
        if dialect is None or request.method != "POST":
            body = error_body("chat", 404, f"no such endpoint: {request.method} {request.path}")
            await self._write(head(404, _plain({}, body)) + body)
            return
        self.released.clear()
        seen = self._provider.note(request, dialect, self._record)
        self.seen = seen
        try:
            await self._deliver(seen, self._provider.reply_to(seen))
            with self._provider.changed:
                seen.finished = True
                seen.finished_at = time.monotonic()
                self._provider.changed.notify_all()
        finally:
            self.seen = None

    async def _deliver(self, seen: Seen, reply: Reply) -> None:
        await self._pause(reply.delay_s)
        if reply.stall_before_headers:
            await self._hold(seen)
        if reply.ending != "complete" and reply.cut_after == -1:
            self.end(reset=reply.ending == "reset")
            raise PeerGone
        if reply.status != 200 or reply.body is not None:
            await self._send_trouble(seen, reply)
        elif seen.streaming:
            await self._send_stream(seen, reply)
        else:
            await self._send_whole(seen, reply)

    async def _send_trouble(self, seen: Seen, reply: Reply) -> None:
        body = reply.body
        if body is None:
            body = error_body(seen.dialect, reply.status, f"scripted {reply.status}")
        data = body.encode() if isinstance(body, str) else body
        await self._send_head(seen, reply, _plain(dict(reply.headers), data))
        await self._write(data, seen)

    async def _send_whole(self, seen: Seen, reply: Reply) -> None:
        """One JSON body, in as many pieces as asked for; the content counts with the last."""
        data = whole(seen.dialect, reply, number=seen.index, body=seen.body)
        n = reply.chunks or 1
        size = -(-len(data) // n)
        parts = [data[at : at + size] for at in range(0, len(data), size)]
        text = "".join(getattr(part, "text", "") for part in reply.parts)
        out = [Frame(part, kind="text") for part in parts]
        out[-1] = Frame(parts[-1], text, "text")
        await self._send_head(seen, reply, _plain(dict(reply.headers), data))
        await self._send_frames(seen, reply, out, wrap=lambda piece: piece)

    async def _send_stream(self, seen: Seen, reply: Reply) -> None:
        out = frames(seen.dialect, reply, number=seen.index, body=seen.body)
        headers = {"content-type": "text/event-stream", "transfer-encoding": "chunked"}
        await self._send_head(seen, reply, {**headers, **reply.headers})
        await self._send_frames(seen, reply, out, wrap=chunk)
        await self._write(chunk(b""), seen)

    async def _send_frames(
        self, seen: Seen, reply: Reply, out: list[Frame], *, wrap: Callable[[bytes], bytes]
    ) -> None:
        last = sum(frame.kind is not None for frame in out)
        if reply.ending != "complete":
            whole_of_it = last if seen.streaming else last - 1
            last = whole_of_it if reply.cut_after is None else min(reply.cut_after, whole_of_it)
        sent = 0
        held = reply.stall_after is None
        for frame in out:
            content = frame.kind is not None
            if reply.ending != "complete" and sent == last and (content or last):
                await self._break_off(seen, reply, wrap)
                return
            inside = reply.stall_inside and content
            if not held and sent == reply.stall_after and (inside or not reply.stall_inside):
                held = True
                if not inside:
                    await self._hold(seen)
            else:
                inside = False
            if content and sent:
                await self._pause(reply.chunk_delay_s)
            await self._send_frame(seen, reply, frame, wrap, hold_inside=inside)
            sent += content
        if reply.ending != "complete":
            await self._break_off(seen, reply, wrap)

    async def _send_frame(
        self,
        seen: Seen,
        reply: Reply,
        frame: Frame,
        wrap: Callable[[bytes], bytes],
        *,
        hold_inside: bool,
    ) -> None:
        data = frame.data
        if hold_inside or (reply.cut_utf8 and not data.isascii()):
            at = half(data)
            await self._write(wrap(data[:at]), seen)
            if hold_inside:
                await self._hold(seen)
            await self._pause(reply.cut_pause_s)
            data = data[at:]
        await self._write(wrap(data), seen, frame)

    async def _break_off(self, seen: Seen, reply: Reply, wrap: Callable[[bytes], bytes]) -> None:
        """End the reply before its end, in the way that was asked for."""
        if reply.ending == "error" and seen.streaming:
            await self._write(wrap(error_frame(seen.dialect, "Overloaded").data), seen)
        elif reply.ending != "clean_cut" or not seen.streaming:
            self.end(reset=reply.ending == "reset")
            raise PeerGone

    async def _send_head(self, seen: Seen, reply: Reply, headers: dict[str, str]) -> None:
        await self._write(head(reply.status, headers), seen)
        with self._provider.changed:
            seen.headers_at = time.monotonic()
            self._provider.changed.notify_all()

    async def _write(
        self, data: bytes, seen: Seen | None = None, frame: Frame | None = None
    ) -> None:
        """Hand bytes to the kernel; wait while it has no room. Only then they count as written."""
        await asyncio.sleep(0)  # also in a flood the close of the peer is seen at once
        if self._gone.is_set():
            raise PeerGone
        self._transport.write(data)
        if not self._writable.is_set():
            await self._first_of(self._writable)
        if seen is None:
            return
        with self._provider.changed:
            now = time.monotonic()
            seen.writes.append(Write(now, data))
            if frame is not None and frame.kind is not None:
                seen.chunks.append(Chunk(now, frame.text, frame.kind))
            self._provider.changed.notify_all()

    async def _hold(self, seen: Seen) -> None:
        with self._provider.changed:
            seen.stalled_at = time.monotonic()
            self._provider.changed.notify_all()
        await self._first_of(self.released)

    async def _pause(self, seconds: float) -> None:
        if seconds > 0:
            await self._first_of(asyncio.Event(), timeout_s=seconds)

    async def _first_of(self, event: asyncio.Event, timeout_s: float | None = None) -> None:
        """Wait for the event, the time or the peer's end, whichever is first.

        Raises:
            PeerGone: it was the peer's end.
        """
        waits = [asyncio.ensure_future(one.wait()) for one in (event, self._gone)]
        try:
            await asyncio.wait(waits, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for one in waits:
                one.cancel()
        if self._gone.is_set():
            raise PeerGone


def _plain(headers: dict[str, str], body: bytes) -> dict[str, str]:
    base = {"content-type": "application/json", "content-length": str(len(body))}
    return {**base, **headers}
