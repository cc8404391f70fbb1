"""The sockets that a call in flight talks through, to be shut from any thread.

Cancelling a task closes its connection only when its event loop comes to it, and only if no
library on the way swallows the cancellation. Shutting the socket needs neither.
"""

import socket
import threading
from collections.abc import Generator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final


class Sockets:
    """Those of one call. A transport that knows of `current` tells it which one it uses."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._open: set[Any] = set()
        self._is_shut = self._is_used = False

    def take(self, sock: Any) -> None:
        """The call talks through this one now. Shut at once, if the call was cut before."""
        with self._lock:
            self._is_used = True
            self._open.add(sock)
            if self._is_shut:
                _shut(sock)

    def leave(self, sock: Any) -> None:
        """It is closed, or another's from here on."""
        with self._lock:
            self._open.discard(sock)

    def shut(self) -> bool:
        """Stop talking and listening, from any thread. What waits for it sees the end at once.
        False: the call has not come to talk to anybody, and sees nothing."""
        with self._lock:
            self._is_shut = True
            for sock in self._open:
                _shut(sock)
            return self._is_used

    @contextmanager
    def used(self) -> Generator[None]:
        """What is called inside is the call that these sockets belong to."""
        token = _CURRENT.set(self)
        try:
            yield
        finally:
            _CURRENT.reset(token)
            with self._lock:
                self._open.clear()  # a connection that goes back to its pool is nobody's to shut


_CURRENT: Final[ContextVar[Sockets | None]] = ContextVar("pullcord-sockets", default=None)


def current_sockets() -> Sockets | None:
    return _CURRENT.get()


def _shut(sock: Any) -> None:
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass  # it was closed before
