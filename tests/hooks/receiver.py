"""A real receiver of webhooks on the loopback: answers as the test says, and checks signatures with
an implementation of its own."""

import asyncio
import base64
import hashlib
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Final

SECRET: Final = "whsec_" + base64.b64encode(bytes(range(32))).decode()
OTHER: Final = "whsec_" + base64.b64encode(bytes(range(100, 132))).decode()
Answer = int | bytes | Callable[[], Awaitable[object]]


@dataclass(frozen=True)
class Got:
    """One request, as it arrived."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def data(self) -> dict[str, Any]:
        return json.loads(self.body)["data"]

    def is_signed_with(self, secret: str) -> bool:
        """HMAC by its definition, from nothing but a hash function."""
        key = base64.b64decode(secret.removeprefix("whsec_")).ljust(64, b"\0")
        said = f"{self.id}.{self.headers['webhook-timestamp']}.".encode() + self.body
        inner = hashlib.sha256(bytes(k ^ 0x36 for k in key) + said).digest()
        outer = hashlib.sha256(bytes(k ^ 0x5C for k in key) + inner).digest()
        wanted = f"v1,{base64.b64encode(outer).decode()}"
        return wanted in self.headers["webhook-signature"].split(" ")


class Receiver:
    """Gives its answers one after the other, then 204 to everything."""

    def __init__(self, *answers: Answer) -> None:
        self.got: list[Got] = []
        self.answers = list(answers)
        self._arrived = asyncio.Condition()
        self._serving: set[asyncio.Task[Any]] = set()

    async def __aenter__(self) -> "Receiver":
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        port = self._server.sockets[0].getsockname()[1]
        self.url = f"http://127.0.0.1:{port}/hook"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        for task in self._serving:
            task.cancel()
        await asyncio.gather(*self._serving, return_exceptions=True)

    async def until(self, holds: Callable[[list[Got]], bool]) -> list[Got]:
        async with self._arrived:
            await self._arrived.wait_for(lambda: holds(self.got))
        return list(self.got)

    async def until_told(self, after: str) -> list[Got]:
        """Wait until somebody has said that a run is in this state."""
        return await self.until(lambda got: any(g.data["after"] == after for g in got))

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if (task := asyncio.current_task()) is not None:
            self._serving.add(task)
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            line, *lines = head.strip().split("\r\n")
            headers = {name.lower(): value for name, _, value in (x.partition(": ") for x in lines)}
            body = await reader.readexactly(int(headers["content-length"]))
            answer = self.answers.pop(0) if self.answers else 204
            async with self._arrived:
                self.got.append(Got(line, headers, body))
                self._arrived.notify_all()
            if callable(answer):
                await answer()
                answer = 204
            if isinstance(answer, int):
                answer = f"HTTP/1.1 {answer} Word\r\ncontent-length: 0\r\n\r\n".encode()
            writer.write(answer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass  # whoever sent it has gone
        finally:
            writer.close()
