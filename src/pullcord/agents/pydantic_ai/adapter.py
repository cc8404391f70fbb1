"""A `pydantic_ai.Agent` as an agent of ours: entered, stopped and taken up again like any other.

There is no replay. A run that is taken up goes on from its stored messages with its last request:
answered from the journal if the answer is there, and then only the calls without an outcome are
made.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final

from pydantic_ai import messages as m
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.models import infer_model
from pydantic_ai.usage import RunUsage, UsageLimits
from pydantic_core import to_jsonable_python

from pullcord.agents.pydantic_ai.conversation import (
    Conversation,
    as_prompt,
    before,
    end_after,
    retold,
)
from pullcord.agents.pydantic_ai.cord import Cord
from pullcord.agents.pydantic_ai.listing import listing_of
from pullcord.agents.pydantic_ai.messages import Messages, delta, mended, sealed_messages
from pullcord.agents.pydantic_ai.prices import price_of
from pullcord.agents.pydantic_ai.wrapping import wrap_up
from pullcord.core.events import Remembered
from pullcord.core.limits import DEFAULT_OF_MODELS, Limits
from pullcord.errors import OutOfLimits
from pullcord.journal.store import joined
from pullcord.runtime.context import Context
from pullcord.runtime.driver import Driver
from pullcord.runtime.modelling import Told, is_told
from pullcord.runtime.policy_names import Listing
from pullcord.runtime.site import Site

_log: Final = logging.getLogger("pullcord.agents")
_OURS: Final = UsageLimits(request_limit=None)  # the limits of the run count every request
_CUT = "[Your answer above was cut off here: the user has something to say.]"
_ASIDE = (
    "[This is a side question about the work above, which it does not change. "
    "Answer it from what is known so far; nothing is done for it. End by saying in one sentence "
    "how far that work has got.]"
)


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

    @property
    def limits(self) -> Limits:
        return DEFAULT_OF_MODELS

    def is_priced(self, model: str) -> bool:
        wanted = model or self.agent.model
        return wanted is not None and price_of(infer_model(wanted)) is not None

    @property
    def wants_input(self) -> bool:
        return True

    def tools(self) -> Listing:
        return listing_of(self.agent.toolsets)

    async def enter(self, ctx: Context, given: Any) -> Any:
        driver = ctx.driver
        for past in driver.memory.steps.values():
            past.is_met = True  # it goes on from what was said, and does not come by here again
        talk = Conversation(driver, await _known_before(driver, given))
        async with _opened(self.agent, driver.site):
            return await _Turn(self, ctx, driver, talk).carry_out(given)


@asynccontextmanager
async def _opened(agent: AbstractAgent[Any, Any], site: Site) -> AsyncGenerator[None]:
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

    site.waits_for(asyncio.create_task(keep()))
    try:
        await ready
        yield
    finally:
        is_over.set()


class _Turn:
    """A run of the agent, in as many pieces as people interrupt it into."""

    def __init__(
        self, body: PydanticAgent, ctx: Context, driver: Driver, talk: Conversation
    ) -> None:
        self._body, self._ctx, self._driver, self._talk = body, ctx, driver, talk
        self._is_aside = driver.memory.is_aside

    async def carry_out(self, given: Any) -> Any:
        history: Messages = list(self._talk.known)
        prompt: Any = None if self._talk.has_begun else self._first_prompt(given)
        while True:
            try:
                if self._driver.run.reached is not None:  # in an earlier life
                    return await wrap_up(self._body.agent, self._driver, self._talk, given)
                result = await self._piece(prompt, history)
            except OutOfLimits:
                continue
            except Told as told:
                history = self._talk.so_far
                prompt = None
                if told.shown:
                    history.append(m.ModelResponse([m.TextPart(told.shown)], state="interrupted"))
                    prompt = [_CUT, *self._talk.told()]
                continue
            history = result.all_messages()
            if not is_told(self._driver.run):
                await self._remember_the_end(history)
                return to_jsonable_python(result.output, fallback=repr)
            prompt = self._talk.told()

    def _first_prompt(self, given: Any) -> Any:
        prompt = as_prompt(given)
        if not self._is_aside:
            return prompt
        return [_ASIDE, *([prompt] if isinstance(prompt, str) else prompt)]

    async def _piece(self, prompt: Any, history: Messages) -> Any:
        """Have the agent go on until it is done, or somebody says something new."""
        cord = Cord(
            ctx=self._ctx,
            driver=self._driver,
            talk=self._talk,
            continues=self._body.continues,
            is_aside=self._is_aside,
        )
        cost = self._driver.run.cost
        return await self._body.agent.run(
            prompt or None,
            message_history=history or None,
            deps=self._ctx.deps,
            capabilities=[cord],
            model=self._driver.memory.model or None,
            usage_limits=self._body.usage_limits or _OURS,
            usage=RunUsage(
                requests=self._talk.answered,
                input_tokens=cost.tokens_in,
                output_tokens=cost.tokens_out,
            ),
        )

    async def _remember_the_end(self, messages: Messages) -> None:
        """The results of the last calls are in no request any more."""
        end = end_after(self._talk.number)
        if end in self._driver.memory.own_values:
            return
        new = delta(self._talk.known, sealed_messages(messages, self._driver.site.secrets))
        await self._driver.begin(Remembered(key=end, value=new))


async def _known_before(driver: Driver, given: Any) -> Messages:
    run, journal = driver.run, driver.site.journal
    if isinstance(given, dict) and "messages" in given:  # a conversation from elsewhere
        return mended(m.ModelMessagesTypeAdapter.validate_python(given["messages"]))
    if run.parent is not None:
        return []
    known = await before(journal, run)
    if driver.memory.is_aside and run.forked_from is not None:
        records = await journal.read(run.forked_from, limit=run.forked_at)
        saying = joined(await journal.live_text(run.forked_from))
        return mended(retold(known, records, live=saying))
    return known
