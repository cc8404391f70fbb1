"""What `--json` prints, as types. docs/json.md is made of them; a test holds verbs to theirs."""

from typing import Any, Final

import msgspec

from pullcord.core.acks import Reason, Verdict
from pullcord.core.commands import COMMANDS
from pullcord.core.receipts import Receipt
from pullcord.core.run import Run
from pullcord.core.show.panel import Meter
from pullcord.core.states import RunState
from pullcord.journal.evidence.verify import Broken
from pullcord.journal.views.inbox import Attention as Attention
from pullcord.journal.views.inbox import Card as Card


class Shape(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    pass


class Row(Shape, kw_only=True):
    """A run in the list."""

    run: str
    agent: str
    thread: str
    title: str
    parent: str | None
    state: RunState
    seq: int
    driven: bool
    working_ms: int
    waiting_ms: int
    paused_ms: int
    created_at_ms: int


class RecordLine(Shape, kw_only=True, omit_defaults=True):
    """A record of the journal. `event` is what happened, by its `type`."""

    seq: int
    at_ms: int
    epoch: int
    event: dict[str, Any]
    drift_ms: int = 0


class Shown(Row, kw_only=True, omit_defaults=True):
    """A run, looked at. What a quarantined one said and found is not in it."""

    says: str
    meters: tuple[Meter, ...] = ()
    limits: str = ""
    result: Any = msgspec.UNSET
    run_state: Run | msgspec.UnsetType = msgspec.UNSET
    records: list[RecordLine] | msgspec.UnsetType = msgspec.UNSET


class EventLine(RecordLine, kw_only=True, omit_defaults=True):
    """One record of a run that is followed. `id` is the place to go on from: `--after`."""

    id: str
    run: str


class TextLine(Shape, kw_only=True):
    """Text as it comes. The `text_ended` record of its part replaces it."""

    id: str
    run: str
    part: str
    offset: int
    text: str


class Acknowledged(Shape, kw_only=True):
    """How a control was decided. Exit status 3 unless `applied` or `already`."""

    run: str
    verdict: Verdict
    seq: int
    state: RunState
    reason: Reason
    message: str


class Started(Shape, kw_only=True):
    """A run that was only recorded: `--detach`."""

    run: str


class Granted(Shape, kw_only=True):
    """A new token. It is told once."""

    id: str
    token: str


class Serving(Shape, kw_only=True):
    """Where the page is. The link works once."""

    url: str
    agents: list[str]
    store: str


class SwitchedOff(Shape, kw_only=True):
    """A kill switch that is engaged: for `all`, for an `agent` or for a `thread`."""

    scope: str
    name: str
    by: str
    reason: str
    at_ms: int


class Unstopped(Shape, kw_only=True):
    """What goes on although the kill switch was pulled."""

    what: str
    why: str


class Switch(Shape, kw_only=True):
    """How the kill switch stands, and what pulling it did, the last time that somebody did: how
    many processes were asked, which were killed, what could not be stopped. `held`: the runs in
    its reach."""

    engaged: list[SwitchedOff]
    held: list[str]
    recorded: bool
    asked: int
    killed: list[int]
    not_stopped: list[Unstopped]
    took_ms: int
    why_not_recorded: str


class Finding(Shape, kw_only=True):
    """One thing that the doctor has looked at."""

    is_fine: bool
    what: str
    found: str


class StopLine(Shape, kw_only=True):
    """An entry of the stop log. `entry` says what happened, in `act`; null: it was deleted."""

    n: int
    at_ms: int
    run: str
    hash: str
    entry: dict[str, Any] | None


class Verified(Shape, kw_only=True):
    """What was checked. Exit status 5 unless `broken` is empty."""

    stops: int
    head: str
    records: int
    runs: int
    anchor: str
    lines: int
    newest: int
    torn: int
    forgotten: int
    broken: list[Broken]


class Evidence(Shape, kw_only=True):
    """A bundle that was written. Note its `seal` elsewhere."""

    run: str
    file: str
    seal: str  # the last line of its SUMS
    runs: int
    records: int
    entries: int


class LogHead(Shape, kw_only=True):
    """The last entry of the stop log."""

    n: int
    hash: str
    at_ms: int


class Forgettable(Shape, kw_only=True):
    """A run whose payloads were deleted, or would be. `kept`: why not, and what to do."""

    run: str
    agent: str
    thread: str
    state: RunState
    ended_at_ms: int
    records: int
    bytes: int
    forks: tuple[str, ...]
    undoable: int
    kept: str


class ForgetShown(Shape, kw_only=True):
    """What was forgotten, or, without `--yes`, would be. `files`: whether the bytes are gone from
    them (`gone`), or not yet (`held`, `traces`), or are a server's to delete (`logged`); empty if
    nothing was to be deleted."""

    is_done: bool
    files: str
    runs: list[Forgettable]


class Failure(Shape, kw_only=True):
    """Why it was not done. `error` is the class in `pullcord.errors`, or `Usage`."""

    error: str
    message: str


_AS_WELL: Final[dict[str, tuple[Any, ...]]] = {
    # what a control may print instead: it waits, or drives the run right here
    "pause": (Receipt,),
    "resume": (EventLine, TextLine),
    "cancel": (Receipt,),
    "undo": (Receipt,),
}
PRINTED: Final[dict[str, tuple[Any, ...]]] = {
    # verb → what it prints; a list means one array, several mean one of them a line
    "ps": (list[Row],),
    "show": (Shown,),
    "watch": (EventLine, TextLine),
    "receipt": (Receipt,),
    "log": (list[StopLine], Verified, Evidence, LogHead),
    **{verb: (Acknowledged, *_AS_WELL.get(verb, ())) for verb in COMMANDS},
    "approvals": (list[Card],),
    "attention": (list[Attention],),
    "run": (EventLine, TextLine),
    "fork": (EventLine, TextLine, Started),
    "continue": (EventLine, TextLine, Started),
    "aside": (EventLine, TextLine, Started),
    "serve": (Serving,),
    "grant": (Granted,),
    "doctor": (list[Finding],),
    "kill-switch": (Switch,),
    "forget": (ForgetShown,),
}
