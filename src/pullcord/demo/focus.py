"""What somebody wants to be looked at, read from their words: a region, and how many customers."""

import re
from dataclasses import dataclass, replace
from typing import Final

from pullcord.demo.customers import Customer, Region, at_risk

_REGIONS: Final[tuple[tuple[Region, str], ...]] = (
    ("EU", r"\bEU\b|[Ee]urope"),
    ("US", r"\bUSA?\b|\b[Aa]merica"),
    ("APAC", r"\b(?:APAC|apac)\b|\b[Aa]sia"),
    ("all", r"\b(?:all|every) (?:regions?|customers?)\b|\beverywhere\b|\bworldwide\b"),
)
_TOP: Final = re.compile(r"\btop (\d{1,2})\b", re.IGNORECASE)


@dataclass(frozen=True)
class Focus:
    """Which customers the work is about."""

    region: Region = "all"
    top: int = 0  # only so many of those at risk; 0: all of them

    def told(self, words: str) -> "Focus":
        """The same, but for what these words say otherwise. The last region in them counts."""
        found = self
        places = [
            (match.start(), region)
            for region, names in _REGIONS
            for match in re.finditer(names, words)
        ]
        if places:
            found = replace(found, region=max(places)[1])
        if top := _TOP.search(words):
            found = replace(found, top=int(top.group(1)))
        return found

    def understands(self, words: str) -> bool:
        """Whether these words have anything in them that changes what is looked at."""
        return self.told(words) != self or Focus().told(words) != Focus()

    def reply_to(self, words: str) -> str:
        """What to say to somebody who has just said this."""
        if self.understands(words):
            return f"Understood: {self.told(words).title} from here on."
        return (
            f"I heard “{words[:80]}”. I am only a script: I know regions (EU, US, APAC, all "
            "regions) and “top 3”, so I go on as before."
        )

    @property
    def title(self) -> str:
        where = "all regions" if self.region == "all" else self.region
        return f"{where}, top {self.top}" if self.top else where

    @property
    def at_risk(self) -> list[Customer]:
        return at_risk(self.region, top=self.top)
