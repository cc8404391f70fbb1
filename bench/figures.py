"""What a benchmark reports: a figure, its target, and over how many samples."""

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Figure(NamedTuple):
    what: str
    value: float
    target: float
    unit: str
    over: str  # the denominator
    more_is_better: bool = False

    @property
    def reached(self) -> bool:
        return self.value >= self.target if self.more_is_better else self.value <= self.target

    def row(self) -> str:
        sign = "≥" if self.more_is_better else "≤"
        mark = "reached" if self.reached else "**not reached**"
        return (
            f"| {self.what} | {self.value:,.4g} {self.unit} | {sign} {self.target:,.4g} "
            f"{self.unit} | {self.over} | {mark} |"
        )


def p50(samples: Sequence[float]) -> float:
    return statistics.median(samples)


def p99(samples: Sequence[float]) -> float:
    return statistics.quantiles(samples, n=100)[98]
