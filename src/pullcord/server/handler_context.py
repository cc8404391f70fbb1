"""What the handlers of all routes work with."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple, Protocol

from starlette.requests import Request

from pullcord.journal.clock import Clock
from pullcord.journal.journal import Journal
from pullcord.runtime.agents import AgentConfig
from pullcord.runtime.handle import RunHandle
from pullcord.server.bounds import Bounds
from pullcord.server.credentials import Keeper
from pullcord.server.hub import Hub


class Runs(Protocol):
    """What the server needs of a runtime. One whose agents are driven elsewhere will do."""

    @property
    def journal(self) -> Journal: ...
    @property
    def clock(self) -> Clock: ...
    @property
    def agents(self) -> "dict[str, AgentConfig]": ...
    @property
    def start(self) -> Callable[..., Awaitable[RunHandle]]: ...
    @property
    def fork(self) -> Callable[..., Awaitable[RunHandle]]: ...
    async def get(self, run_id: str) -> RunHandle: ...


class HandlerContext(NamedTuple):
    runs: Runs
    hub: Hub
    bounds: Bounds
    keeper: Keeper | None
    still: Callable[[Request], Awaitable[bool]]
