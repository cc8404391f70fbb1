"""What of a run is shown: its steps, words, presses and questions, under the items of its plan."""

from dataclasses import dataclass, field
from typing import Literal, TypeAlias


@dataclass(slots=True)
class ShownStep:
    """A step or a request to a model: the words are those of the last record about it."""

    name: str
    from_ms: int
    is_model: bool = False
    sign: str = "●"
    says: str = ""
    facts: tuple[str, ...] = ()
    to_ms: int = 0  # 0: under way
    bill: str = ""


@dataclass(slots=True)
class ShownText:
    """Text that was said, thought, or put out by a tool."""

    kind: Literal["said", "thought", "output"]
    text: str = ""
    state: Literal["live", "whole", "cut"] = "live"


@dataclass(slots=True)
class ShownNote:
    """Something that happened to the run as a whole: mostly, that somebody pressed something."""

    at_ms: int
    sign: str
    says: str
    by: str = ""
    reason: str = ""
    is_press: bool = False
    then: str = ""  # that it is in effect, after `took_ms`, and how
    took_ms: int = -1
    how: tuple[str, ...] = ()


@dataclass(slots=True)
class ShownQuestion:
    """A question, and what it was answered."""

    at_ms: int
    kind: str
    says: str
    status: Literal["open", "answered", "withdrawn"] = "open"
    answer: str = ""
    is_no: bool = False


Entry: TypeAlias = ShownStep | ShownText | ShownNote | ShownQuestion


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
