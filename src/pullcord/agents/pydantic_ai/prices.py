"""What a request has cost: as the provider says it, or, of one that was cut, what is known."""

from typing import Final

from pydantic_ai.messages import ModelResponse
from pydantic_ai.usage import RequestUsage

from pullcord.core.events import Spent

_CHARS_PER_TOKEN: Final = 4


def spent_on(response: ModelResponse) -> Spent:
    """What a complete answer has cost. Where nobody knows the price it is unknown, not nothing."""
    usage = response.usage
    if not usage.has_values() or usage.unmeasured_requests:
        return Spent()
    try:
        price = response.cost().total_price
    except (LookupError, ValueError, AssertionError):
        cost = None
    else:
        cost = round(price * 1_000_000)
    return Spent(cost_usd_micros=cost, tokens_in=usage.input_tokens, tokens_out=usage.output_tokens)


def spent_so_far(usage: RequestUsage, chars: int) -> Spent:
    """What is known while an answer comes: some providers say at once what was read, none what
    it costs. What was written so far is counted in characters."""
    return Spent(
        tokens_in=usage.input_tokens or None,
        tokens_out=usage.output_tokens or -(-chars // _CHARS_PER_TOKEN),
        estimated=True,
    )
