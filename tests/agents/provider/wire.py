"""Just enough HTTP/1.1 for a server that wants to see every byte."""

from __future__ import annotations

from dataclasses import dataclass
from http import HTTPStatus


@dataclass(frozen=True)
class Request:
    method: str
    path: str  # without the query
    headers: dict[str, str]  # names in lower case
    body: bytes
    raw: bytes


def take_request(buffer: bytearray) -> Request | None:
    """Remove one complete request from the front of `buffer`; None when it is not all there."""
    head_end = buffer.find(b"\r\n\r\n")
    if head_end < 0:
        return None
    lines = bytes(buffer[:head_end]).decode("latin-1").split("\r\n")
    method, target, _ = lines[0].split(" ", 2)
    pairs = (line.partition(":") for line in lines[1:])
    headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
    start = head_end + 4
    if headers.get("transfer-encoding", "").lower() == "chunked":
        found = _chunked(buffer, start)
        if found is None:
            return None
        body, end = found
    else:
        end = start + int(headers.get("content-length", "0"))
        if len(buffer) < end:
            return None
        body = bytes(buffer[start:end])
    raw = bytes(buffer[:end])
    del buffer[:end]
    return Request(method, target.partition("?")[0], headers, body, raw)


def _chunked(buffer: bytearray, at: int) -> tuple[bytes, int] | None:
    """The body in chunked coding and where it ends, or None when it is not all there."""
    body = b""
    while True:
        line_end = buffer.find(b"\r\n", at)
        if line_end < 0:
            return None
        size = int(bytes(buffer[at:line_end]).split(b";")[0], 16)
        start = line_end + 2
        if len(buffer) < start + size + 2:
            return None
        if size == 0:
            return body, start + 2
        body += bytes(buffer[start : start + size])
        at = start + size + 2


def head(status: int, headers: dict[str, str]) -> bytes:
    """The status line and headers of a response."""
    try:
        phrase = HTTPStatus(status).phrase
    except ValueError:
        phrase = "Unknown"
    lines = [f"HTTP/1.1 {status} {phrase}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def chunk(data: bytes) -> bytes:
    """One piece of a body in chunked coding; empty data ends the body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def half(data: bytes) -> int:
    """Where to cut: inside the first character that takes more than one byte, else the middle."""
    wide = next((at for at, byte in enumerate(data) if byte >= 0xC0), None)
    return len(data) // 2 if wide is None else wide + 1
