"""Stops a call in a thread of its own, if its tool declares `on_stop="raise"`.

It shuts the sockets that the call has opened, so that a read from them returns. Then it raises
`Interrupted` in the call. Python raises it between two instructions of the thread, so C code that
does not return is not reached. Other calls are left alone: they may hold a lock, or may have put a
connection into a pool that others use.
"""

import ctypes
import socket
import sys
import threading
import weakref
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final

from pullcord.errors import Interrupted

_installing: Final = threading.Lock()
_is_installed = False


class ThreadStop:
    """One call in a thread of its own, and its stop. Any thread may call `stop`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ident = 0  # of the thread, while it calls the tool's function
        self._sockets = weakref.WeakSet[socket.socket]()
        _install()

    def call(self, function: Any, *args: Any) -> Any:
        """Call the function in this thread. A returned value counts, even after a stop."""
        returned: list[Any] = []
        _CALL.set(self)
        try:
            try:
                with self._lock:
                    self._ident = threading.get_ident()
                returned.append(function(*args))
            finally:
                with self._lock:
                    ident, self._ident = self._ident, 0
                    _raise_in(ident, None)  # withdraw an exception that has not arrived
        except Interrupted:
            if not returned:
                raise
        return returned[0]

    def opened(self, made: socket.socket) -> None:
        self._sockets.add(made)

    def stop(self) -> None:
        for made in tuple(self._sockets):
            with suppress(OSError):  # the plain method: TLS would wait for the peer
                socket.socket.shutdown(made, socket.SHUT_RDWR)
        with self._lock:
            if self._ident:
                _raise_in(self._ident, Interrupted)


_CALL: Final[ContextVar[ThreadStop | None]] = ContextVar("pullcord-thread-call", default=None)


def _install() -> None:
    """Install the audit hook, at the first call that has opted in. It cannot be removed."""
    global _is_installed
    with _installing:
        if not _is_installed:
            sys.addaudithook(_hear)
            _is_installed = True


def _hear(event: str, args: tuple[Any, ...]) -> None:
    if event == "socket.__new__" and (call := _CALL.get()) is not None:
        with suppress(Exception):
            call.opened(args[0])


def _raise_in(ident: int, error: type[BaseException] | None) -> None:
    given = ctypes.py_object(error) if error else None
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(ident), given)
