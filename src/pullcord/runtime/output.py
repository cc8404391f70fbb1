"""What a process tool puts out: bounded in memory, shown as it comes, in nobody's way."""

import asyncio
import codecs
from typing import Final

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

    def __init__(self) -> None:
        self.out, self.err = Tail(), Tail()
        self._decoders = {
            name: codecs.getincrementaldecoder("utf-8")("replace") for name in ("out", "err")
        }
        self._unshown = ""
        self._shown_chars = 0
        self.is_closed = False
        self._more = asyncio.Event()

    def take_out(self, data: bytes) -> None:
        self.out.take(data)
        self._show("out", data)

    def take_err(self, data: bytes) -> None:
        self.err.take(data)
        self._show("err", data)

    def close(self) -> None:
        """Nothing more comes."""
        self.is_closed = True
        self._more.set()

    async def piece(self) -> str:
        """Return what came since, once there is something. Empty: that was all."""
        while not self._unshown and not self.is_closed:
            self._more.clear()
            await self._more.wait()
        piece, self._unshown = self._unshown[:_PIECE_CHARS], self._unshown[_PIECE_CHARS:]
        return piece

    def _show(self, stream: str, data: bytes) -> None:
        left = SHOWN_CHARS - self._shown_chars
        if left <= 0:
            return
        text = self._decoders[stream].decode(data).replace("\0", "�")[:left]
        self._shown_chars += len(text)
        if self._shown_chars >= SHOWN_CHARS:
            text += "\n[… more than is shown here …]\n"
        self._unshown += text
        self._more.set()


def _text(data: bytes) -> str:
    return data.decode(errors="replace").replace("\0", "�")
