"""Telling a call which sockets its provider's client talks through.

Clients keep connections and use them again, so which socket belongs to a call is known only where
it is read and written: below the pool, in the task that makes the call.
"""

from collections.abc import Iterator
from typing import Any

import httpcore2
import httpx2
from pydantic_ai.models import Model
from pydantic_ai.models.wrapper import WrapperModel

from pullcord.runtime.sockets import Sockets, current_sockets


def watch(model: Model) -> bool:
    """Have the sockets of this model's client be known. False: it has none that can be."""
    found = False
    for client in _clients(model):
        transports: list[Any] = [client._transport, *client._mounts.values()]  # pyright: ignore[reportPrivateUsage]
        for transport in transports:
            pool = getattr(transport, "_pool", None)
            if isinstance(pool, httpcore2.AsyncConnectionPool):
                _watch_pool(pool)
                found = True
    return found


def _clients(model: Model) -> Iterator[httpx2.AsyncClient]:
    """The HTTP clients below a model, however many wrappers are around it."""
    inner: list[Any] = [*getattr(model, "models", ())]
    if isinstance(model, WrapperModel):
        inner.append(model.wrapped)
    for other in inner:
        yield from _clients(other)
    provider: Any = getattr(model, "provider", None)
    for holder in (provider, model):
        client: Any = getattr(holder, "client", None)
        for candidate in (client, getattr(client, "_client", None)):
            if isinstance(candidate, httpx2.AsyncClient):
                yield candidate


def _watch_pool(pool: httpcore2.AsyncConnectionPool) -> None:
    _watch_below(pool)
    for connection in pool.connections:  # also those that were opened before anybody watched
        while connection is not None:
            _watch_below(connection)
            connection = getattr(connection, "_connection", None)


def _watch_below(user: Any) -> None:
    """Put what watches between this part of a pool and the network below it."""
    for name, watching in (("_network_backend", _Backend), ("_network_stream", _Stream)):
        below: Any = getattr(user, name, None)
        if below is not None and not isinstance(below, watching):
            setattr(user, name, watching(below))


class _Backend(httpcore2.AsyncNetworkBackend):
    """Opens connections as the one below it does, and knows their sockets."""

    def __init__(self, below: httpcore2.AsyncNetworkBackend) -> None:
        self._below = below

    async def connect_tcp(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._below.connect_tcp(*args, **kwargs))

    async def connect_unix_socket(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
        return _Stream(await self._below.connect_unix_socket(*args, **kwargs))

    async def sleep(self, seconds: float) -> None:
        await self._below.sleep(seconds)


class _Stream(httpcore2.AsyncNetworkStream):
    """A connection. Whoever reads or writes it is told, before, which socket that is, and it is
    theirs alone: whoever had it before may not shut it any more."""

    def __init__(self, below: httpcore2.AsyncNetworkStream) -> None:
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

    async def start_tls(self, *args: Any, **kwargs: Any) -> httpcore2.AsyncNetworkStream:
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
