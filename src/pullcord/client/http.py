"""A small HTTP client over a socket, so that it costs no start-up time.

Measured: importing `http.client` alone takes as long as everything that a control verb needs.
(bench/verbs) Credentials go only to the named server. The client follows no redirects and no
proxies.
"""

import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn

from pullcord.client.server_address import ServerAddress
from pullcord.errors import ServerLost, ServerRefused
from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    import ssl
else:
    ssl = lazy_import("ssl")  # loaded only where it is needed, because it is slow

_HEAD_MAX: Final = 64 * 1024
ANSWER_MAX: Final = 64 * 1024 * 1024
_CONNECT_S: Final = 5.0
_ANSWER_S: Final = 30.0
_SILENCE_S: Final = 45.0  # a stream sends a sign of life every 15 s
_AGAIN_S: Final = (0.1, 0.5)  # the waits before the next attempts after a lost connection


class Response(NamedTuple):
    status: int
    kind: str
    body: bytes
    headers: dict[str, str]


class ServerEvent(NamedTuple):
    """One server-sent event."""

    id: str
    kind: str
    data: bytes


class Client:
    """A client for one server and one command. Only one thread at a time may use it."""

    def __init__(self, where: ServerAddress, credential: str) -> None:
        self.where = where
        self.credential = credential
        self._deadline: float | None = None
        self._line: socket.socket | None = None
        self._rest = b""  # read but not yet used

    def close(self) -> None:
        if self._line:
            self._line.close()
        self._line, self._rest = None, b""

    def cut(self) -> None:
        """End the read that another thread waits for."""
        if line := self._line:
            with suppress(OSError):  # it is over already
                line.shutdown(socket.SHUT_RDWR)

    def ask(self, method: str, path: str, body: bytes | None = None, *, again: bool) -> Response:
        """Send one request and return the response.

        `again`: retry after a lost connection; only for requests that may arrive twice.

        Raises:
            ServerLost: there is no answer.
            ServerRefused: the answer does not come from a Pullcord server, or redirects us.
        """
        pauses = list(_AGAIN_S) if again else []
        while True:
            is_used = self._line is not None
            try:
                return self._asked(method, path, body)
            except (OSError, _Broken) as error:
                self.close()
                if is_used and again:
                    continue  # the server had closed the kept connection
                if not pauses:
                    self._lost(error, changes=method != "GET")
                time.sleep(pauses.pop(0))

    def _asked(self, method: str, path: str, body: bytes | None) -> Response:
        self._send(method, path, body)
        status, headers = self._head()
        answer = Response(status, _kind(headers), self._body(status, headers), headers)
        if headers.get("connection", "").lower() == "close":
            self.close()
        return answer

    def events(self, path: str, until: float | None = None) -> Iterator[ServerEvent | Response]:
        """Yield the events until the server ends the stream, or until the monotonic time `until`.

        If the response is not a stream, yield it instead.

        Raises:
            ServerLost: the connection broke. A caller that knows the last id can go on from there.
        """
        try:
            self.close()
            self._send("GET", path, None)
            status, headers = self._head()
            if _kind(headers) != "text/event-stream":
                yield Response(status, _kind(headers), self._body(status, headers), headers)
                return
            self._deadline = until
            assert self._line
            self._line.settimeout(_SILENCE_S)
            yield from _events(self._pieces(headers))
        except (OSError, _Broken) as error:
            if until is None or time.monotonic() < until:
                self._lost(error, changes=False)
        finally:
            self.close()

    # --- the request ---

    def _send(self, method: str, path: str, body: bytes | None) -> None:
        head = [
            f"{method} {self.where.path}{path} HTTP/1.1",
            f"Host: {self.where.name}",
            f"Authorization: Bearer {self.credential}",
            "Accept: application/json, text/event-stream",
            "Accept-Encoding: identity",
            "User-Agent: pullcord",
        ]
        if body is not None:
            head += ["X-Pullcord: 1", "Content-Type: application/json"]
            head.append(f"Content-Length: {len(body)}")
        if self._line is None:
            self._line = self._connected()
        self._line.settimeout(_ANSWER_S)
        self._line.sendall("\r\n".join(head).encode("ascii") + b"\r\n\r\n" + (body or b""))

    def _connected(self) -> socket.socket:
        # As bytes: for a text host name Python loads tables for non-ASCII names.
        host: Any = self.where.host.encode("ascii")
        line = socket.create_connection((host, self.where.port), _CONNECT_S)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if not self.where.is_tls:
            return line
        try:
            return ssl.create_default_context().wrap_socket(line, server_hostname=self.where.host)
        except ssl.SSLError as error:
            line.close()
            why = getattr(error, "verify_message", "") or error.reason or "no common ground"
            raise ServerRefused(
                f"{self.where.url} cannot show that it is who it says: {why}. Nothing was sent to "
                "it. If it has its own authority, name that one's certificates: SSL_CERT_FILE"
            ) from None
        except BaseException:
            line.close()
            raise

    # --- the answer ---

    def _head(self) -> tuple[int, dict[str, str]]:
        while b"\r\n\r\n" not in self._rest:
            if len(self._rest) > _HEAD_MAX:
                self._strange("its answer begins with too much")
            self._rest += self._more()
        head, _, self._rest = self._rest.partition(b"\r\n\r\n")
        first, *lines = head.decode("latin-1").split("\r\n")
        words = first.split(" ", 2)
        if not first.startswith("HTTP/1.") or len(words) < 2 or not words[1].isdigit():
            self._strange("it does not speak HTTP")
        status = int(words[1])
        headers: dict[str, str] = {}
        for said in lines:
            name, _, value = said.partition(":")
            headers[name.strip().lower()] = value.strip()
        if status in (100, 103):
            return self._head()
        if 300 <= status < 400:
            where = headers.get("location", "elsewhere")[:200]
            raise ServerRefused(
                f"{self.where.url} sends us on to {where!r}. That is not followed: your token is "
                "for the server that you have named. Nothing was changed. If that is the right "
                "one, name it with --server."
            )
        return status, headers

    def _body(self, status: int, headers: dict[str, str]) -> bytes:
        if status in (204, 304):
            return b""
        if "chunked" not in headers.get("transfer-encoding", "").lower():
            said = headers.get("content-length", "")
            if said.isdigit():
                return self._exactly(int(said))
        whole = bytearray()
        for piece in self._pieces(headers):
            whole += piece
            self._bounded(len(whole))
        return bytes(whole)

    def _exactly(self, size: int) -> bytes:
        self._bounded(size)
        read = bytearray(self._rest)
        while len(read) < size:
            read += self._more()
        self._rest = bytes(read[size:])
        return bytes(read[:size])

    def _pieces(self, headers: dict[str, str]) -> Iterator[bytes]:
        """Yield the body in pieces: chunks, or bytes until the server closes."""
        if "chunked" in headers.get("transfer-encoding", "").lower():
            while size := self._chunk_size():
                yield self._exactly(size)
                self._exactly(2)
            self._until(b"\r\n")
            return
        while True:
            if self._rest:
                piece, self._rest = self._rest, b""
                yield piece
            try:
                self._rest = self._more()
            except _Broken:
                self.close()
                return

    def _chunk_size(self) -> int:
        said = self._until(b"\r\n").partition(b";")[0].strip()
        try:
            return int(said, 16)
        except ValueError:
            self._strange("its answer is cut up in a way that nobody can read")

    def _until(self, mark: bytes) -> bytes:
        while mark not in self._rest:
            if len(self._rest) > _HEAD_MAX:
                self._strange("its answer is cut up in a way that nobody can read")
            self._rest += self._more()
        before, _, self._rest = self._rest.partition(mark)
        return before

    def _more(self) -> bytes:
        assert self._line
        if self._deadline is not None:
            left = self._deadline - time.monotonic()
            self._line.settimeout(min(max(left, 0.001), _SILENCE_S))
        if not (piece := self._line.recv(64 * 1024)):
            raise _Broken("it closed the connection")
        return piece

    # --- what goes wrong ---

    def _bounded(self, size: int) -> None:
        if size > ANSWER_MAX:
            self._strange(f"it answers with more than {ANSWER_MAX >> 20} MiB")

    def _strange(self, why: str) -> NoReturn:
        self.close()
        raise ServerRefused(
            f"{self.where.url} is not a Pullcord server, or something stands before it: {why}. "
            "Check --server."
        )

    def _lost(self, error: Exception, *, changes: bool) -> NoReturn:
        why = getattr(error, "strerror", None) or str(error) or type(error).__name__
        raise ServerLost(self.where.url, why=why, changes=changes) from None


class _Broken(Exception):
    """The server closed the connection in the middle."""


def _kind(headers: dict[str, str]) -> str:
    return headers.get("content-type", "").partition(";")[0].strip().lower()


def _events(pieces: Iterator[bytes]) -> Iterator[ServerEvent]:
    """Yield each server-sent event as soon as it is complete."""
    rest = b""
    for piece in pieces:
        rest += piece
        while b"\n\n" in rest:
            block, _, rest = rest.partition(b"\n\n")
            fields: dict[bytes, bytes] = {}
            for said in block.split(b"\n"):
                name, _, value = said.partition(b":")
                fields[name] = value.removeprefix(b" ")
            yield ServerEvent(
                fields.get(b"id", b"").decode(),
                fields.get(b"event", b"").decode(),
                fields.get(b"data", b""),
            )
        if len(rest) > ANSWER_MAX:
            raise _Broken("one event is too large")
