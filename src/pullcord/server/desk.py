"""What the handlers of all routes work with."""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple, Protocol

from starlette.requests import Request

from pullcord.journal.clock import Clock
from pullcord.journal.journal import Journal
from pullcord.runtime.agents import Agent
from pullcord.runtime.handle import RunHandle
from pullcord.server.bounds import Bounds
from pullcord.server.hub import Hub
from pullcord.server.keeper import Keeper


class Runs(Protocol):
    """What the server needs of a runtime. One whose agents are driven elsewhere will do."""

    journal: Journal
    clock: Clock

    @property
    def agents(self) -> "dict[str, Agent]": ...
    async def start(self, agent: Any, given: Any = None, **how: Any) -> RunHandle: ...
    async def fork(self, run_id: str, *, by: str, **how: Any) -> RunHandle: ...
    async def get(self, run_id: str) -> RunHandle: ...


class Desk(NamedTuple):
    runs: Runs
    hub: Hub
    bounds: Bounds
    keeper: Keeper | None
    still: Callable[[Request], Awaitable[bool]]
