"""What a run may use, and when it stops by itself: conditions, joined by `&`, `|` and `~`.

    runtime.start(agent, "…", limits=MaxSteps(40) | Spent(usd=2), on_exhausted="wrap_up")

They are asked before every step, count what the run and everybody who works for it has used, and
survive pause, crash and deploy. `on_exhausted`: `stop`, `wrap_up` (one last answer, without
tools) or `pause_and_ask` (the default: somebody raises the cap, or cancels).
"""

from pullcord.core.conditions import (
    CalledTool,
    Condition,
    Deadline,
    External,
    MaxSteps,
    MaxToolCalls,
    Never,
    NoOpenTools,
    Price,
    Said,
    Spent,
    Tokens,
    Used,
    When,
    WorkingTime,
)
from pullcord.core.limits import progress

__all__ = [
    "CalledTool",
    "Condition",
    "Deadline",
    "External",
    "MaxSteps",
    "MaxToolCalls",
    "Never",
    "NoOpenTools",
    "Price",
    "Said",
    "Spent",
    "Tokens",
    "Used",
    "When",
    "WorkingTime",
    "progress",
]
