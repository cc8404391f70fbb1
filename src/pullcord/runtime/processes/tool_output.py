"""What a process tool puts out: bounded in memory, shown as it comes, in nobody's way."""

import asyncio
import codecs
from typing import Final

from pullcord.core.text.screening import NO_GUARDS, Guards, Hit, Screen
from pullcord.core.text.secrets import Secrets
from pullcord.core.text.stream_sealer import Sealer

KEPT_BYTES: Final = 64 * 1024  # of the beginning, and as much of the end
SHOWN_CHARS: Final = 256 * 1024
_PIECE_CHARS: Final = 4096


class Tail:
    """The beginning and the end of a stream, and how much there was in between."""

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
        """What was kept, as text; bytes that are none, and NUL, are shown as a replacement."""
        head, tail = bytes(self._head), bytes(self._tail[-KEPT_BYTES:])
        if not self.dropped:
            return _text(head + tail)
        return f"{_text(head)}\n[… {self.dropped:,} bytes not kept …]\n{_text(tail)}"


class Output:
    """Both streams of one call. `piece` hands out what has not been shown yet."""

    def __init__(self, guards: Guards = NO_GUARDS, secrets: Secrets | None = None) -> None:
        self.out, self.err = Tail(), Tail()
        self._sealers = {n: Sealer(secrets) for n in ("out", "err")} if secrets else {}
        self._screens = {name: guards.screen() for name in ("out", "err")}
        self.hit: Hit | None = None  # what a guard has found in it; nothing is shown from there on
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
        """Nothing more comes."""
        if self._sealers and not self.is_closed:
            self._take("out", self.out, b"", final=True)
            self._take("err", self.err, b"", final=True)
        for screen in self._screens.values():
            self._add(screen.end(), screen)
        self.is_closed = True
        self._more.set()

    async def piece(self) -> str:
        """Return what came since, once there is something. Empty: that was all."""
        while not self._unshown and not self.is_closed and self.hit is None:
            self._more.clear()
            await self._more.wait()
        piece, self._unshown = self._unshown[:_PIECE_CHARS], self._unshown[_PIECE_CHARS:]
        return piece

    def _take(self, stream: str, kept: Tail, data: bytes, *, final: bool = False) -> None:
        """Sealed before anything is cut out of it: half a secret could not be found any more."""
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
        """Each stream has its guards to itself: what comes in between hides nothing."""
        if self.hit is None:
            self._unshown += text
            self.hit = screen.hit
        self._more.set()


def _text(data: bytes) -> str:
    return data.decode(errors="replace").replace("\0", "�")
