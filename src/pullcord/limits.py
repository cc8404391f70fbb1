"""What a run may use, and when it stops by itself: conditions, joined by `&`, `|` and `~`.

    runtime.start(agent, "…", limits=MaxSteps(40) | Spent(usd=2), on_exhausted="wrap_up")

They are asked before every step, count what the run and everybody who works for it has used, and
survive pause, crash and deploy. `on_exhausted`: `stop`, `wrap_up` (one last answer, without
tools) or `pause_and_ask` (the default: somebody raises the cap, or cancels).
"""

from pullcord.core.conditions import (
    AllOf,
    AnyOf,
    CalledTool,
    Condition,
    Deadline,
    External,
    Facts,
    MaxSteps,
    MaxToolCalls,
    Never,
    NoOpenTools,
    Not,
    Price,
    Said,
    Spent,
    Tokens,
    Used,
    When,
    WorkingTime,
)
from pullcord.core.limits import Limits, Reached, Reserve, progress

__all__ = [
    "AllOf",
    "AnyOf",
    "CalledTool",
    "Condition",
    "Deadline",
    "External",
    "Facts",
    "Limits",
    "MaxSteps",
    "MaxToolCalls",
    "Never",
    "NoOpenTools",
    "Not",
    "Price",
    "Reached",
    "Reserve",
    "Said",
    "Spent",
    "Tokens",
    "Used",
    "When",
    "WorkingTime",
    "progress",
]
