"""The output of a process tool: bounded in memory, and shown as it comes."""

import asyncio
import codecs
from typing import Final

from pullcord.core.text.screening import NO_GUARDS, Guards, Hit, Screen
from pullcord.core.text.secrets import Secrets
from pullcord.core.text.stream_sealer import Sealer

KEPT_BYTES: Final = 64 * 1024  # of the beginning, and the same of the end
SHOWN_CHARS: Final = 256 * 1024
_PIECE_CHARS: Final = 4096


class Tail:
    """The beginning and the end of a stream, and the number of bytes between them."""

    def __init__(self) -> None:
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0

    def take(self, data: bytes) -> None:
        self.total += len(data)
        room = KEPT_BYTES - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        if data:
            self._tail += data[-KEPT_BYTES:]
            if len(self._tail) > 2 * KEPT_BYTES:
                del self._tail[:-KEPT_BYTES]

    @property
    def dropped(self) -> int:
        return self.total - len(self._head) - min(len(self._tail), KEPT_BYTES)

    def text(self) -> str:
        """Return the kept text. Invalid bytes and NUL become replacement characters."""
        head, tail = bytes(self._head), bytes(self._tail[-KEPT_BYTES:])
        if not self.dropped:
            return _text(head + tail)
        return f"{_text(head)}\n[… {self.dropped:,} bytes not kept …]\n{_text(tail)}"


class Output:
    """Both streams of one call. `piece` returns output that is not shown yet."""

    def __init__(self, guards: Guards = NO_GUARDS, secrets: Secrets | None = None) -> None:
        self.out, self.err = Tail(), Tail()
        self._sealers = {n: Sealer(secrets) for n in ("out", "err")} if secrets else {}
        self._screens = {name: guards.screen() for name in ("out", "err")}
        self.hit: Hit | None = None  # a guard's match: nothing after it is shown
        self._decoders = {
            name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("out", "err")
        }
        self._unshown = ""
        self._shown_chars = 0
        self.is_closed = False
        self._more = asyncio.Event()

    def take_out(self, data: bytes) -> None:
        self._take("out", self.out, data)

    def take_err(self, data: bytes) -> None:
        self._take("err", self.err, data)

    def close(self) -> None:
        """End the output."""
        if self._sealers and not self.is_closed:
            self._take("out", self.out, b"", final=True)
            self._take("err", self.err, b"", final=True)
        for screen in self._screens.values():
            self._add(screen.end(), screen)
        self.is_closed = True
        self._more.set()

    async def piece(self) -> str:
        """Return new output, once there is some. Empty: the output has ended."""
        while not self._unshown and not self.is_closed and self.hit is None:
            self._more.clear()
            await self._more.wait()
        piece, self._unshown = self._unshown[:_PIECE_CHARS], self._unshown[_PIECE_CHARS:]
        return piece

    def _take(self, stream: str, kept: Tail, data: bytes, *, final: bool = False) -> None:
        """Seal the data before any of it is cut off: half a secret could not be found."""
        text = self._decoders[stream].decode(data, final)
        if sealer := self._sealers.get(stream):
            text = sealer.feed(text) + (sealer.end() if final else "")
            data = text.encode()
        kept.take(data)
        self._show(stream, text)

    def _show(self, stream: str, text: str) -> None:
        left = SHOWN_CHARS - self._shown_chars
        if left <= 0:
            return
        text = text.replace("\0", "�")[:left]
        self._shown_chars += len(text)
        if self._shown_chars >= SHOWN_CHARS:
            text += "\n[… more than is shown here …]\n"
        screen = self._screens[stream]
        self._add(screen.feed(text), screen)

    def _add(self, text: str, screen: Screen) -> None:
        """Add text of one stream. It has its own guards, so the other one cannot hide a match."""
        if self.hit is None:
            self._unshown += text
            self.hit = screen.hit
        self._more.set()


def _text(data: bytes) -> str:
    return data.decode(errors="replace").replace("\0", "�")
