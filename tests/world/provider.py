"""A model's provider, as far as the world needs one: it streams slowly, and says what it sees.

The prompt has a token in it. The first answer streams text and asks for the MCP tool; once that
has a result, the second streams text and ends. A request is a `begin`, each piece a `tick`.
"""

import asyncio
import json
import os
import re
import socket
from collections.abc import Callable
from typing import Any, Final

from tests.world.effects import TICK_S, now

TOKEN: Final = re.compile(r"tok-[a-z0-9.-]+")
LONG: Final = "at length"  # in a prompt: the answer takes seconds
_PIECES: Final = 5
_MANY: Final = 90
_ESTABLISHED: Final = 1
_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
Note = Callable[[dict[str, Any]], None]


async def serve(note: Note) -> str:
    """Serve on a free port of the loopback. Returns the URL."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            await _answer(reader, writer, note)
        except (OSError, asyncio.IncompleteReadError):
            pass  # whoever has asked is gone
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"


async def _answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, note: Note) -> None:
    head = await reader.readuntil(b"\r\n\r\n")
    length = re.search(rb"content-length: *(\d+)", head, re.IGNORECASE)
    asked = json.loads(await reader.readexactly(int(length[1]) if length else 0))
    found = TOKEN.search(json.dumps(asked["messages"]))
    token = found[0] if found else ""
    call = os.urandom(6).hex()
    actor = re.search(rb"x-world-actor: *(\S+)", head, re.IGNORECASE)

    def saw(what: str) -> None:
        note(
            {
                "what": what, "kind": "model", "token": token, "call": call, "pid": 0,
                "actor": actor[1].decode() if actor else "",
                "run": "", "step": "", "attempt": 0, "at": now(),
            }
        )  # fmt: skip

    gone = asyncio.create_task(reader.read(1))  # the client sends nothing more: its end is seen
    saw("begin")
    writer.write(_HEAD)
    for piece in _pieces(asked, token):
        await asyncio.wait({gone}, timeout=TICK_S)
        if gone.done() or _is_shut(writer):
            return
        data = f"data: {json.dumps(piece)}\n\n".encode()
        writer.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        await writer.drain()
        saw("tick")
    writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
    await writer.drain()
    saw("end")
    gone.cancel()


def _is_shut(writer: asyncio.StreamWriter) -> bool:
    """Whether the client has shut the connection, though this loop may not have seen it yet."""
    line = writer.get_extra_info("socket")
    return line.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 1)[0] != _ESTABLISHED


def _pieces(asked: dict[str, Any], token: str) -> list[dict[str, Any]]:
    has_result = any(said["role"] == "tool" for said in asked["messages"])
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    pieces = _MANY if LONG in json.dumps(asked["messages"]) else _PIECES
    deltas += [{"content": f"word {number} "} for number in range(pieces)]
    if not has_result and asked.get("tools"):
        args = json.dumps({"token": f"{token}-mcp", "ticks": 6})
        function = {"name": "mcp_tick", "arguments": args}
        made = {"index": 0, "id": f"c{os.urandom(4).hex()}", "type": "function"}
        deltas.append({"tool_calls": [{**made, "function": function}]})
    last = "tool_calls" if "tool_calls" in deltas[-1] else "stop"
    choices: list[dict[str, Any]] = [
        {"index": 0, "delta": delta, "finish_reason": None} for delta in deltas
    ]
    choices.append({"index": 0, "delta": {}, "finish_reason": last})
    made_of = {"id": "chat", "object": "chat.completion.chunk", "created": 1, "model": "gpt-4o"}
    return [{**made_of, "choices": [choice]} for choice in choices]
