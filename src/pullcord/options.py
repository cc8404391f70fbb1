"""What `pullcord.open` takes beside a path: agents, timing, secrets and a clock."""

from pullcord.core.text.secrets import Kept
from pullcord.journal.clock import BootTime, Clock, SystemClock
from pullcord.runtime.agents import AgentConfig, Foreign
from pullcord.runtime.services import Timing

__all__ = [
    "AgentConfig",
    "BootTime",
    "Clock",
    "Foreign",
    "Kept",
    "SystemClock",
    "Timing",
]
