"""Promise: a cancel, a redirect or an immediate pause stops the model itself, on a real server:
it generates nothing more, whatever the dialect, streamed or not."""

from collections.abc import Iterator
from typing import Any, cast

import pytest
from pydantic_ai import Agent
from pydantic_ai.models import Model
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings

from pullcord import RunState
from tests.agents.provider.dialect_models import model_for
from tests.agents.provider.dialects import DIALECTS, Dialect
from tests.agents.provider.real import ENDLESS, RealServer
from tests.agents.scripted_agents import runtime_of


class Whole(WrapperModel):
    """A model whose provider gives its answers in one piece only."""

    request_stream = Model.request_stream


@pytest.fixture(scope="module")
def server() -> Iterator[RealServer]:
    with RealServer(endless=True) as one:
        yield one


async def _stop(run: Any, how: str) -> None:
    if how == "cancel":
        assert (await run.cancel(by="ana")).holds
    elif how == "redirect":
        assert (await run.redirect("something else", by="ana")).holds
    else:
        assert (await run.pause(now=True, by="ana")).holds


@pytest.mark.parametrize("how", ["cancel", "redirect", "pause now"])
@pytest.mark.parametrize("way", ["streamed", "whole"])
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_nothing_more_is_generated(
    server: RealServer, dialect: Dialect, way: str, how: str
) -> None:
    async with model_for(dialect, server.url(dialect)) as model:
        asked: Model = Whole(model) if way == "whole" else model
        agent = Agent(asked, model_settings=cast("ModelSettings", ENDLESS), name="endless")
        async with runtime_of(agent) as runtime:
            begun = len(server.tasks_begun())
            run = await runtime.start(agent, "go on for ever")
            await server.async_wait_busy()
            first = max(server.tasks_begun())
            await _stop(run, how)
            if how == "pause now":
                await run.wait_for(RunState.PAUSED)
            elif how == "cancel":
                assert (await run.receipt()).rung == "transport_closed"
            elif dialect != "responses":  # the first answer is cut, and another one begins
                # (the server's Responses API refuses any conversation with an answer in it)
                await server.async_wait_begun(begun + 2)
            await server.async_wait_ended(first)
            await run.cancel()
            await run.receipt()
            await server.async_wait_idle()
