"""A connect that hangs, for what happens before there is a connection at all."""

from __future__ import annotations

import socket
from typing import cast


class NeverAccepts:
    """An address at which connecting hangs: the queue of its listening socket is full (Linux)."""

    def __init__(self) -> None:
        self._listener = socket.socket()
        self._filling: list[socket.socket] = []

    def __enter__(self) -> str:
        self._listener.bind(("127.0.0.1", 0))
        self._listener.listen(0)
        address = cast(tuple[str, int], self._listener.getsockname())
        for _ in range(4):
            one = socket.socket()
            one.setblocking(False)
            one.connect_ex(address)
            self._filling.append(one)
        return f"http://127.0.0.1:{address[1]}"

    def __exit__(self, *_: object) -> None:
        for one in (*self._filling, self._listener):
            one.close()
