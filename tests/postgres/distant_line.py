"""A line to the tests' server that takes its time, as one to another rack or zone does, and counts
how often somebody asked and waited. `python -m tests.postgres.distant_line SOCKET FOLDER MS` is one
in a process of its own."""

import select
import socket
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final
from urllib.parse import quote

from tests.postgres.server import Server

NAME: Final = ".s.PGSQL.5432"
_BYTES: Final = 256 * 1024


class Exchanges:
    """Counts the ways to the server and back, over all connections: what ends with a message that
    has the server answer and be ready for more (`Query` or `Sync`)."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    def counter(self) -> Callable[[bytes], None]:
        """Return what is to be handed everything that a client says on one connection."""
        said, is_begun = bytearray(), False

        def hears(data: bytes) -> None:
            nonlocal is_begun
            said.extend(data)
            while len(said) > 4:
                kind, at = (said[:1], 1) if is_begun else (b"", 0)  # the first one has no kind
                size = at + int.from_bytes(said[at : at + 4], "big")
                if len(said) < size:
                    return
                del said[:size]
                is_begun = True
                if bytes(kind) in (b"Q", b"S"):
                    with self._lock:
                        self.count += 1

        return hears


class DistantLine:
    """Listens in `folder` and passes on to the server's socket, later by half of `round_trip_s`."""

    def __init__(self, server: Path, folder: Path, round_trip_s: float) -> None:
        self._server, self._half_s = str(server), round_trip_s / 2
        self._folder = folder
        self.exchanges = Exchanges()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(str(folder / NAME))
        self._listening.listen(64)
        threading.Thread(target=self._accept, daemon=True).start()

    def behind(self, url: str) -> str:
        """The URL of a store, along this line."""
        near, far = (
            quote(str(Path(self._server).parent), safe=""),
            quote(str(self._folder), safe=""),
        )
        return url.replace(near, far)

    def close(self) -> None:
        self._listening.close()

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                near, _ = self._listening.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._server)
                self._connect(near, far)

    def _connect(self, near: socket.socket, far: socket.socket) -> None:
        """Each direction has a thread."""
        for words in ((near, far, self.exchanges.counter()), (far, near, len)):
            threading.Thread(target=self._pass_on, args=words, daemon=True).start()

    def _pass_on(
        self, heard: socket.socket, said: socket.socket, hears: Callable[[bytes], object]
    ) -> None:
        late: deque[tuple[float, bytes]] = deque()
        with suppress(OSError):
            while True:
                left_s = late[0][0] - time.monotonic() if late else None
                if left_s is not None and left_s <= 0:
                    said.sendall(late.popleft()[1])
                    continue
                if not select.select([heard], [], [], left_s)[0]:
                    continue
                if not (data := heard.recv(_BYTES)):
                    break
                hears(data)
                late.append((time.monotonic() + self._half_s, data))
        for end in (heard, said):
            with suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
        heard.close()  # the other direction closes the other one


@contextmanager
def distant_line(server: Server, folder: Path, round_trip_s: float) -> Generator[DistantLine]:
    folder.mkdir()
    line = DistantLine(server.socket / NAME, folder, round_trip_s)
    try:
        yield line
    finally:
        line.close()


if __name__ == "__main__":
    DistantLine(Path(sys.argv[1]) / NAME, Path(sys.argv[2]), float(sys.argv[3]) / 1000)
    print("ready", flush=True)
    sys.stdin.read()  # until whoever started it closes it
