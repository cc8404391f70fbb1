"""Numbers in words. The same on every surface."""

from typing import Final

from pullcord.core.panel import Panel

EFFECT: Final = {"none": "only reads", "idempotent": "safe to repeat", "once": "acts once"}
STOPS: Final = {
    "loop": "stops when cancelled",
    "process": "own process, can be killed",
    "thread": "in a thread, cannot be stopped",
    "remote": "elsewhere, can only be asked to stop",
}
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


def clock(ms: float) -> str:
    """00:42, or 1:02:03 from an hour on."""
    seconds = max(int(ms), 0) // 1000
    hours, minutes = divmod(seconds // 60, 60)
    return f"{hours}:{minutes:02}:{seconds % 60:02}" if hours else f"{minutes:02}:{seconds % 60:02}"


def left(ms: float) -> str:
    """What is left of a time: in days as long as it is days."""
    hours = ms // 3_600_000
    return clock(ms) if hours < 48 else f"{hours // 24:.0f} days"


def duration(ms: int) -> str:
    """340 ms, 4.2 s, 03:10"""
    if ms < 1000:
        return f"{max(ms, 0)} ms"
    return f"{ms / 1000:.1f} s" if ms < 60_000 else clock(ms)


def dollars(micros: int) -> str:
    digits = 4 if 0 < micros < 10_000 else 2  # a tenth of a cent is not nothing
    return f"${micros / 1e6:.{digits}f}"


def count(number: int, one: str) -> str:
    return f"{number:,} {one}" if number == 1 else f"{number:,} {one}s"


def elapsed(panel: Panel, which: str, since_ms: float) -> float:
    """How long it has been working (or waiting …) by now; `since_ms`: since the panel came."""
    return panel.times[which] + (since_ms if panel.ticking == which else 0)


def wants(panel: Panel) -> str:
    """What it needs somebody for, if it does."""
    words = [f"{panel.wants} to answer"] if panel.wants else []
    words += [f"{panel.attention} to look at"] if panel.attention else []
    return ", ".join(words) or ("a limit to raise" if panel.raise_ else "")
