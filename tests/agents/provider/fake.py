"""A fake LLM provider on a loopback socket, in a thread of its own.

The thread goes on observing while the client's event loop is blocked, and it never stops reading:
so the moment at which the peer closes or resets is known, also while a reply is slow or held.

    with FakeProvider() as provider:
        provider.script = [call("weather", {"city": "Oslo"}), say("It rains.")]
        ... point a client at provider.url("chat") ...
        provider.wait_closed(0).closed_at
"""

from __future__ import annotations

import asyncio
import json
import socket
import threading
import time
from collections.abc import Callable
from types import TracebackType
from typing import TypeAlias, cast

from tests.agents.provider.connection import Connection
from tests.agents.provider.dialects import Dialect, Json, error_body, with_ids
from tests.agents.provider.reply import Reply, ToolCall
from tests.agents.provider.rules import complaints
from tests.agents.provider.seen import Board, ConnectionSeen, Seen, Violation
from tests.agents.provider.wire import Request

Script: TypeAlias = Callable[[Seen], Reply] | list[Reply]

_STARTS_WITHIN_S = 10
_STOPS_WITHIN_S = 10


class FakeProvider(Board):
    """The provider. `script` is asked for each reply; a list is used up, then it says "done".

    What it saw is in `seen`, `connections` and `violations`; `strict` histories are refused with
    a 400. `accept_delay_s` leaves each new connection unanswered for that long.
    `send_buffer` (bytes) makes the kernel's buffer small: then a client that does not read is
    felt after little has been written.
    """

    def __init__(self, *, strict: bool = True, send_buffer: int | None = None) -> None:
        super().__init__()
        self.script: Script = []
        self.strict = strict
        self.accept_delay_s = 0.0
        self.script_errors: list[Exception] = []
        self._stored_calls: dict[str, list[str]] = {}
        self._live: set[Connection] = set()
        self._socket = socket.socket()
        if send_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, send_buffer)
        self._socket.bind(("127.0.0.1", 0))
        port = cast(tuple[str, int], self._socket.getsockname())[1]
        self.base_url = f"http://127.0.0.1:{port}"
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name="fake-provider", daemon=True)

    def url(self, dialect: Dialect) -> str:
        """The base address that this dialect's SDK wants."""
        return self.base_url if dialect == "anthropic" else f"{self.base_url}/v1"

    def release(self, i: int | None = None) -> None:
        """Let held replies go on: the one to `seen[i]`, or all. Also one that will hold later."""

        def let_go() -> None:
            for connection in self._live:
                if connection.seen is not None and i in (None, connection.seen.index):
                    connection.released.set()

        self._loop.call_soon_threadsafe(let_go)

    def hang_up(self, *, reset: bool = False) -> None:
        """End every connection from our side, with FIN or with RST."""
        self._loop.call_soon_threadsafe(lambda: [one.end(reset=reset) for one in set(self._live)])

    def __enter__(self) -> FakeProvider:
        self._thread.start()
        if not self._ready.wait(_STARTS_WITHIN_S):
            raise TimeoutError("the fake provider did not start")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        if self._thread.is_alive():  # leaving twice is fine
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_STOPS_WITHIN_S)
        if self._thread.is_alive():
            raise TimeoutError("the fake provider did not stop")
        if self.script_errors and error is None:
            raise self.script_errors[0]

    # From here on: the provider's own thread.

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._loop.close()

    async def _serve(self) -> None:
        server = await self._loop.create_server(lambda: Connection(self), sock=self._socket)
        self._ready.set()
        await self._stop.wait()
        server.close()
        tasks = [one.task for one in self._live if one.task is not None]
        for one in set(self._live):
            one.end(reset=True)
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # the last connection_lost calls

    def opened(self, connection: Connection) -> ConnectionSeen:
        with self.changed:
            seen = ConnectionSeen(id=len(self.connections), opened_at=time.monotonic())
            self.connections.append(seen)
            self._live.add(connection)
            self.changed.notify_all()
        return seen

    def forget(self, connection: Connection) -> None:
        self._live.discard(connection)

    def note(self, request: Request, dialect: Dialect, connection: ConnectionSeen) -> Seen:
        """Record a request; judge its history."""
        body = cast(Json, json.loads(request.body))
        with self.changed:
            seen = Seen(
                index=len(self.seen),
                dialect=dialect,
                path=request.path,
                headers=request.headers,
                raw=request.raw,
                body=body,
                connection=connection,
                request_at=time.monotonic(),
            )
            if self.strict:
                stored = self._stored_calls.get(str(body.get("previous_response_id")))
                seen.complaints = complaints(dialect, body, stored_calls=stored)
                self.violations += [Violation(seen.index, dialect, one) for one in seen.complaints]
            self.seen.append(seen)
            self.changed.notify_all()
        return seen

    def reply_to(self, seen: Seen) -> Reply:
        """What the script has to say; a script that raises is our 500 and the test's error."""
        if seen.complaints:
            text = " | ".join(seen.complaints)
            return Reply(status=400, body=error_body(seen.dialect, 400, text))
        try:
            if callable(self.script):
                reply = self.script(seen)
            else:
                reply = self.script.pop(0) if self.script else Reply()
        except Exception as e:
            self.script_errors.append(e)
            return Reply(status=500)
        reply = with_ids(reply, seen.index)
        if seen.dialect == "responses":
            ids = [str(part.id) for part in reply.parts if isinstance(part, ToolCall)]
            self._stored_calls[f"resp_{seen.index}"] = ids
        return reply
