"""The connections of a server that stands alone: bounded in the time they take and the bytes."""

import asyncio
import socket
import struct
import sys
from typing import Any

import h11
import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from pullcord.server.bounds import Bounds


class Bounded(H11Protocol):
    """uvicorn's connection, which waits only for a while: for the head of a request, for the rest
    of a body that was answered already, and for an answer to be taken. It answers a malformed
    request with what is wrong. Where there are too many, one that asks nothing gives way."""

    bounds = Bounds()

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, "cut": self.cut}, _loop)
        self._deadline: asyncio.TimerHandle | None = None
        self._taking: asyncio.TimerHandle | None = None
        self._is_hung_up = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._expect_a_head()
        if len(self.connections) > self.bounds.connections:
            self._one_that_asks_nothing().cut()

    def data_received(self, data: bytes) -> None:
        if not self._is_hung_up:
            super().data_received(data)
        if not self._is_hung_up:
            self._expect_a_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect_a_head()
        self._expect_taking()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._expect_taking()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._expect_taking()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)
        self._stop_taking()

    def _one_that_asks_nothing(self) -> "Bounded":
        others = (one for one in self.connections if isinstance(one, Bounded))
        return next((one for one in others if one._deadline and one is not self), self)

    def _expect_a_head(self) -> None:
        """From the first moment, and from the first byte of each further request on."""
        is_late = self.conn.their_state is h11.SEND_BODY and self.conn.our_state is h11.DONE
        if self.conn.their_state is not h11.IDLE and not is_late:
            self._stop_waiting()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.bounds.head_s, self._nothing_came)

    def _nothing_came(self) -> None:
        """Who is still busy with the answer is not expected to ask."""
        self._deadline = None
        if self.transport.get_write_buffer_size():
            self._expect_a_head()
        else:
            self.transport.abort()  # without a reset: the end of the answer may be on its way

    def _expect_taking(self) -> None:
        """What is written and does not get smaller for so long is written to nobody."""
        self._stop_taking()
        if left := self.transport.get_write_buffer_size():
            self._taking = self.loop.call_later(self.bounds.stall_s, self._was_it_taken, left)

    def _was_it_taken(self, before: int) -> None:
        if self.transport.get_write_buffer_size() < before:
            self._expect_taking()
        else:
            self.cut()

    def _stop_taking(self) -> None:
        if self._taking is not None:
            self._taking.cancel()
            self._taking = None

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def cut(self) -> None:
        """At once: what the other side has not taken by now is not kept for it anywhere."""
        line = self.transport.get_extra_info("socket")
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def send_400_response(self, msg: str) -> None:
        """The head or the framing cannot be read: say so, in our own form, and hang up."""
        error = sys.exc_info()[1]
        status = getattr(error, "error_status_hint", 400) or 400
        said = {
            "type": "about:blank",
            "title": "That cannot be read",
            "status": status,
            "detail": f"This is not a request that can be read: {error}. Nothing was changed.",
            "code": "malformed",
        }
        body = msgspec.json.encode(said)
        headers = [
            (b"content-type", b"application/problem+json"),
            (b"content-length", str(len(body)).encode()),
            (b"x-content-type-options", b"nosniff"),
            (b"connection", b"close"),
        ]
        head = h11.Response(status_code=status, headers=headers)
        answer = (head, h11.Data(data=body), h11.EndOfMessage())
        try:
            sent = [self.conn.send(part) for part in answer]
        except h11.LocalProtocolError:  # an answer is under way already
            self.transport.close()
        else:
            self.transport.write(b"".join(filter(None, sent)))
            self._hang_up()

    def _hang_up(self) -> None:
        """Say nothing more, and for a while throw away what still comes: the kernel answers it with
        a reset if nobody takes it, and the other side would lose what it was told."""
        self._is_hung_up = True
        if self.transport.can_write_eof():
            self.transport.write_eof()
        self.flow.resume_reading()
        self._stop_waiting()
        self._deadline = self.loop.call_later(self.bounds.head_s, self.transport.abort)
