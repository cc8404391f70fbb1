"""What of a run is shown: its steps, words, presses and questions, under the items of its plan."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Status: TypeAlias = Literal["running", "done", "failed", "interrupted", "in_doubt", "not_started"]


@dataclass(slots=True)
class Step:
    name: str
    from_ms: int
    model: str = ""
    tool: str = ""
    effect: str = "once"
    undoable: bool = False
    run_in: str = ""
    status: Status = "running"
    undo: Literal["", "undoing", "undone", "failed"] = ""
    says: str = ""
    result: str = ""
    to_ms: int = 0
    attempt: int = 1
    is_late: bool = False
    bill: str = ""


@dataclass(slots=True)
class Said:
    """Text that was said, thought, or put out by a tool."""

    kind: Literal["said", "thought", "output"]
    text: str = ""
    state: Literal["live", "whole", "cut"] = "live"


@dataclass(slots=True)
class Note:
    """Something that happened to the run as a whole: mostly, that somebody pressed something."""

    at_ms: int
    sign: str
    says: str
    by: str = ""
    reason: str = ""
    is_press: bool = False
    took_ms: int = -1  # until it was in effect


@dataclass(slots=True)
class Asked:
    """A question, and what it was answered."""

    at_ms: int
    kind: str
    says: str
    status: Literal["open", "answered", "withdrawn"] = "open"
    answer: str = ""
    is_no: bool = False


Entry: TypeAlias = Step | Said | Note | Asked


@dataclass(slots=True)
class Section:
    """An item of a plan and what happened while it was under way; or, without a number, what
    happened around plans."""

    number: int = 0
    plan: str = ""
    item: str = ""
    text: str = ""
    status: Literal["queued", "running", "done", "interrupted"] = "running"
    from_ms: int = 0
    to_ms: int = 0
    before: list[str] = field(default_factory=list[str])  # what it said before it was rewritten
    entries: list[Entry] = field(default_factory=list[Entry])


@dataclass(slots=True)
class Stretch:
    """A time during which the run was in one state."""

    pace: str
    from_ms: int
    to_ms: int = 0  # 0: still
