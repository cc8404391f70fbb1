"""A `pydantic_ai.Agent` as an agent of ours: entered, stopped and taken up again like any other.

There is no replay. A run that is taken up goes on from its stored messages with its last request:
answered from the journal if the answer is there, and then only the calls without an outcome are
made.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

from pydantic_ai import messages as m
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.models import ModelRequestParameters, infer_model
from pydantic_ai.usage import RunUsage, UsageLimits
from pydantic_core import to_jsonable_python

from pullcord import Context
from pullcord.adapters import AgentRun, Conversation, Listing, known_before
from pullcord.agents.pydantic_ai.capability import CordCapability
from pullcord.agents.pydantic_ai.dialect import DIALECT, as_prompt
from pullcord.agents.pydantic_ai.listing import listing_of
from pullcord.agents.pydantic_ai.messages import MESSAGES, Messages, mended
from pullcord.agents.pydantic_ai.prices import price_of
from pullcord.agents.pydantic_ai.watched_model import WatchedModel

_log: Final = logging.getLogger("pullcord.agents")
_OURS: Final = UsageLimits(request_limit=None)  # the limits of the run count every request


class PydanticAgent:
    """What is entered when a run of such an agent is; also to say more about it than it does.

    continues: how an answer goes on that a pause has cut. By default its words are in the next
        request, and the model is asked to go on from there. True: its provider goes on by itself
        with an answer that ends in its own words. False: it is asked again. usage_limits: as in
        its own `run`; they count over all lives of a run.
    """

    def __init__(
        self,
        agent: AbstractAgent[Any, Any],
        *,
        continues: bool | None = None,
        usage_limits: UsageLimits | None = None,
    ) -> None:
        self.agent, self.continues, self.usage_limits = agent, continues, usage_limits

    @property
    def name(self) -> str:
        return self.agent.name or "agent"

    def is_priced(self, model: str) -> bool:
        wanted = model or self.agent.model
        return wanted is not None and price_of(infer_model(wanted)) is not None

    @property
    def wants_input(self) -> bool:
        return True

    def tools(self) -> Listing:
        return listing_of(self.agent.toolsets)

    async def enter(self, ctx: Context, given: Any) -> Any:
        run = AgentRun(ctx)
        if isinstance(given, dict) and "messages" in given:  # a conversation from elsewhere
            known = mended(MESSAGES.validate_python(given["messages"]))
        else:
            known = await known_before(run, DIALECT)
        talk = Conversation(run, DIALECT, known)
        async with _opened(self.agent, run):
            return await _Turn(self, run, talk).carry_out(given)


@asynccontextmanager
async def _opened(agent: AbstractAgent[Any, Any], run: AgentRun) -> AsyncGenerator[None]:
    """What the agent's toolsets hold (the processes of servers, connections) is there while inside.

    One task of its own opens and closes it: this one may be cut anywhere, and nobody has to wait
    for a server that is slow to end, but the runtime when it closes.
    """
    ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    is_over = asyncio.Event()

    async def keep() -> None:
        try:
            async with agent:
                if not ready.done():
                    ready.set_result(None)
                await is_over.wait()
        except Exception as error:
            if not ready.done():
                ready.set_exception(error)
            else:
                _log.warning("The toolsets of %s did not close well: %r", agent.name, error)

    run.in_background(keep())
    try:
        await ready
        yield
    finally:
        is_over.set()


class _Turn:
    """A run of the agent, in as many pieces as people interrupt it into."""

    def __init__(
        self, body: PydanticAgent, run: AgentRun, talk: Conversation[m.ModelMessage]
    ) -> None:
        self._body, self._run, self._talk = body, run, talk

    async def carry_out(self, given: Any) -> Any:
        return await self._talk.goes_on(
            self._piece,
            prompt=as_prompt(given),
            last_word=lambda: wrap_up(self._body.agent, self._run, self._talk, given),
        )

    async def _piece(self, prompt: Any, history: Messages) -> tuple[Messages, Any]:
        """Have the agent go on until it is done, or somebody says something new."""
        run, cost = self._run, self._run.cost
        cord = CordCapability(
            run=run, talk=self._talk, continues=self._body.continues, is_aside=run.is_aside
        )
        result = await self._body.agent.run(
            prompt or None,
            message_history=history or None,
            deps=run.ctx.deps,
            capabilities=[cord],
            model=run.model or None,
            usage_limits=self._body.usage_limits or _OURS,
            usage=RunUsage(
                requests=self._talk.answered,
                input_tokens=cost.tokens_in,
                output_tokens=cost.tokens_out,
            ),
        )
        return result.all_messages(), to_jsonable_python(result.output, fallback=repr)


async def wrap_up(
    agent: AbstractAgent[Any, Any],
    run: AgentRun,
    talk: Conversation[m.ModelMessage],
    given: Any,
) -> str:
    """Have the model say what there is. The journal lets this one request begin, and no other."""
    messages = _instructed(await talk.for_last_word(given))
    model = infer_model(run.model or agent.model or "")
    watched = WatchedModel(model, run, talk, lambda: messages, wraps_up=True)
    answer = await watched.request(messages, None, ModelRequestParameters())
    return answer.text or ""


def _instructed(messages: Messages) -> Messages:
    """The same, with the instructions of the request before in the last one too."""
    asked = [one for one in messages if isinstance(one, m.ModelRequest)]
    last = messages[-1]
    if len(asked) < 2 or not isinstance(last, m.ModelRequest) or last.instructions is not None:
        return messages
    return [*messages[:-1], replace(last, instructions=asked[-2].instructions)]
