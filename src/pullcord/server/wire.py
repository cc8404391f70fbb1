"""What is sent to the server and what it answers, as types. OpenAPI is made of them."""

from typing import Annotated, Any, Literal

import msgspec

from pullcord.core.commands import KEY_MAX_CHARS, Id, Text
from pullcord.core.limits import Then
from pullcord.core.receipts import Receipt
from pullcord.core.show.panel import Panel
from pullcord.core.show.receipt_words import ReceiptLine
from pullcord.core.show.story import Told
from pullcord.journal.views.inbox import Attention, Card, Open
from pullcord.server.credentials import Kind
from pullcord.server.rights import How, Right

Seq = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
Key = Annotated[str, msgspec.Meta(min_length=1, max_length=KEY_MAX_CHARS)]
Caps = dict[str, Annotated[float, msgspec.Meta(ge=0)]]
Seconds = Annotated[float, msgspec.Meta(gt=0, le=366 * 24 * 3600)]


class _Sent(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    pass


class Said(_Sent, frozen=True, kw_only=True):
    """What every control may say: why, a key that makes it safe to send again, and the last
    record that whoever asks had seen."""

    reason: str = ""
    key: Key | None = None
    seen_seq: Seq | None = None


class Nothing(_Sent, frozen=True, kw_only=True):
    pass


class SwitchSaid(_Sent, frozen=True, kw_only=True):
    """Of the kill switch: for an agent, a thread, or (with neither) everything."""

    reason: str = ""
    agent: Text | None = None
    thread: Text | None = None


class SwitchedOff(msgspec.Struct, frozen=True, kw_only=True):
    scope: str  # all, agent or thread
    name: str
    by: str
    reason: str
    at_ms: int


class Unstopped(msgspec.Struct, frozen=True, kw_only=True):
    what: str
    why: str


class SwitchShown(msgspec.Struct, frozen=True, kw_only=True):
    """How the kill switch stands. `asked`, `killed` and `not_stopped`: what pulling it did, the
    last time that somebody did."""

    engaged: list[SwitchedOff]
    held: list[str]  # the runs in its reach
    recorded: bool = True  # False: the store cannot be written; the next process records it
    asked: int = 0
    took_ms: int = 0
    killed: list[int] = []
    not_stopped: list[Unstopped] = []
    why_not_recorded: str = ""


class StartSaid(_Sent, frozen=True, kw_only=True):
    """`run_id`, here and below: the id of the new run, made up by whoever asks. Who got no answer
    can look whether there is such a run, and need not start another."""

    agent: Text
    input: Any = None
    run_id: Id | None = None
    thread: Id | None = None
    if_busy: Literal["refuse", "queue", "redirect"] = "refuse"
    model: str = ""
    limits: Caps = {}
    on_exhausted: Then | None = None


class ForkSaid(_Sent, frozen=True, kw_only=True):
    at: Annotated[int, msgspec.Meta(ge=1, le=2**53)] | None = None
    instruction: Text | None = None
    run_id: Id | None = None
    limits: Caps = {}
    on_exhausted: Then | None = None


class ContinueSaid(_Sent, frozen=True, kw_only=True):
    input: Any = None
    run_id: Id | None = None


class AsideSaid(_Sent, frozen=True, kw_only=True):
    question: Text
    run_id: Id | None = None


class SessionSaid(_Sent, frozen=True, kw_only=True):
    code: Annotated[str, msgspec.Meta(min_length=1, max_length=100)]


class GrantSaid(_Sent, frozen=True, kw_only=True):
    kind: Literal["link", "token"]
    right: Right
    expires_in_s: Seconds
    run: Id | None = None
    name: Annotated[str, msgspec.Meta(max_length=60)] = ""


# --- answers --------------------------------------------------------------------------------------


class Me(msgspec.Struct, frozen=True):
    by: str
    right: Right
    run: str | None
    how: How


class AgentLine(msgspec.Struct, frozen=True):
    name: str
    wants_input: bool
    about: str


class Agents(msgspec.Struct, frozen=True):
    agents: list[AgentLine]


class Runs(msgspec.Struct, frozen=True):
    runs: list[Panel]


class Found(msgspec.Struct, frozen=True):
    """The ids of runs that begin alike."""

    runs: list[str]


class RunShown(msgspec.Struct, frozen=True):
    panel: Panel
    input: Any
    result: Any
    created_at_ms: int
    code_version: str
    model: str


class RecordShown(msgspec.Struct, frozen=True):
    seq: int
    at_ms: int
    epoch: int
    event: dict[str, Any]
    told: Told  # the same in words
    drift_ms: int = 0  # how far the wall clock was ahead of the clock that never jumps


class Records(msgspec.Struct, frozen=True):
    records: list[RecordShown]


class ReceiptShown(Receipt, frozen=True, kw_only=True):
    """The receipt, and the same in words."""

    lines: tuple[ReceiptLine, ...]


class CardShown(Card, frozen=True, kw_only=True):
    """`shown`: the name of each argument and its value as JSON text, for whoever shows the call:
    not every reader of JSON has numbers as large as `args` can hold."""

    shown: list[tuple[str, str]]
    policy: str  # what it does to the world, and whether that can be taken back


class InboxShown(msgspec.Struct, frozen=True):
    cards: list[CardShown]
    questions: list[Open]
    attention: list[Attention]


class Started(msgspec.Struct, frozen=True):
    run: str


class GrantShown(msgspec.Struct, frozen=True, kw_only=True):
    id: str
    name: str
    kind: Kind
    right: Right
    run: str | None
    created_at_ms: int
    expires_at_ms: int
    revoked: bool


class Grants(msgspec.Struct, frozen=True):
    grants: list[GrantShown]


class Given(msgspec.Struct, frozen=True):
    """A new credential. `code` is told once, here."""

    id: str
    code: str
    url: str


class Entered(msgspec.Struct, frozen=True):
    """A browser's session has begun. `key` is told once, here: the page sends it as
    `X-Pullcord-Key` with every request, because a cookie goes to every port of the host."""

    key: str


class Problem(msgspec.Struct, frozen=True):
    """What went wrong, what is true now and what to do, in the library's own words."""

    type: str
    title: str
    status: int
    detail: str
    code: str
    ack: Any = None
