"""A fake OpenAI Chat Completions server that looks closely at who hangs up on it.

Standard library only, in a process of its own, so that neither its clock nor its garbage is
shared with the framework under test. `python -m compare.provider` prints its port and serves
until its standard input closes.

- `POST /<label>/v1/chat/completions`: the model. The last user message's keyword decides what it
  does (see `plan`). Histories that the real API refuses are refused with 400 (see `fault`).
- `GET /<label>/log`: what was asked under that label, with times of CLOCK_MONOTONIC, which on
  Linux is one clock for all processes.
"""

import asyncio
import contextlib
import json
import sys
import time
from dataclasses import asdict, dataclass, field
from typing import Any, TypeAlias

Message: TypeAlias = dict[str, Any]

LONG_CHUNKS = 300
CHUNK_GAP_S = 0.02  # 300 chunks: six seconds
HANG_S = 30.0


@dataclass
class Request:
    """One request as the server saw it."""

    at: float
    messages: list[Message]
    stream: bool
    status: int = 200
    error: str = ""
    chunks_at: list[float] = field(default_factory=list[float])  # when each was written
    disconnected_at: float | None = None  # the client hung up before the answer's end
    ended_at: float | None = None


@dataclass(frozen=True)
class Plan:
    """What to answer: words one by one, or tool calls, or nothing for a long time."""

    words: list[str] = field(default_factory=list[str])
    tools: list[str] = field(default_factory=list[str])
    gap_s: float = 0.0
    hang_s: float = 0.0


def text_of(message: Message) -> str:
    """The text of a message, whether its content is a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, list):
        return " ".join(part.get("text", "") for part in content)  # type: ignore[misc]
    return content or ""


def calls_of(message: Message) -> list[dict[str, Any]]:
    """The tool calls of a message; none for most."""
    return message.get("tool_calls") or []


def plan(messages: list[Message]) -> Plan:
    """Decide by the keyword of the last user message, and by the tool results after it.

    LONG: 300 words in six seconds. HANG: nothing for thirty. TOOL a: calls a. TWO TOOLS a b: calls
    both in one answer. TOOL a THEN b: calls a, and b in the next answer. Anything else: "ok".
    """
    last = max(i for i, message in enumerate(messages) if message["role"] == "user")
    words = text_of(messages[last]).split()
    results = sum(message["role"] == "tool" for message in messages[last:])
    if "LONG" in words:
        return Plan([f"word{i} " for i in range(LONG_CHUNKS)], gap_s=CHUNK_GAP_S)
    if "HANG" in words:
        return Plan(["late"], hang_s=HANG_S)
    if "TWO" in words and results == 0:
        return Plan(tools=words[words.index("TOOLS") + 1 :][:2])
    if "TOOL" in words:
        first = words[words.index("TOOL") + 1]
        second = words[words.index("THEN") + 1] if "THEN" in words else ""
        wanted = [name for name in (first, second) if name]
        if results < len(wanted):
            return Plan(tools=[wanted[results]])
    return Plan(["ok"])


def fault(messages: list[Message]) -> str:
    """Why the real API would refuse this history, or an empty string.

    Its rule: the messages right after an assistant message with tool calls are their results,
    exactly one for each, and there is no result without a call.
    """
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            if message["tool_call_id"] not in open_calls:
                return "a message with role 'tool' must be a response to a preceding tool call"
            open_calls.remove(message["tool_call_id"])
            continue
        if open_calls:
            break
        open_calls = [call["id"] for call in calls_of(message)]
    if open_calls:
        return f"these tool_call_ids did not have response messages: {', '.join(open_calls)}"
    if not any(message["role"] == "user" for message in messages):
        return "no user message"
    return ""


class Provider:
    """The server and everything it was asked, by label."""

    def __init__(self) -> None:
        self.log: dict[str, list[Request]] = {}
        self._calls = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request per connection: a client that hangs up is then told from one that waits."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            _, path, _ = head[0].split(" ", 2)
            sizes = [line.split(":")[1] for line in head if line.lower().startswith("content-len")]
            body = await reader.readexactly(int(sizes[0])) if sizes else b""
            label, _, rest = path.strip("/").partition("/")
            if rest == "log":
                requests = [asdict(request) for request in self.log.get(label, [])]
                self._respond(writer, 200, json.dumps(requests))
            else:
                await self._complete(label, json.loads(body), reader, writer)
            await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            pass  # they hung up; if that matters, `_complete` has noted it
        finally:
            writer.close()

    async def _complete(
        self,
        label: str,
        body: dict[str, Any],
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
    ) -> None:
        request = Request(time.monotonic(), body["messages"], bool(body.get("stream")))
        self.log.setdefault(label, []).append(request)
        request.error = fault(request.messages)
        if request.error:
            request.status = 400
            error = {"message": request.error, "type": "invalid_request_error", "code": None}
            self._respond(writer, 400, json.dumps({"error": error}))
            return
        answer = asyncio.create_task(self._answer(request, plan(request.messages), writer))
        hangup = asyncio.create_task(reader.read(1))
        await asyncio.wait({answer, hangup}, return_when=asyncio.FIRST_COMPLETED)
        if hangup.done() and not answer.done():
            request.disconnected_at = time.monotonic()
        for task in (answer, hangup):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, ConnectionError):
                await task

    async def _answer(self, request: Request, todo: Plan, writer: asyncio.StreamWriter) -> None:
        if request.stream:
            writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n")
            writer.write(b"connection: close\r\n\r\n")
        await asyncio.sleep(todo.hang_s)
        if request.stream:
            await self._stream(request, todo, writer)
        else:
            await asyncio.sleep(todo.gap_s * len(todo.words))
            self._respond(writer, 200, self._whole(todo))
        request.ended_at = time.monotonic()

    async def _stream(self, request: Request, todo: Plan, writer: asyncio.StreamWriter) -> None:
        deltas: list[dict[str, Any]] = [{"content": word} for word in todo.words]
        if todo.tools:
            calls = self._tool_calls(todo)
            deltas.append({"tool_calls": [{"index": i, **call} for i, call in enumerate(calls)]})
        for delta in deltas:
            self._event(writer, {"role": "assistant", **delta}, None)
            request.chunks_at.append(time.monotonic())
            await writer.drain()
            await asyncio.sleep(todo.gap_s)
        self._event(writer, {}, "tool_calls" if todo.tools else "stop")
        writer.write(b"data: [DONE]\n\n")
        await writer.drain()

    def _event(
        self, writer: asyncio.StreamWriter, delta: dict[str, Any], finish: str | None
    ) -> None:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        chunk = {**self._frame("chat.completion.chunk"), "choices": [choice]}
        writer.write(b"data: " + json.dumps(chunk).encode() + b"\n\n")

    def _whole(self, todo: Plan) -> str:
        message: dict[str, Any] = {"role": "assistant", "content": "".join(todo.words) or None}
        if todo.tools:
            message["tool_calls"] = self._tool_calls(todo)
        finish = "tool_calls" if todo.tools else "stop"
        choice = {"index": 0, "message": message, "finish_reason": finish}
        usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
        return json.dumps({**self._frame("chat.completion"), "choices": [choice], "usage": usage})

    def _tool_calls(self, todo: Plan) -> list[dict[str, Any]]:
        calls: list[dict[str, Any]] = []
        for name in todo.tools:
            self._calls += 1
            function = {"name": name, "arguments": "{}"}
            calls.append({"id": f"call_{self._calls}", "type": "function", "function": function})
        return calls

    def _frame(self, kind: str) -> dict[str, Any]:
        return {"id": f"r{time.monotonic_ns()}", "object": kind, "created": 0, "model": "fake"}

    def _respond(self, writer: asyncio.StreamWriter, status: int, body: str) -> None:
        data = body.encode()
        head = f"HTTP/1.1 {status} X\r\ncontent-type: application/json\r\nconnection: close\r\n"
        writer.write(f"{head}content-length: {len(data)}\r\n\r\n".encode() + data)


async def main() -> None:
    server = await asyncio.start_server(Provider().serve, "127.0.0.1", 0, limit=2**24)
    print(server.sockets[0].getsockname()[1], flush=True)
    async with server:
        await asyncio.to_thread(sys.stdin.read)  # until the comparison that started it is gone


if __name__ == "__main__":
    asyncio.run(main())
