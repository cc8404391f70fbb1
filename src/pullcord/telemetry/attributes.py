"""What is said of a record, in OpenTelemetry's words: names and attributes. No content."""

from collections.abc import Mapping
from typing import Final

from pullcord.core.events import (
    TAGS,
    Asked,
    CancelRequested,
    Event,
    GuardTripped,
    Hurried,
    LimitReached,
    LimitsRaised,
    Paused,
    PauseRequested,
    Redirected,
    Requeued,
    Resumed,
    StepStarted,
    StepUndone,
    UndoFailed,
)
from pullcord.core.run import Run

Value = str | int | float | bool | tuple[str, ...]
Attributes = Mapping[str, Value]
TOLD: Final = (
    PauseRequested,
    Paused,
    Resumed,
    Redirected,
    CancelRequested,
    Hurried,
    LimitReached,
    LimitsRaised,
    GuardTripped,
    Requeued,
    StepUndone,
    UndoFailed,
)
"""What is an event of the span of a life."""
VERBS: Final[Mapping[type[Event], str]] = {
    PauseRequested: "pause",
    CancelRequested: "cancel",
    LimitReached: "stop",
    Requeued: "shutdown",
}
"""What counts as a stop."""


def of_life(run: Run) -> Attributes:
    made: dict[str, Value] = {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": run.agent,
        "gen_ai.conversation.id": run.thread,
        "pullcord.run.id": run.id,
    }
    if run.parent:
        made["pullcord.run.parent"] = run.parent
    if run.forked_from:
        made["pullcord.run.forked_from"] = run.forked_from
    return made


def of_step(event: StepStarted) -> tuple[str, Attributes]:
    """The name of its span, and what is known of it when it begins."""
    made: dict[str, Value] = {"pullcord.step.id": event.step, "pullcord.step.name": event.name}
    if event.attempt > 1:
        made["pullcord.step.attempt"] = event.attempt
    if event.model:
        made |= {"gen_ai.operation.name": "chat", "gen_ai.request.model": event.model}
        return f"chat {event.model}", made
    if event.tool:
        made |= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": event.tool,
            "gen_ai.tool.call.id": event.step,
            "gen_ai.tool.type": "function",
        }
        return f"execute_tool {event.tool}", made
    return f"step {event.name}", made


def of_event(event: Event) -> tuple[str, Attributes]:
    """The name of a span's event, and who, by what, and why."""
    made: dict[str, Value] = {}
    match event:
        case Asked():
            made = {"by": event.by, "source": event.source, "reason": event.reason}
            made |= {"via": event.via, "leaves": getattr(event, "leaves", ())}
        case GuardTripped():
            made = {"by": event.guard, "source": "guard"}
        case Requeued():
            made = {"source": "shutdown", "reason": event.cause}
        case Paused():
            made = {"rung": event.rung}
        case StepUndone() | UndoFailed():
            made = {"step": event.step}
        case _:
            pass
    return f"pullcord.{TAGS[type(event)]}", {f"pullcord.{k}": v for k, v in made.items() if v}


def source_of(event: Event) -> str:
    return event.source if isinstance(event, Asked) else "shutdown"


def kind_of_error(error: str) -> str:
    """The class of an error, without what it says: that may be anybody's data."""
    name = error.partition(":")[0].strip()
    return name if name.isidentifier() else "_OTHER"
