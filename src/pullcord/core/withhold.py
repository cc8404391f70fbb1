"""What viewers see of a run; of a quarantined one: that it happened, and nothing of what was in it.

Never shown, of any run: what a guard has found, and what a model was asked. That has the system
prompt in it; the rest of it is in the run's other records.
"""

import msgspec

from pullcord.core.events import (
    Answered,
    AttentionRaised,
    CallRefused,
    Completed,
    Created,
    DoubtSettled,
    Event,
    Failed,
    GuardTripped,
    ItemRewritten,
    ItemStarted,
    LateResult,
    PlanItem,
    Planned,
    QuestionAsked,
    Redirected,
    Remembered,
    StepFailed,
    StepFinished,
    StepStarted,
    Stopped,
    TextEnded,
    UndoFailed,
    UndoStarted,
)
from pullcord.core.values import NULL


def as_viewed(event: Event, *, hide: bool) -> Event:
    """Return the event as viewers see it. `hide`: its run is quarantined."""
    match event:
        case GuardTripped():
            return msgspec.structs.replace(event, evidence="")
        case StepStarted(model=model) if model:
            return msgspec.structs.replace(event, args=NULL)
        case _:
            return withheld(event) if hide else event


def withheld(event: Event) -> Event:
    """Return the event without what was said, found or handed over in it."""
    match event:
        case TextEnded():
            return msgspec.structs.replace(event, text="")
        case GuardTripped():
            return msgspec.structs.replace(event, evidence="")
        case LateResult():
            return msgspec.structs.replace(event, result=NULL, error="")
        case StepFinished() | Completed() | DoubtSettled():
            return msgspec.structs.replace(event, result=NULL)
        case StepStarted():
            return msgspec.structs.replace(event, args=NULL)
        case Created():
            return msgspec.structs.replace(event, input=NULL)
        case Stopped():
            return msgspec.structs.replace(event, result=NULL, error="")
        case StepFailed() | Failed() | UndoStarted() | UndoFailed():
            return msgspec.structs.replace(event, error="")
        case Redirected():
            return msgspec.structs.replace(event, instruction="")
        case Planned():
            items = tuple(PlanItem(item.id, "") for item in event.items)
            return msgspec.structs.replace(event, items=items)
        case ItemRewritten():
            return msgspec.structs.replace(event, before="", after="")
        case ItemStarted():
            return msgspec.structs.replace(event, text="", told=())
        case CallRefused():
            return msgspec.structs.replace(event, why="")
        case AttentionRaised():
            return msgspec.structs.replace(event, text="")
        case Answered() | Remembered():
            return msgspec.structs.replace(event, value=NULL)
        case QuestionAsked():
            return msgspec.structs.replace(event, text="", details=NULL)
        case _:
            return event
