"""HTTP by hand: exactly the bytes that a test wants to send, and what comes back."""

import asyncio
import json
import socket
from collections.abc import Iterable
from typing import Any, NamedTuple, TypeAlias

Headers: TypeAlias = list[tuple[str, str]]


class Answer(NamedTuple):
    """`status` 0: the connection was closed without one."""

    status: int
    headers: Headers
    body: bytes

    def header(self, name: str) -> str:
        return next((value for key, value in self.headers if key == name), "")

    @property
    def json(self) -> Any:
        return json.loads(self.body)


def request_bytes(
    method: str, target: str, headers: Iterable[tuple[str, str]], body: bytes = b""
) -> bytes:
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers)]
    return "\r\n".join([*lines, "", ""]).encode("utf-8", "surrogateescape") + body


async def exchange(port: int, sent: bytes, *, half_close: bool = False) -> Answer:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        if half_close:
            writer.write_eof()
        return await answer_of(reader, has_body=not sent.startswith(b"HEAD "))
    finally:
        writer.transport.abort()


async def answer_of(reader: asyncio.StreamReader, *, has_body: bool = True) -> Answer:
    """One answer. Of a stream of events: its head."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.IncompleteReadError, ConnectionError):
        return Answer(0, [], b"")
    status, headers = parsed(head)
    answer = Answer(status, headers, b"")
    is_stream = answer.header("content-type").startswith("text/event-stream")
    if is_stream or status == 204 or not has_body:
        return answer
    length = answer.header("content-length")
    try:
        body = await reader.readexactly(int(length)) if length else await reader.read()
    except ConnectionError:
        body = b""
    return answer._replace(body=body)


def parsed(head: bytes) -> tuple[int, Headers]:
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    pairs = [line.partition(":") for line in lines]
    return int(first.split()[1]), [(name.lower(), value.strip()) for name, _, value in pairs]


class Message(NamedTuple):
    """One event of a stream, as it was sent."""

    event: str
    id: str
    data: Any


class Reader:
    """Somebody who reads a stream of events. `taken`: the bytes, decoded from their chunks."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self._rest = b""
        self.last_id = ""

    @classmethod
    async def open(cls, port: int, request: bytes, *, buffer: int = 0) -> "Reader":
        made = socket.socket()
        made.setblocking(False)
        if buffer:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        await asyncio.get_running_loop().sock_connect(made, ("127.0.0.1", port))
        reader, writer = await asyncio.open_connection(sock=made, limit=16 * 1024 * 1024)
        writer.write(request)
        answer = await answer_of(reader)
        assert answer.status == 200, answer
        return cls(reader, writer)

    async def piece(self) -> bytes:
        """The next chunk. Empty: the stream has come to its end."""
        size = int((await self._reader.readline()).strip() or b"0", 16)
        piece = await self._reader.readexactly(size)
        await self._reader.readexactly(2)
        return piece

    async def message(self) -> Message | None:
        """The next event. None: the stream has come to its end."""
        while True:
            block, found, rest = self._rest.partition(b"\n\n")
            if not found:
                if not (more := await self.piece()):
                    return None
                self._rest += more
                continue
            self._rest = rest
            if made := message_of(block):
                self.last_id = made.id or self.last_id
                return made

    async def until(self, event: str, **data: Any) -> list[Message]:
        """Everything up to the next event of this kind that has these fields."""
        taken: list[Message] = []
        while found := await self.message():
            taken.append(found)
            if found.event == event and data.items() <= flat(found.data).items():
                return taken
        raise AssertionError(f"the stream has ended without {event} {data}: {taken[-3:]}")

    def close(self) -> None:
        self._writer.transport.abort()


def flat(data: dict[str, Any]) -> dict[str, Any]:
    """With the fields of a record's event beside its own."""
    return {**data, **data.get("event", {})} if isinstance(data.get("event"), dict) else data


def message_of(block: bytes) -> Message | None:
    lines = [line.partition(b": ") for line in block.split(b"\n") if line[:1] != b":"]
    fields = {name: value for name, _, value in lines}
    if b"data" not in fields:
        return None
    event, name = fields.get(b"event", b""), fields.get(b"id", b"")
    return Message(event.decode(), name.decode(), json.loads(fields[b"data"]))
