"""Where the store is, and how its actors are cut off from it: SQLite, or PostgreSQL behind a proxy.

A file is cut off for everybody at once, by a write lock that is held. For PostgreSQL every actor
has an address of its own on the loopback, so that one can be cut off and the others not.
"""

import asyncio
import os
import socket
import threading
from collections.abc import Awaitable, Callable, Coroutine
from pathlib import Path
from typing import Any, Final, Literal, Protocol

import apsw

from tests.postgres.server import Server, a_server

State = Literal["open", "stalled", "cut"]
_TAKE: Final = 64 * 1024


class Place(Protocol):
    """A store that processes open by an address of their own."""

    kind: str

    def address(self, who: int = 0) -> str:
        """The store for this actor; 0: for whoever is never cut off."""
        ...

    def away(self, who: int, how: State) -> None:
        """From now on this actor does not reach it; 0: nobody does, but for address 0."""
        ...

    def back(self) -> None:
        """Everybody reaches it again."""
        ...

    def is_held_by(self, pid: int) -> bool:
        """Whether nobody can write as long as this process stands still."""
        ...

    def close(self) -> None: ...


class File:
    kind = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._path = str(folder / "runs.db")
        self._lock: apsw.Connection | None = None

    def address(self, who: int = 0) -> str:
        return self._path

    def away(self, who: int, how: State) -> None:
        """Nobody can write: another program holds the lock."""
        if self._lock is None:
            self._lock = apsw.Connection(self._path)
            self._lock.set_busy_timeout(10_000)
            self._lock.execute("BEGIN IMMEDIATE")

    def back(self) -> None:
        if self._lock is not None:
            self._lock.execute("ROLLBACK")
            self._lock.close()
            self._lock = None

    def is_held_by(self, pid: int) -> bool:
        """It has the lock on the file, or stands in the turnstile before it."""
        turn = Path(f"{self._path}-side") / "turn"
        inodes = {str(os.stat(file).st_ino) for file in (self._path, f"{self._path}-shm", turn)}
        locks = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
        return any(
            lock[3] == "WRITE" and lock[4] == str(pid) and lock[5].rpartition(":")[2] in inodes
            for lock in locks
            if len(lock) == 8
        )

    def close(self) -> None:
        self.back()


class Database:
    kind = "postgres"

    def __init__(self, actors: int, server: Server | None = None) -> None:
        server = server or a_server()
        self._schema = server.url().rpartition("schema=")[2]
        self._proxy = Proxy(str(server.socket / ".s.PGSQL.5432"), actors)

    def address(self, who: int = 0) -> str:
        where = f"{self._proxy.host(who)}:{self._proxy.port}"
        return f"postgresql://pullcord@{where}/postgres?schema={self._schema}&sslmode=disable"

    def away(self, who: int, how: State) -> None:
        self._proxy.set(who, how)

    def back(self) -> None:
        self._proxy.set(0, "open")

    def is_held_by(self, pid: int) -> bool:
        return False  # the server ends who stands still in the middle of a write

    def close(self) -> None:
        self._proxy.close()


class Proxy:
    """Listens on 127.0.0.1 and on one more address per actor; in a thread of its own."""

    def __init__(self, target: str, actors: int) -> None:
        self._target, self._actors = target, actors
        self._states: dict[int, State] = dict.fromkeys(range(actors + 1), "open")
        self._gates: dict[int, asyncio.Event] = {}
        self._open: dict[int, set[asyncio.StreamWriter]] = {n: set() for n in self._states}
        self._listening = self._listen()
        self.port: int = self._listening[0].getsockname()[1]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self._there(self._serve())

    def host(self, who: int) -> str:
        return f"127.0.0.{9 + who}" if who else "127.0.0.1"

    def _listen(self) -> list[socket.socket]:
        """The same port on every address: stores are known by it."""
        while True:
            made = [socket.create_server(("127.0.0.1", 0))]
            try:
                for who in range(1, self._actors + 1):
                    made.append(socket.create_server((self.host(who), made[0].getsockname()[1])))
            except OSError:  # taken, on one of them
                for one in made:
                    one.close()
            else:
                return made

    def set(self, who: int, how: State) -> None:
        self._there(self._set(who, how))

    def close(self) -> None:
        self._there(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _there(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(30)

    async def _serve(self) -> None:
        self._servers = list[asyncio.Server]()
        for who, one in enumerate(self._listening):
            self._gates[who] = asyncio.Event()
            self._gates[who].set()
            self._servers.append(await asyncio.start_server(self._taker(who), sock=one))

    async def _set(self, who: int, how: State) -> None:
        for one in [who] if who else range(1, self._actors + 1):
            self._states[one] = how
            self._gates[one].clear() if how == "stalled" else self._gates[one].set()
            if how == "cut":
                for writer in list(self._open[one]):
                    writer.transport.abort()

    async def _end(self) -> None:
        for server in self._servers:
            server.close()
        for writers in self._open.values():
            for writer in list(writers):
                writer.transport.abort()
        await asyncio.sleep(0)
        mine = asyncio.current_task()
        for task in asyncio.all_tasks():
            if task is not mine:
                task.cancel()

    def _taker(
        self, who: int
    ) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]:
        async def take(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            if self._states[who] == "cut":
                writer.transport.abort()
                return
            try:
                there = await asyncio.open_unix_connection(self._target)
            except OSError:
                writer.transport.abort()
                return
            self._open[who] |= {writer, there[1]}
            ways = (self._pump(who, reader, there[1]), self._pump(who, there[0], writer))
            try:
                await asyncio.gather(*ways)
            except asyncio.CancelledError:
                pass  # the world ends
            finally:
                self._open[who] -= {writer, there[1]}
                for one in (writer, there[1]):
                    one.transport.abort()

        return take

    async def _pump(
        self, who: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        try:
            while data := await reader.read(_TAKE):
                await self._gates[who].wait()
                writer.write(data)
                await writer.drain()
            if writer.can_write_eof():
                writer.write_eof()
        except OSError:
            pass
        finally:
            writer.close()
