"""A server that stands alone: in a thread of its own, beside the event loop that drives agents.

So that code which holds that loop cannot keep anybody from pressing a button.
"""

import asyncio
import resource
import socket
import threading
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

import uvicorn

from pullcord.journal.clock import Clock
from pullcord.journal.journal import Journal
from pullcord.runtime.agents import AgentConfig
from pullcord.runtime.handle import RunHandle
from pullcord.runtime.runtime import Runtime, worker_of
from pullcord.runtime.services import Timing
from pullcord.server.app import Server, app
from pullcord.server.bounds import Bounds
from pullcord.server.connections import Bounded
from pullcord.server.credentials import Keeper

T = TypeVar("T")
_GRACE_S = 1
_SHUTDOWN_S = 2
_UNTAKEN = 64 * 1024  # bytes (the kernel doubles it) that it keeps for a reader who is slow


class Beside:
    """A runtime, as another event loop uses it. Looking and controlling needs only the journal,
    which belongs to no loop; what begins a run is done where its agent will be driven."""

    def __init__(
        self, runtime: Runtime, home: asyncio.AbstractEventLoop, targets: Mapping[str, str]
    ) -> None:
        """`targets`: where each agent was loaded from, so that others can load it too."""
        self.journal: Journal = runtime.journal
        self.clock: Clock = runtime.clock
        self.timing: Timing = runtime.timing
        self._runtime = runtime
        self._home = home
        self._targets = targets

    @property
    def agents(self) -> dict[str, AgentConfig]:
        return self._runtime.agents

    async def start(self, agent: Any, input: Any = None, **how: Any) -> RunHandle:
        target = self._targets.get(agent)
        return self._mine(
            await self._there(self._runtime.start(agent, input, target=target, **how))
        )

    async def fork(self, run_id: str, **how: Any) -> RunHandle:
        return self._mine(await self._there(self._runtime.fork(run_id, **how)))

    async def get(self, run_id: str) -> RunHandle:
        await self.journal.head(run_id)
        return RunHandle(run_id, self.journal, self)

    async def let_go(self, run_id: str) -> None:
        await self._there(worker_of(self._runtime).let_go(run_id))

    async def _there(self, work: Coroutine[Any, Any, T]) -> T:
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._home))

    def _mine(self, theirs: RunHandle) -> RunHandle:
        return RunHandle(theirs.id, self.journal, self)


class Standalone:
    """A server on a socket, in its own thread. `stop()` takes at most about three seconds, with
    however many readers connected."""

    def __init__(
        self,
        runtime: Runtime,
        listening: socket.socket,
        *,
        keeper: Keeper,
        hosts: Iterable[str],
        origins: Iterable[str] = (),
        targets: Mapping[str, str] | None = None,
        bounds: Bounds | None = None,
    ) -> None:
        self._socket = listening
        self._bounds = bounds or Bounds()
        self._runs = Beside(runtime, asyncio.get_running_loop(), targets or {})
        self._given: Any = {"authorize": keeper, "hosts": list(hosts), "origins": list(origins)}
        self._app: Server | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._server: uvicorn.Server | None = None
        self._is_ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="pullcord-server", daemon=True)

    async def start(self) -> None:
        """Return when connections are accepted."""
        self._thread.start()
        await asyncio.to_thread(self._is_ready.wait)

    async def stop(self) -> None:
        """Let every reader go and stop. Runs are not touched."""
        if self._loop and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._end)
        await asyncio.to_thread(self._thread.join)

    def _end(self) -> None:
        if self._app:
            self._app.close()
        if self._server and self._loop:
            self._server.should_exit = True
            self._loop.call_later(_GRACE_S, self._cut_off)

    def _cut_off(self) -> None:
        """Those who have not taken that they are let go."""
        assert self._server
        for line in list(self._server.server_state.connections):
            if isinstance(line, Bounded):
                line.cut()

    def _serve(self) -> None:
        try:
            asyncio.run(self._serving())
        finally:
            self._is_ready.set()  # also if it could not be: nobody waits for it for ever

    async def _serving(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._app = app(self._runs, bounds=self._bounds, **self._given)
        protocol = type("Bounded", (Bounded,), {"bounds": _with_files_left(self._bounds)})
        self._server = uvicorn.Server(
            uvicorn.Config(
                self._app,
                http=protocol,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                proxy_headers=False,
                h11_max_incomplete_event_size=self._bounds.head,
                timeout_graceful_shutdown=_SHUTDOWN_S,
                backlog=2048,
            )
        )
        self._loop.call_soon(self._is_ready.set)
        await self._server.serve(sockets=[self._socket])


def _with_files_left(bounds: Bounds) -> Bounds:
    """Connections never take the last files that this process may open: agents need some."""
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return replace(bounds, connections=min(bounds.connections, files * 3 // 4))


def listen(host: str, port: int) -> socket.socket:
    """Return a listening socket. Port 0: any that is free."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    # By name: asyncio spares answers Nagle's delay (40 ms) only where it sees that this is TCP.
    made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _UNTAKEN)  # of every connection
        made.bind((host, port))
        made.listen(2048)
    except OSError:
        made.close()
        raise
    return made
