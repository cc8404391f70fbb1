"""The connections of a server that stands alone: bounded in the time they take and the bytes."""

import asyncio
import sys
from typing import Any

import h11
import msgspec
from uvicorn.config import Config
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.server import ServerState

from pullcord.server.bounds import Bounds


class Bounded(H11Protocol):
    """uvicorn's connection, which waits for the head of a request only for a while, answers a
    malformed one with what is wrong, and lets a stream cut a reader off that takes nothing."""

    bounds = Bounds()

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        super().__init__(config, server_state, {**app_state, "cut": self._cut}, _loop)
        self._deadline: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        super().connection_made(transport)
        self._expect_a_head()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._expect_a_head()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._expect_a_head()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop_waiting()
        super().connection_lost(exc)

    def _expect_a_head(self) -> None:
        """From the first moment, and from the first byte of each further request on."""
        if self.conn.their_state is not h11.IDLE:
            self._stop_waiting()
        elif self._deadline is None:
            self._deadline = self.loop.call_later(self.bounds.head_s, self._cut)

    def _stop_waiting(self) -> None:
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    def _cut(self) -> None:
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
            (b"connection", b"close"),
        ]
        try:
            for event in (
                h11.Response(status_code=status, headers=headers),
                h11.Data(data=body),
                h11.EndOfMessage(),
            ):
                self.transport.write(self.conn.send(event) or b"")
        except h11.LocalProtocolError:
            pass  # an answer is under way already
        self.transport.close()
