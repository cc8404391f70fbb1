"""What a request has cost: as the provider says it, or, of one that was cut, what is known."""

from collections.abc import Sequence
from functools import cache
from typing import Final

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from pullcord.core.conditions import Price
from pullcord.core.events import Spent
from pullcord.core.limits import Reserve
from pullcord.core.values import Json

_CHARS_PER_TOKEN: Final = 4
_ANSWER_TOKENS: Final = 1024  # of an answer whose length nobody limits: a long one
_MILLION: Final = 1_000_000


def price_of(model: Model) -> Price | None:
    """What the list of prices that Pydantic AI brings knows of a model."""
    while isinstance(model, WrapperModel):
        model = model.wrapped
    return _listed(model.model_name, model.system)


@cache
def _listed(model: str, provider: str) -> Price | None:
    read = _cost_of(model, provider, RequestUsage(input_tokens=_MILLION))
    written = _cost_of(model, provider, RequestUsage(output_tokens=_MILLION))
    return None if read is None or written is None else Price(read, written)


def _cost_of(model: str, provider: str, usage: RequestUsage) -> float | None:
    try:
        answer = ModelResponse([], usage=usage, model_name=model, provider_name=provider)
        return float(answer.cost().total_price)
    except (LookupError, ValueError, AssertionError):
        return None


def tokens_to_read(messages: Sequence[ModelMessage], new: Json) -> int:
    """How much a request has to read, as far as that can be told: what the last one is known to
    have read and written, and what is new in this one."""
    answers = (one for one in reversed(messages) if isinstance(one, ModelResponse))
    last = next(answers, None)
    before = last.usage.input_tokens + last.usage.output_tokens if last else 0
    return before + -(-len(bytes(new)) // _CHARS_PER_TOKEN)


def reserve_for(read: int, settings: ModelSettings | None, price: Price | None) -> Reserve:
    """What a request may cost: what is read, and a long answer."""
    written = (settings or {}).get("max_tokens") or _ANSWER_TOKENS
    return Reserve(read + written, price.micros(read, written) if price else 0)


def spent_on(response: ModelResponse, price: Price | None) -> Spent:
    """What a complete answer has cost. Where nobody knows the price it is unknown, not nothing."""
    usage = response.usage
    if not usage.has_values() or usage.unmeasured_requests:
        return Spent()
    try:
        cost = round(response.cost().total_price * _MILLION)
    except (LookupError, ValueError, AssertionError):
        cost = price.micros(usage.input_tokens, usage.output_tokens) if price else None
    return Spent(cost_usd_micros=cost, tokens_in=usage.input_tokens, tokens_out=usage.output_tokens)


def spent_so_far(usage: RequestUsage, chars: int, to_read: int, price: Price | None) -> Spent:
    """What is known while an answer comes: some providers say at once what was read, none what
    it costs. What was written so far is counted in characters."""
    read = usage.input_tokens or to_read
    written = usage.output_tokens or -(-chars // _CHARS_PER_TOKEN)
    return Spent(
        tokens_in=read or None,
        tokens_out=written,
        cost_usd_micros=price.micros(read, written) if price else None,
        estimated=True,
    )
