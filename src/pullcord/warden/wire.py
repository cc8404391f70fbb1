"""Messages between the runtime, the warden and the zygote: JSON in packets, with descriptors."""

import errno
import json
import os
import socket
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, TypeAlias

Message: TypeAlias = dict[str, Any]
PACKET_MAX_BYTES: Final = 160 * 1024
_FDS_MAX: Final = 8


class Channel:
    """One end. Sending never waits; what does not fit is kept until `flush` finds room."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._unsent: deque[tuple[bytes, list[int]]] = deque()
        sock.setblocking(False)

    def fileno(self) -> int:
        return self._sock.fileno()

    @property
    def is_behind(self) -> bool:
        return bool(self._unsent)

    def send(self, message: Message, fds: Sequence[int] = ()) -> None:
        """Send, or keep for later. The descriptors are the channel's from here on.

        Raises:
            OSError: nobody is at the other end, or the message is too long for one packet.
        """
        packet = json.dumps(message).encode()
        if len(packet) > PACKET_MAX_BYTES:
            _close(fds)
            why = f"{len(packet):,} bytes are more than the {PACKET_MAX_BYTES:,} that can be sent"
            raise OSError(errno.EMSGSIZE, why)
        self._unsent.append((packet, list(fds)))
        self.flush()

    def flush(self) -> None:
        while self._unsent:
            packet, fds = self._unsent[0]
            try:
                socket.send_fds(self._sock, [packet], fds)
            except BlockingIOError:
                return
            except OSError:
                self._unsent.popleft()
                _close(fds)
                raise
            self._unsent.popleft()
            _close(fds)

    def receive(self) -> tuple[Message, list[int]] | None:
        """Return the next message, or None if there is none now.

        Raises:
            EOFError: the other end is gone.
        """
        try:
            packet, fds, _, _ = socket.recv_fds(self._sock, PACKET_MAX_BYTES, _FDS_MAX)
        except BlockingIOError:
            return None
        except OSError:
            raise EOFError from None
        if not packet:
            raise EOFError
        return json.loads(packet), fds

    def close(self) -> None:
        for _, fds in self._unsent:
            _close(fds)
        self._unsent.clear()
        self._sock.close()


def pair() -> tuple[socket.socket, socket.socket]:
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


def _close(fds: Sequence[int]) -> None:
    for fd in fds:
        with suppress(OSError):
            os.close(fd)
