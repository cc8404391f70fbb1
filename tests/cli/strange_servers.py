"""Servers that are not what a command expects: each answers as a script of bytes says."""

import socket
import ssl
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

Reply = bytes | Callable[[bytes], bytes | None]


class Strange:
    """`asked` has the requests as they came, `replies` are given in this order."""

    def __init__(self, replies: list[Reply]) -> None:
        self.asked: list[bytes] = []
        self._replies = replies
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}"
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                line, _ = self._listening.accept()
                threading.Thread(target=self._talk, args=[line], daemon=True).start()

    def _talk(self, line: socket.socket) -> None:
        with line, suppress(OSError):
            self._answer(line)

    def _answer(self, line: socket.socket) -> None:
        """The last reply is given again and again; None: hang up."""
        while request := _request(line):
            self.asked.append(request)
            reply = self._replies.pop(0) if len(self._replies) > 1 else self._replies[0]
            said = reply if isinstance(reply, bytes) else reply(request)
            if said is None:
                return
            line.sendall(said)
            if b"connection: close" in said.lower():
                return

    def close(self) -> None:
        with suppress(OSError):
            self._listening.shutdown(socket.SHUT_RDWR)
        self._listening.close()
        self._thread.join(5)


def _request(line: socket.socket) -> bytes:
    got = b""
    while b"\r\n\r\n" not in got:
        piece = line.recv(65536)
        if not piece:
            return b""
        got += piece
    head, _, body = got.partition(b"\r\n\r\n")
    wanted = 0
    for said in head.lower().split(b"\r\n"):
        if said.startswith(b"content-length:"):
            wanted = int(said.split(b":")[1])
    while len(body) < wanted:
        body += line.recv(65536)
    return head + b"\r\n\r\n" + body


def answer(status: str, kind: str, body: str, *more: str) -> bytes:
    head = [f"HTTP/1.1 {status}", f"Content-Type: {kind}", f"Content-Length: {len(body)}", *more]
    return "\r\n".join([*head, "", body]).encode()


@contextmanager
def strange(*replies: Reply) -> Generator[Strange]:
    made = Strange(list(replies))
    try:
        yield made
    finally:
        made.close()


@contextmanager
def strange_tls(key: Path, cert: Path) -> Generator[tuple[int, list[bytes]]]:
    """A server with a certificate of its own. Yields its port, and what it was sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(cert, key)
    listening = socket.create_server(("127.0.0.1", 0))
    seen: list[bytes] = []

    def serve() -> None:
        with suppress(OSError):
            while True:
                line, _ = listening.accept()
                with line, suppress(OSError), context.wrap_socket(line, server_side=True) as safe:
                    if request := _request(safe):
                        seen.append(request)
                        safe.sendall(answer("200 OK", "application/json", '{"runs":[]}'))

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    try:
        yield listening.getsockname()[1], seen
    finally:
        with suppress(OSError):
            listening.shutdown(socket.SHUT_RDWR)
        listening.close()
        thread.join(5)
