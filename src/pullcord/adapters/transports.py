"""Tells a call which sockets its provider's client uses, for clients of httpx and httpx2.

Clients keep connections and reuse them. So only the code that reads and writes knows which socket
belongs to a call: below the pool, in the task that makes the call.
"""

from typing import Any

from pullcord.runtime.doors.sockets import Sockets, current_sockets


def watch_client(client: Any) -> bool:
    """Watch the sockets of an `httpx.AsyncClient` or `httpx2.AsyncClient`; return whether it can.

    A control can then shut the sockets of a request. False: the client has no pool of connections
    that can be watched.
    """
    found = False
    transports: list[Any] = [getattr(client, "_transport", None)]
    for transport in (*transports, *getattr(client, "_mounts", {}).values()):
        pool = getattr(transport, "_pool", None)
        if hasattr(pool, "_network_backend"):
            _watch_pool(pool)
            found = True
    return found


def _watch_pool(pool: Any) -> None:
    _watch_below(pool)
    for connection in pool.connections:  # also those that were opened before
        while connection is not None:
            _watch_below(connection)
            connection = getattr(connection, "_connection", None)


def _watch_below(user: Any) -> None:
    """Put a watcher between this part of a pool and the network below it."""
    for name, watching in (("_network_backend", _Backend), ("_network_stream", _Stream)):
        below: Any = getattr(user, name, None)
        if below is not None and not isinstance(below, watching):
            setattr(user, name, watching(below))


class _Backend:
    """Opens connections through the backend below, and knows their sockets."""

    def __init__(self, below: Any) -> None:
        self._below = below

    async def connect_tcp(self, *args: Any, **kwargs: Any) -> Any:
        return _Stream(await self._below.connect_tcp(*args, **kwargs))

    async def connect_unix_socket(self, *args: Any, **kwargs: Any) -> Any:
        return _Stream(await self._below.connect_unix_socket(*args, **kwargs))

    async def sleep(self, seconds: float) -> None:
        await self._below.sleep(seconds)


class _Stream:
    """A connection, which tells a call its socket before the call reads or writes.

    The socket then belongs to that call alone: an earlier call can no longer shut it.
    """

    def __init__(self, below: Any) -> None:
        self._below = below
        self._user: Sockets | None = None
        self._socket: Any = below.get_extra_info("socket")

    async def read(self, *args: Any, **kwargs: Any) -> bytes:
        self._tell()
        return await self._below.read(*args, **kwargs)

    async def write(self, *args: Any, **kwargs: Any) -> None:
        self._tell()
        await self._below.write(*args, **kwargs)

    async def aclose(self) -> None:
        self._is_used_by(None)
        await self._below.aclose()

    async def start_tls(self, *args: Any, **kwargs: Any) -> Any:
        return _Stream(await self._below.start_tls(*args, **kwargs))

    def get_extra_info(self, info: str) -> Any:
        return self._below.get_extra_info(info)

    def _tell(self) -> None:
        if self._socket is not None:
            self._is_used_by(current_sockets())

    def _is_used_by(self, user: Sockets | None) -> None:
        if self._user is not None and self._user is not user:
            self._user.leave(self._socket)
        self._user = user
        if user is not None:
            user.take(self._socket)
