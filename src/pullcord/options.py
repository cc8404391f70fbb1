"""What `pullcord.open` takes beside a path: agents, timing, secrets and a clock."""

from pullcord.core.secrets import Kept
from pullcord.journal.clock import BootTime, Clock, SystemClock
from pullcord.runtime.agents import Agent, Foreign
from pullcord.runtime.site import Habits

__all__ = [
    "Agent",
    "BootTime",
    "Clock",
    "Foreign",
    "Habits",
    "Kept",
    "SystemClock",
]
