"""What happens to a run, as `run.events()` and its journal tell it: one class for each event.

    async for cursor, item in run.events():
        match item:
            case Record(event=StepFinished(step=step)):
                print("done:", step)
            case LiveText(text=text):
                print(text, end="")

A `Record` is an event in its place: whose it is, its number, and when it was written. `load`
returns a value that it keeps as JSON. `LiveText` is shown before it is recorded. `Cursor` says how
far a reader is; `run.events(after=cursor)` goes on from there. An event never changes. Later
versions add events, and fields with defaults.
"""

from pullcord.core import events as _happened
from pullcord.core.events import *  # noqa: F403 - what is listed there
from pullcord.core.values import load
from pullcord.journal.store import LiveText
from pullcord.journal.stored_runs.run_records import Cursor, Item

__all__ = ["Cursor", "Item", "LiveText", "load"]
__all__ += _happened.__all__
