"""A server that stands alone, with agents of the tests, on a store and port it keeps."""

import asyncio
import socket
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

import pullcord
from pullcord import AgentConfig, RunHandle, Runtime, Timing
from pullcord.core.events import Event
from pullcord.runtime.agents import Foreign, Function
from pullcord.server.bounds import Bounds
from pullcord.server.credentials import Keeper
from pullcord.server.rights import Right
from pullcord.server.standalone import Standalone, listen
from tests.runs.observed_runs import happened

E = TypeVar("E", bound=Event)


class RestartableServer:
    """What the tests need of it: a way in, its runs, and to be shut down and opened again."""

    def __init__(
        self,
        path: Path,
        agents: Mapping[str, "AgentConfig | Function | Foreign"],
        timing: Timing | None,
        bounds: Bounds | None,
        origins: tuple[str, ...],
    ) -> None:
        self.path = path
        self.origins = origins
        self._agents, self._habits, self._bounds = agents, timing, bounds
        self._port = 0
        self._listening: socket.socket
        self._server: Standalone
        self.runtime: Runtime
        self.keeper: Keeper

    @property
    def base(self) -> str:
        return f"http://127.0.0.1:{self._port}/"

    def launch_link(self) -> str:
        """The part of it that comes after the address."""
        return f"#launch={self.keeper.launch()}"

    def share_link(self, run: RunHandle, right: Right) -> str:
        return f"#share={self._link(run, right)}"

    def token(self, right: Right = "admin") -> str:
        return self.keeper.give(kind="token", name="host", right=right, lasts_s=600)[1]

    def _link(self, run: RunHandle, right: Right) -> str:
        return self.keeper.give(kind="link", name="bo", right=right, run=run.id, lasts_s=600)[1]

    async def start(self, agent: str, given: Any = None, **how: Any) -> RunHandle:
        return await self.runtime.start(agent, given, by="ana", **how)

    async def newest(self) -> RunHandle:
        """The run that was started last, by whomever."""
        [newest] = await self.runtime.list(limit=1)
        return await self.runtime.get(newest.run_id)

    async def happened(self, run: RunHandle, kind: type[E]) -> list[E]:
        return await happened(self.runtime, run.id, kind)

    async def open(self) -> None:
        self.runtime = pullcord.open(self.path, agents=self._agents, timing=self._habits)
        await self.runtime.__aenter__()
        self._listening = listen("127.0.0.1", self._port)
        self._port = self._listening.getsockname()[1]
        self.keeper = Keeper(f"{self.path}.grants", name="ana", cookie=f"pullcord-{self._port}")
        self._server = Standalone(
            self.runtime,
            self._listening,
            keeper=self.keeper,
            hosts=[f"127.0.0.1:{self._port}"],
            origins=self.origins,
            bounds=self._bounds,
        )
        await self._server.start()

    async def close(self) -> None:
        await self._server.stop()
        self._listening.close()
        await self.runtime.__aexit__(None, None, None)


@asynccontextmanager
async def restartable_server(
    path: Path,
    *,
    timing: Timing | None = None,
    bounds: Bounds | None = None,
    origins: tuple[str, ...] = (),
    bound_s: float = 60,
    **agents: "AgentConfig | Function | Foreign",
) -> AsyncGenerator[RestartableServer]:
    """A server on loopback that drives these agents. A wait that does not end fails the test."""
    here = RestartableServer(path / "runs.db", agents, timing, bounds, origins)
    async with asyncio.timeout(bound_s):
        await here.open()
        try:
            yield here
        finally:
            await here.close()
