"""What the fake provider saw: written by its thread, read and waited for by any other.

All times are `time.monotonic()`.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from tests.agents.provider.dialects import Dialect, Json, Kind

Closer = Literal["peer", "us"]


@dataclass(frozen=True)
class Chunk:
    """One piece of content that was handed to the kernel."""

    at: float
    text: str
    kind: Kind


@dataclass(frozen=True)
class Write:
    """Bytes that were handed to the kernel in one go, framing and headers included."""

    at: float
    data: bytes


@dataclass
class ConnectionSeen:
    """One TCP connection. It may carry several requests, one after the other."""

    id: int
    opened_at: float
    received: bytearray = field(default_factory=bytearray)
    closed_at: float | None = None
    closed_by: Closer | None = None
    closed_how: str | None = None  # "fin", "reset", or how we ended it


@dataclass
class Seen:
    """One request, and what became of the reply to it."""

    index: int
    dialect: Dialect
    path: str
    headers: dict[str, str]
    raw: bytes  # the request, every byte of it
    body: Json
    connection: ConnectionSeen
    request_at: float  # the request was complete
    headers_at: float | None = None  # our headers were written
    chunks: list[Chunk] = field(default_factory=list[Chunk])
    writes: list[Write] = field(default_factory=list[Write])
    stalled_at: float | None = None  # holding now, or was
    finished: bool = False  # all that the reply asked for was handed to the kernel
    finished_at: float | None = None
    complaints: list[str] = field(default_factory=list[str])  # a 400 was the answer

    @property
    def streaming(self) -> bool:
        return self.body.get("stream") is True

    @property
    def opened_at(self) -> float:
        return self.connection.opened_at

    @property
    def closed_at(self) -> float | None:
        """When the connection ended: of a finished request this may be much later."""
        return self.connection.closed_at

    @property
    def closed_by(self) -> Closer | None:
        return self.connection.closed_by

    @property
    def cut_short(self) -> bool:
        """The peer went away before the reply was finished."""
        return self.closed_by == "peer" and not self.finished

    @property
    def sent_text(self) -> str:
        return self.sent("text")

    def sent(self, kind: Kind) -> str:
        """Everything of one kind that was handed to the kernel."""
        return "".join(chunk.text for chunk in self.chunks if chunk.kind == kind)

    @property
    def sent_bytes(self) -> int:
        return sum(len(write.data) for write in self.writes)


@dataclass(frozen=True)
class Violation:
    """A request whose history the real API would have refused."""

    index: int
    dialect: Dialect
    complaint: str


class Board:
    """Where the provider's thread posts and others wait. Every wait is bounded."""

    def __init__(self) -> None:
        self.seen: list[Seen] = []
        self.connections: list[ConnectionSeen] = []
        self.violations: list[Violation] = []
        self.changed = threading.Condition()

    def open_connections(self) -> list[ConnectionSeen]:
        """The connections that neither side has ended."""
        with self.changed:
            return [one for one in self.connections if one.closed_at is None]

    def wait_until(self, holds: Callable[[], bool], what: str, *, timeout_s: float = 10) -> None:
        """Wait until `holds()`; it is asked again after each thing the provider sees.

        Raises:
            TimeoutError: it did not hold in time; the message says what was seen instead.
        """
        with self.changed:
            if not self.changed.wait_for(holds, timeout_s):
                raise TimeoutError(f"not within {timeout_s:g} s: {what}; {self._summary()}")

    def wait_for(self, n: int = 1, *, timeout_s: float = 10) -> Seen:
        """Wait for the n-th request (counted from 1) and return it."""
        self.wait_until(lambda: len(self.seen) >= n, f"{n} requests", timeout_s=timeout_s)
        return self.seen[n - 1]

    def wait_chunks(self, i: int, n: int = 1, *, timeout_s: float = 10) -> Seen:
        """Wait until n chunks of the reply to `seen[i]` were written."""
        return self._wait_seen(i, lambda one: len(one.chunks) >= n, f"{n} chunks", timeout_s)

    def wait_stalled(self, i: int = 0, *, timeout_s: float = 10) -> Seen:
        """Wait until the reply to `seen[i]` holds, as its script asked."""
        return self._wait_seen(i, lambda one: one.stalled_at is not None, "a stall", timeout_s)

    def wait_closed(self, i: int = 0, *, timeout_s: float = 10) -> Seen:
        """Wait until the connection of `seen[i]` ended."""
        return self._wait_seen(i, lambda one: one.closed_at is not None, "a close", timeout_s)

    def wait_finished(self, i: int = 0, *, timeout_s: float = 10) -> Seen:
        """Wait until the reply to `seen[i]` was written whole."""
        return self._wait_seen(i, lambda one: one.finished, "the whole reply", timeout_s)

    # The same from a coroutine, without holding up its loop.

    async def async_wait_for(self, n: int = 1, *, timeout_s: float = 10) -> Seen:
        return await asyncio.to_thread(self.wait_for, n, timeout_s=timeout_s)

    async def async_wait_chunks(self, i: int, n: int = 1, *, timeout_s: float = 10) -> Seen:
        return await asyncio.to_thread(self.wait_chunks, i, n, timeout_s=timeout_s)

    async def async_wait_stalled(self, i: int = 0, *, timeout_s: float = 10) -> Seen:
        return await asyncio.to_thread(self.wait_stalled, i, timeout_s=timeout_s)

    async def async_wait_closed(self, i: int = 0, *, timeout_s: float = 10) -> Seen:
        return await asyncio.to_thread(self.wait_closed, i, timeout_s=timeout_s)

    async def async_wait_finished(self, i: int = 0, *, timeout_s: float = 10) -> Seen:
        return await asyncio.to_thread(self.wait_finished, i, timeout_s=timeout_s)

    def _wait_seen(
        self, i: int, holds: Callable[[Seen], bool], what: str, timeout_s: float
    ) -> Seen:
        self.wait_until(
            lambda: len(self.seen) > i and holds(self.seen[i]),
            f"{what} on request {i}",
            timeout_s=timeout_s,
        )
        return self.seen[i]

    def _summary(self) -> str:
        now = time.monotonic()
        lines = [
            f"[{one.index}] {one.dialect}, {len(one.chunks)} chunks, finished={one.finished},"
            f" closed_by={one.closed_by}, {now - one.request_at:.2f} s ago"
            for one in self.seen
        ]
        return f"seen: {'; '.join(lines) or 'nothing'}"
