"""The last word of a run whose limits are reached: one request, without tools."""

from typing import Any, Final

from pydantic_ai import messages as m
from pydantic_ai.agent import AbstractAgent
from pydantic_ai.models import ModelRequestParameters, infer_model

from pullcord.agents.pydantic_ai.conversation import Conversation, as_prompt, before, retold
from pullcord.agents.pydantic_ai.messages import Messages, mended
from pullcord.agents.pydantic_ai.model import Watched
from pullcord.runtime.driver import Driver

_WRAP_UP: Final = (
    "[A limit of this task is reached: {reached}. Nothing more can be done, and no tool can be "
    "called. Say what was found and done so far, and what is missing.]"
)


async def wrap_up(
    agent: AbstractAgent[Any, Any], driver: Driver, talk: Conversation, given: Any
) -> str:
    """Have the model say what there is. The journal lets this one request begin, and no other."""
    assert driver.run.reached is not None
    messages = await _so_far(driver, given, talk)
    model = infer_model(driver.memory.model or agent.model or "")
    watched = Watched(model, driver, talk, lambda: messages, wraps_up=True)
    answer = await watched.request(messages, None, ModelRequestParameters())
    return answer.text or ""


async def _so_far(driver: Driver, given: Any, talk: Conversation) -> Messages:
    """The conversation as the journal has it, with the fate of every call, and the news."""
    limit = driver.run.reached
    assert limit is not None
    talk.is_taken_up = bool(limit.step)
    if limit.step:  # it was begun in an earlier life
        return list(talk.known)
    records = await driver.site.journal.read(driver.run.id)
    known = [] if driver.run.parent else await before(driver.site.journal, driver.run)
    messages = mended(retold(known, records))
    if not messages:
        messages.append(m.ModelRequest([m.UserPromptPart(as_prompt(given))]))
    asked = [one for one in messages if isinstance(one, m.ModelRequest)]
    news = m.UserPromptPart(_WRAP_UP.format(reached=", ".join(limit.leaves)))
    instructions = asked[-1].instructions if asked else None
    return [*messages, m.ModelRequest([news], instructions=instructions)]
