"""For tests, ours and yours: a clock you move, crashes you place, schedules you can replay.

ManualClock          time that stands still until told otherwise
CrashingJournal      a journal whose process dies at the n-th write
crash_points         a real process killed before, inside and after every write, on a real file
at_every_checkpoint  a run paused at each of its durable boundaries in turn
explore              every order in which outside events can reach an event loop
CONTRACT             what every store must do; run it against your own
"""

from pullcord.testing.checkpoints import at_every_checkpoint
from pullcord.testing.clock import ManualClock
from pullcord.testing.crashing import CrashingJournal, CrashReport, crash_points
from pullcord.testing.journal_contract import CONTRACT
from pullcord.testing.schedules import ScheduleLoop, SteppedWriter, explore, explore_random

__all__ = [
    "CONTRACT",
    "CrashReport",
    "CrashingJournal",
    "ManualClock",
    "ScheduleLoop",
    "SteppedWriter",
    "at_every_checkpoint",
    "crash_points",
    "explore",
    "explore_random",
]
