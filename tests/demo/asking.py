"""Asks an ASGI app something, without a socket."""

import json
from typing import Any

import msgspec
from starlette.applications import Starlette


class Answer(msgspec.Struct):
    status: int = 0
    headers: dict[str, str] = {}
    body: bytes = b""


async def ask(
    app: Starlette, method: str, path: str, *, user: str = "", said: Any = None
) -> Answer:
    """Send one request as this user, and return the whole answer."""
    answer = Answer(headers={})
    body = b"" if said is None else json.dumps(said).encode()
    headers = {
        "host": "host.example",
        "cookie": f"user={user}",
        "x-pullcord": "1",
        "content-type": "application/json",
        "content-length": str(len(body)),
    }
    scope: dict[str, Any] = {
        "type": "http",
        "method": method,
        "path": path,
        "raw_path": path.encode(),
        "root_path": "",
        "scheme": "http",
        "http_version": "1.1",
        "query_string": b"",
        "headers": [(k.encode(), v.encode()) for k, v in headers.items()],
        "server": ("host.example", 80),
        "client": ("127.0.0.1", 1),
    }

    async def receive() -> dict[str, Any]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        if message["type"] == "http.response.start":
            answer.status = message["status"]
            answer.headers |= {k.decode(): v.decode() for k, v in message["headers"]}
        else:
            answer.body += message.get("body", b"")

    await app(scope, receive, send)
    return answer
