"""A key that has to be pressed a second time, and what that would do."""

from collections.abc import Callable
from typing import Final, NamedTuple

from pullcord.cli.live_text import clip
from pullcord.cli.words import coloured

AGAIN_S: Final = 3.0


class Again(NamedTuple):
    """`action`: whose key it is; `key`: as it is written; `then`: what the second press does."""

    action: str
    key: str
    title: str
    says: str
    until_s: float
    then: Callable[[], None]

    def shown(self, columns: int, now_s: float) -> list[str]:
        left_s = max(self.until_s - now_s, 0)
        return [
            coloured(clip(f"{self.key} again within {left_s:.0f} s: {self.title}", columns), "1"),
            clip(f"  {self.says}", columns),
            coloured(clip("  any other key lets go", columns), "2"),
        ]
