"""A line to the fake provider: an agent under the cord, and what is seen at both ends of it."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic_ai import Agent
from pydantic_ai.models import Model

from pullcord import RunHandle, Runtime
from pullcord.journal.store import joined
from pullcord.testing import ManualClock
from tests.agents.provider.dialect_models import model_for
from tests.agents.provider.dialects import Dialect
from tests.agents.provider.fake import FakeProvider
from tests.agents.provider.reply import Reply, say
from tests.agents.scripted_agents import runtime_of
from tests.runs.tool_maker import until


class Line:
    """A runtime with one agent, `talker`, whose model is at the provider."""

    def __init__(
        self,
        dialect: Dialect,
        provider: FakeProvider,
        model: Model,
        tools: Sequence[Any],
        wrap: Callable[[Model], Model] | None,
    ) -> None:
        self.dialect, self.provider, self.model = dialect, provider, model
        wrapped = wrap(model) if wrap else model
        self.agent: Agent[Any, Any] = Agent(wrapped, tools=list(tools), name="talker")
        self.runtime: Runtime

    async def start(self, prompt: str = "go", thread: str = "t1") -> RunHandle:
        return await self.runtime.start(self.agent, prompt, thread=thread)

    async def shown(self, run: RunHandle) -> str:
        """What the journal has accepted and not closed yet."""
        return "".join(joined(await self.runtime.journal.live_text.unended(run.id)).values())

    async def is_still_usable(self, thread: str = "t1") -> None:
        """The next turn on the thread is taken by a provider that is strict."""
        self.provider.script = [say("And on.")]
        run = await self.start("and now?", thread=thread)
        assert await run.result() == "And on."
        assert self.provider.violations == []

    @property
    def pool(self) -> Any:
        """The connection pool of the model's client."""
        return pool_of(self.model)

    async def is_quiet(self) -> None:
        """Wait until no request is in the pool and no connection is in use."""
        pool = self.pool
        await until(lambda: not pool._requests and all(one.is_idle() for one in pool._connections))


def pool_of(model: Model) -> Any:
    client: Any = getattr(model, "client")  # noqa: B009 (each dialect's model has one)
    return client._client._transport._pool


@asynccontextmanager
async def line(
    dialect: Dialect,
    *script: Reply,
    path: Path | str = ":memory:",
    tools: Sequence[Any] = (),
    max_retries: int = 2,
    connections: int = 100,
    wrap: Callable[[Model], Model] | None = None,
    **more: Any,
) -> AsyncGenerator[Line]:
    """An agent that talks to a provider with this script. Its client's own retries stand at what
    they are by default: they must not happen."""
    with FakeProvider() as provider:
        provider.script = list(script)
        url = provider.url(dialect)
        async with model_for(dialect, url, max_retries=max_retries) as model:
            pool_of(model)._max_connections = connections
            here = Line(dialect, provider, model, tools, wrap)
            async with runtime_of(here.agent, path, **more) as here.runtime:
                yield here


class Patience(ManualClock):
    """Stands still, and knows which waits were asked of it; those it was told to skip are over at
    once."""

    def __init__(self, *, skips: Sequence[float] = ()) -> None:
        super().__init__()
        self.asked: list[float] = []
        self._skips = skips
        self._news = asyncio.Event()

    def after(self, seconds: float, ring: Callable[[], object]) -> Callable[[], object]:
        self.asked.append(seconds)
        self._news.set()
        if seconds in self._skips:
            return asyncio.get_running_loop().call_soon(ring).cancel
        return super().after(seconds, ring)

    async def is_asked_for(self, seconds: float) -> None:
        """Wait until somebody wants to be woken after so long."""
        while seconds not in self.asked:
            self._news.clear()
            await self._news.wait()


BACKOFF: Sequence[float] = (0.5, 1.0, 2.0)
