"""Computes the cost of one model request: at most, so far, and in the end."""

from dataclasses import dataclass
from typing import Final

from pullcord.core.conditions import Price
from pullcord.core.events import Spent
from pullcord.core.limits import Reserve
from pullcord.core.values import Json

_CHARS_PER_TOKEN: Final = 4
_ANSWER_TOKENS: Final = 1024  # for an answer without a length limit: a long one


@dataclass(frozen=True)
class Meter:
    """Counts the tokens and the cost of one request.

    `to_read` is the estimated number of tokens that the model has to read. `price` is the price of
    tokens. Unknown figures stay unknown; they do not count as zero.
    """

    to_read: int
    price: Price | None = None

    @classmethod
    def of(cls, before: int, new: Json, price: Price | None) -> "Meter":
        """Return the meter of a request that adds `new`.

        The previous request read and wrote `before` tokens.
        """
        return cls(before + -(-len(bytes(new)) // _CHARS_PER_TOKEN), price)

    def reserve(self, most: int | None = None) -> Reserve:
        """Return the most that the request may cost, with an answer of `most` tokens."""
        written = most or _ANSWER_TOKENS
        micros = self.price.micros(self.to_read, written) if self.price else 0
        return Reserve(self.to_read + written, micros)

    def so_far(self, read: int = 0, written: int = 0, chars: int = 0) -> Spent:
        """Return the estimated cost while an answer comes.

        Some providers report at once what they read, and none reports a cost. The written tokens
        are estimated from `chars`.
        """
        read = read or self.to_read
        written = written or -(-chars // _CHARS_PER_TOKEN)
        return Spent(
            tokens_in=read or None,
            tokens_out=written,
            cost_usd_micros=self.price.micros(read, written) if self.price else None,
            estimated=True,
        )

    def spent(self, read: int, written: int, *, micros: int | None = None) -> Spent:
        """Return the cost of a complete answer.

        `micros`: its cost by a list of prices, in millionths of a dollar.
        """
        if micros is None and self.price:
            micros = self.price.micros(read, written)
        return Spent(cost_usd_micros=micros, tokens_in=read, tokens_out=written)
