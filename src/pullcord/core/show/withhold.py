"""What viewers see of a run; of a quarantined one: that it happened, and nothing of what was in it.

Never shown, of any run: what a guard has found, and what a model was asked. That has the system
prompt in it; the rest of it is in the run's other records.
"""

from hashlib import sha256

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
    QuestionWithdrawn,
    Redirected,
    Released,
    Remembered,
    Renamed,
    StepFailed,
    StepFinished,
    StepInDoubt,
    StepStarted,
    Stopped,
    TextEnded,
    UndoFailed,
    UndoStarted,
)
from pullcord.core.stops import Act, StopAsked
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
        case LateResult(error=error):  # that it failed is no secret: it did not happen
            return msgspec.structs.replace(event, result=NULL, error=error and "(withheld)")
        case StepFinished() | Completed() | DoubtSettled():
            return msgspec.structs.replace(event, result=NULL)
        case StepStarted():
            return msgspec.structs.replace(event, args=NULL)
        case Created():
            return msgspec.structs.replace(event, input=NULL)
        case Stopped():
            return msgspec.structs.replace(event, result=NULL, error="")
        case StepFailed():
            return msgspec.structs.replace(event, error="", at="", traceback="")
        case Failed() | UndoStarted() | UndoFailed():
            return msgspec.structs.replace(event, error="")
        case Released(error=error) if error:  # that it could not be is no secret
            return msgspec.structs.replace(event, error="(withheld)")
        case Renamed():
            return msgspec.structs.replace(event, title="")
        case Redirected():
            return msgspec.structs.replace(event, instruction="")
        case Planned():
            items = tuple(PlanItem(item.id, "") for item in event.items)
            return msgspec.structs.replace(event, items=items)
        case ItemRewritten():
            return msgspec.structs.replace(event, before="", after="")
        case ItemStarted():
            return msgspec.structs.replace(event, text="", told=())
        case CallRefused() | StepInDoubt():
            return msgspec.structs.replace(event, why="")
        case AttentionRaised():
            return msgspec.structs.replace(event, text="")
        case Remembered():
            return msgspec.structs.replace(event, value=NULL)
        case Answered(question=question):
            return msgspec.structs.replace(event, question=_unnamed(question), value=NULL)
        case QuestionAsked(question=question):
            return msgspec.structs.replace(
                event, question=_unnamed(question), text="", details=NULL
            )
        case QuestionWithdrawn(question=question):
            return msgspec.structs.replace(event, question=_unnamed(question))
        case _:
            return event


def withheld_act(act: Act) -> Act:
    """Return an entry of the stop log without words that the run has said."""
    if not isinstance(act, StopAsked):
        return act
    return msgspec.structs.replace(act, questions=tuple(map(_unnamed, act.questions)))


def _unnamed(question: str) -> str:
    """A question's id begins with the words of what is asked: this only tells it from others."""
    return sha256(question.encode()).hexdigest()[:16]
