"""What is known of the price of a request, and of what it has cost."""

from collections.abc import Sequence
from decimal import Decimal
from functools import cache
from typing import Final

from pydantic_ai.messages import ModelMessage, ModelResponse
from pydantic_ai.models import Model
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.usage import RequestUsage

from pullcord.adapters import Meter
from pullcord.events import Spent
from pullcord.limits import Price

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
    answer = ModelResponse([], usage=usage, model_name=model, provider_name=provider)
    cost = _listed_cost(answer)
    return None if cost is None else float(cost)


def _listed_cost(answer: ModelResponse) -> Decimal | None:
    try:
        return answer.cost().total_price
    except (LookupError, ValueError, AssertionError):
        return None


def tokens_before(messages: Sequence[ModelMessage]) -> int:
    """How many tokens the last request is known to have read and written."""
    answers = (one for one in reversed(messages) if isinstance(one, ModelResponse))
    last = next(answers, None)
    return last.usage.input_tokens + last.usage.output_tokens if last else 0


def spent_on(response: ModelResponse, meter: Meter) -> Spent:
    """What a complete answer has cost. Where nobody knows the price it is unknown, not nothing."""
    usage = response.usage
    if not usage.has_values() or usage.unmeasured_requests:
        return Spent()
    listed = _listed_cost(response)
    micros = None if listed is None else round(listed * _MILLION)
    return meter.spent(usage.input_tokens, usage.output_tokens, micros=micros)
