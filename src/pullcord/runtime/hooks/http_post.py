"""One POST over a socket of its own, bounded in time and size. Follows no redirect.

Written on asyncio's streams: what a webhook needs of HTTP is one request and a status, and no
library would bound the whole of it by one deadline.
"""

import asyncio
import ssl
import time
from functools import cache
from typing import Final
from urllib.parse import urlsplit

from pullcord.core.notices import Moved, Notice
from pullcord.runtime.hooks.recipient import NoticeRefused, Unreached
from pullcord.runtime.hooks.webhook import Webhook, body_of

_HEAD_MAX_BYTES: Final = 16 * 1024
_AGAIN: Final = frozenset((408, 429))
_WAIT_MAX_S: Final = 300.0


class HttpPost:
    """Tells a webhook. See `Recipient`."""

    tries: int | None = None  # until what it is about is too old

    def __init__(self, webhook: Webhook) -> None:
        self._webhook, self.within_s = webhook, webhook.timeout_s

    async def tell(self, id: str, notice: Moved | Notice) -> None:
        body = body_of(notice)
        headers = self._webhook.headers(id, int(time.time()), body)
        try:
            async with asyncio.timeout(self._webhook.timeout_s):
                status, wait_s = await _post(self._webhook.url, headers, body)
        except TimeoutError:
            took = f"no answer within {self._webhook.timeout_s:g} s"
            raise Unreached(took) from None
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
            raise Unreached(f"{type(error).__name__}: {error}") from None
        if status >= 500 or status in _AGAIN:
            raise Unreached(f"status {status}", wait_s=wait_s)
        if not 200 <= status < 300:
            raise NoticeRefused(f"status {status}")

    def close(self) -> None:
        pass


@cache
def _tls() -> ssl.SSLContext:
    return ssl.create_default_context()


async def _post(to: str, headers: dict[str, str], body: bytes) -> tuple[int, float]:
    """Send it and return the status, and how long to wait before sending it again."""
    url = urlsplit(to)
    host, is_tls = url.hostname or "", url.scheme == "https"
    tls = _tls() if is_tls else None
    port = url.port or (443 if is_tls else 80)
    reader, writer = await asyncio.open_connection(host, port, ssl=tls, limit=_HEAD_MAX_BYTES)
    try:
        path = (url.path or "/") + (f"?{url.query}" if url.query else "")
        said = {
            "host": url.netloc,
            "user-agent": "pullcord",
            "content-type": "application/json",
            "content-length": str(len(body)),
            "connection": "close",
            **headers,
        }
        lines = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in said.items())]
        writer.write("\r\n".join([*lines, "", ""]).encode() + body)
        await writer.drain()
        while (answer := _read(await reader.readuntil(b"\r\n\r\n")))[0] < 200:
            pass  # "continue", and the like
        return answer
    finally:
        writer.transport.abort()  # nothing more of it is wanted, nor waited for


def _read(head: bytes) -> tuple[int, float]:
    first, *rest = head.decode("latin-1").split("\r\n")
    words = first.split(" ")
    if not words[0].startswith("HTTP/1.") or len(words) < 2 or not _is_status(words[1]):
        raise ConnectionError("what answers there does not speak HTTP/1.1")
    fields = {name.strip().lower(): value.strip() for name, _, value in map(_split, rest)}
    later = fields.get("retry-after", "")
    is_number = later.isascii() and later.isdigit() and len(later) < 10
    return int(words[1]), min(float(later), _WAIT_MAX_S) if is_number else 0.0


def _split(line: str) -> tuple[str, str, str]:
    return line.partition(":")


def _is_status(word: str) -> bool:
    return len(word) == 3 and word.isascii() and word.isdigit()
