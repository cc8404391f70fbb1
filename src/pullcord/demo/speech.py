"""How the demo speaks: word by word, at a price that is made up so that there is one to see."""

import re
from collections.abc import Iterator
from typing import Final

from pullcord.limits import Price

WORD_S: Final = 0.025  # forty a second
PRICE: Final = Price(15.0, 75.0)  # US dollars for a million tokens, read and written


def spoken(text: str) -> Iterator[str]:
    """The text word by word, with the space behind each."""
    return (match.group() for match in re.finditer(r"\s*\S+\s*", text))


def tokens(text: str) -> int:
    """How many tokens a text is, as far as anybody can tell from its length."""
    return -(-len(text) // 4)
