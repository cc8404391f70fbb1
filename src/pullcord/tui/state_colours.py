"""What only a terminal shows: the colour of a state, and the numbers of a panel as they grow."""

from typing import Final

from pullcord.core.show.panel import Panel

ROLE: Final = {
    "running": "running",
    "pausing": "held",
    "paused": "held",
    "waiting": "waiting",
    "stopping": "held",
    "stopped": "held",
    "completed": "done",
    "failed": "failed",
}
"""The colour of each state that has one. Shape and word carry it; colour only helps."""


def elapsed(panel: Panel, which: str, since_ms: float) -> float:
    """How long it has been working (or waiting …) by now; `since_ms`: since the panel came."""
    return panel.times[which] + (since_ms if panel.ticking == which else 0)
