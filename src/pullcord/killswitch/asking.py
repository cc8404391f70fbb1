"""An answer to whoever has engaged the kill switch: what goes on all the same.

A runtime and its warden have a socket each, because one of them may stand still.
"""

import json
import os
import socket
import struct
import time
from contextlib import suppress
from typing import Any, Final

_ASKERS_MAX: Final = 16


def listening(name: str) -> socket.socket | None:
    """A socket that other processes of this machine find by its name. None: nobody can ask."""
    if not name:
        return None
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_CLOEXEC)
    try:
        sock.bind(f"\0{name}")
        sock.listen(_ASKERS_MAX)
        sock.setblocking(False)
    except OSError:
        sock.close()
        return None
    return sock


def may_ask(asker: socket.socket) -> bool:
    """Whether it is one of our own user's processes, or root's: names are free for all."""
    found = asker.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
    return struct.unpack("3i", found)[1] in (0, os.geteuid())


class Asked:
    """Those who have asked, and when they must have their answer."""

    def __init__(self, name: str, *, within_s: float) -> None:
        self._within_s = within_s  # then what is left is named
        self._sock = listening(name)
        self._askers: list[tuple[socket.socket, float]] = []

    def fileno(self) -> int:
        return self._sock.fileno() if self._sock else -1

    @property
    def is_asked(self) -> bool:
        return bool(self._askers)

    def hear(self) -> None:
        with suppress(OSError):
            while self._sock:
                asker, _ = self._sock.accept()
                if len(self._askers) < _ASKERS_MAX and may_ask(asker):
                    asker.setblocking(False)
                    self._askers.append((asker, time.monotonic() + self._within_s))
                else:
                    asker.close()

    def answer(self, left: list[Any]) -> None:
        """Tell whoever has asked, when nothing is left, or when it has waited long enough."""
        now = time.monotonic()
        for asker, until in self._askers:
            if not left or now >= until:
                with suppress(OSError):
                    asker.send(json.dumps({"pid": os.getpid(), "left": left}).encode())
                asker.close()
        self._askers = [(asker, until) for asker, until in self._askers if left and now < until]

    def close(self) -> None:
        for sock in (self._sock, *(asker for asker, _ in self._askers)):
            if sock:
                sock.close()
