"""The items that wait for a person: calls to approve, questions, and attention items."""

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from pullcord.core.events import QuestionAsked
from pullcord.core.run import Run
from pullcord.core.states import LIVING, TERMINAL, RunState
from pullcord.core.values import load as value_of
from pullcord.journal.store import View
from pullcord.journal.stored_runs.run_records import existing, records_of
from pullcord.journal.stored_runs.snapshots import load

FOUND_MAX: Final = 1000  # cards, questions and attention items
ENDED_MAX: Final = 1000  # runs
_PAGE: Final = 500


class Card(msgspec.Struct, frozen=True, kw_only=True):
    """One call that waits for approval, as it will be made."""

    run: str
    agent: str
    question: str
    tool: str
    args: Any
    effect: str
    can_be_undone: bool
    text: str
    call: str
    expires_in_ms: int  # counted from when the inbox was read


class Open(msgspec.Struct, frozen=True, kw_only=True):
    """A question that waits for an answer."""

    run: str
    agent: str
    question: str
    kind: str
    text: str
    details: Any
    step: str


class Attention(msgspec.Struct, frozen=True, kw_only=True):
    """A matter that a person has to look at. Outlives its run."""

    run: str
    agent: str
    state: RunState
    item: str
    text: str


class Inbox(msgspec.Struct, frozen=True):
    """Everything that waits for a person."""

    cards: list[Card]
    questions: list[Open]
    attention: list[Attention]


def inbox_of(view: View, now_ms: int, only: str | None = None) -> Inbox:
    """Return everything that waits for a person, in one run or in all of them.

    `now_ms`: the steady clock. An expired card is left out, whether or not its expiry is recorded.
    Living runs are read, newest first, until `FOUND_MAX` entries are found. Of the ended runs, the
    newest `ENDED_MAX` are read.
    """
    found = Inbox([], [], [])
    if only:
        _add(found, view, load(view, existing(view, only)), now_ms)
        return found
    for run in _living(view):
        if len(found.cards) + len(found.questions) + len(found.attention) >= FOUND_MAX:
            break
        _add(found, view, run, now_ms)
    for head in view.heads(states=TERMINAL, thread=None, before=None, limit=ENDED_MAX):
        _add(found, view, load(view, head), now_ms)
    return found


def family_inbox(view: View, now_ms: int, run_id: str) -> Inbox:
    """Return everything that waits for a person in a run and in its living descendants."""
    found, family = Inbox([], [], []), [run_id]
    for name in family:
        run = load(view, existing(view, name))
        _add(found, view, run, now_ms)
        family += run.living_children()
    return found


def _living(view: View) -> Iterator[Run]:
    """Yield the living runs, newest first. A run with one record has asked for nothing yet."""
    before: str | None = None
    while page := view.heads(states=LIVING, thread=None, before=before, limit=_PAGE):
        for head in page:
            if head.seq > 1:
                yield load(view, head)
        before = page[-1].run_id


def _add(found: Inbox, view: View, run: Run, now_ms: int) -> None:
    if run.is_quarantined:
        return
    found.attention.extend(
        Attention(run=run.id, agent=run.agent, state=run.state, item=item, text=text)
        for item, text in run.to_look_at().items()
    )
    if run.state not in LIVING:
        return
    wanted = {name for name in run.open_questions() if run.questions[name].kind != "timer"}
    for record in records_of(view, run.id) if wanted else ():
        event = record.event
        if not isinstance(event, QuestionAsked) or event.question not in wanted:
            continue
        if event.kind != "approval":
            found.questions.append(_question(run, event))
        elif event.due_ms > now_ms:
            found.cards.append(_card(run, event, now_ms))


def _question(run: Run, event: QuestionAsked) -> Open:
    return Open(
        run=run.id,
        agent=run.agent,
        question=event.question,
        kind=event.kind,
        text=event.text,
        details=value_of(event.details),
        step=event.step,
    )


def _card(run: Run, event: QuestionAsked, now_ms: int) -> Card:
    said: Any = value_of(event.details) or {}
    return Card(
        run=run.id,
        agent=run.agent,
        question=event.question,
        tool=event.tool,
        args=said.get("args"),
        effect=said.get("effect", ""),
        can_be_undone=bool(said.get("can_be_undone")),
        text=event.text,
        call=event.call,
        expires_in_ms=event.due_ms - now_ms,
    )
