"""Stopping a call in a thread that was made for it, where its tool declares `on_stop="raise"`.

The sockets that the call has opened itself are shut, so that whatever waits for them comes back;
then `Interrupted` is raised in it. Python raises it between two instructions of the thread: code in
C that does not come back is not reached. A call that has not opted in is left alone: a lock that it
holds, or a connection that it has put into a pool, may be others' too.
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
    """One call in a thread of its own, and how it is stopped. `stop` may come from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ident = 0  # of the thread, while the tool's function is being called
        self._sockets = weakref.WeakSet[socket.socket]()
        _install()

    def call(self, function: Any, *args: Any) -> Any:
        """Call it in this thread. What it returned counts, also if a stop came with it."""
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
                    _raise_in(ident, None)  # one that has not arrived is taken back
        except Interrupted:
            if not returned:
                raise
        return returned[0]

    def opened(self, made: socket.socket) -> None:
        self._sockets.add(made)

    def stop(self) -> None:
        for made in tuple(self._sockets):
            with suppress(OSError):  # by the plain method: TLS would wait for the other side
                socket.socket.shutdown(made, socket.SHUT_RDWR)
        with self._lock:
            if self._ident:
                _raise_in(self._ident, Interrupted)


_CALL: Final[ContextVar[ThreadStop | None]] = ContextVar("pullcord-thread-call", default=None)


def _install() -> None:
    """The hook cannot be removed: it is there from the first call that has opted in."""
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
