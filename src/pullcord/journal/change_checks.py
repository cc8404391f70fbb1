"""What is looked at before a change is handed to the writer: names, texts, times."""

import math
from typing import Final

from pullcord.core.commands import check_command
from pullcord.core.events import (
    AttentionRaised,
    ChildBorn,
    Created,
    Deferred,
    Event,
    Planned,
    QuestionAsked,
    Remembered,
    StepStarted,
    TextEnded,
    check_event,
)
from pullcord.core.values import check_id
from pullcord.errors import InvalidInput
from pullcord.journal.rules.ledger import Change, Order

_NAMES: Final[dict[type[Event], tuple[tuple[str, str], ...]]] = {
    # what people and programs will call things by, and so must be able to write in a line
    Created: (("agent", "agent"), ("thread", "thread")),
    Remembered: (("key", "remembered value"),),
    Planned: (("plan", "plan"),),
    Deferred: (("defer", "deferred release"),),
    StepStarted: (("step", "step"),),
    QuestionAsked: (("question", "question"),),
    TextEnded: (("part", "part"),),
    ChildBorn: (("child", "run"),),
    AttentionRaised: (("item", "attention item"),),
}


def check_change(change: Change) -> None:
    """Refuse what could not be read again, or named in a line."""
    check_id(change.run_id)
    if isinstance(change, Order):
        check_command(change.command)
        return
    for event in change.events:
        check_event(event)
        for field, kind in _NAMES.get(type(event), ()):
            check_id(getattr(event, field), kind=kind)


def check_ttl(ttl_s: float) -> None:
    if not 0 <= ttl_s < math.inf:
        raise InvalidInput(f"A lease cannot last {ttl_s} s. Nothing was changed.")
