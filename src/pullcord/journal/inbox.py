"""What waits for a person: calls to be allowed, questions, and what somebody has to look at."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

from pullcord.core.events import QuestionAsked
from pullcord.core.run import Run
from pullcord.core.states import LIVING, TERMINAL, RunState
from pullcord.core.values import load as value_of
from pullcord.journal.reading import existing, records_of
from pullcord.journal.snapshots import load
from pullcord.journal.store import View

FOUND_MAX: Final = 1000  # cards, questions and attention items
ENDED_MAX: Final = 1000  # runs
_PAGE: Final = 500


class Card(NamedTuple):
    """One call that waits for somebody's word, as it will be made."""

    run: str
    agent: str
    question: str
    tool: str
    args: Any
    effect: str
    can_be_undone: bool
    text: str
    call: str
    expires_at_ms: int  # on the steady clock


class Open(NamedTuple):
    """A question that waits for an answer."""

    run: str
    agent: str
    question: str
    kind: str
    text: str
    details: Any
    step: str


class Item(NamedTuple):
    """Something a person has to look at. Outlives its run."""

    run: str
    agent: str
    state: RunState
    item: str
    text: str


class Inbox(NamedTuple):
    cards: list[Card]
    questions: list[Open]
    attention: list[Item]


def inbox_of(view: View, now_ms: int, only: str | None = None) -> Inbox:
    """Everything that waits for a person, in one run or in all of them. `now_ms`: the steady
    clock; a card that has expired is not shown, whoever has noticed that.

    All living runs are asked, however many have nothing to say, until `FOUND_MAX` things are
    found; of those that have ended, the newest `ENDED_MAX`.
    """
    found = Inbox([], [], [])
    if only:
        _add(found, view, load(view, existing(view, only)), now_ms)
        return found
    for run in _living(view):
        if sum(map(len, found)) >= FOUND_MAX:
            break
        _add(found, view, run, now_ms)
    for head in view.heads(states=TERMINAL, thread=None, before=None, limit=ENDED_MAX):
        _add(found, view, load(view, head), now_ms)
    return found


def _living(view: View) -> Iterator[Run]:
    """Newest first. Not those that nothing has happened to: they can have asked for nothing."""
    before: str | None = None
    while page := view.heads(states=LIVING, thread=None, before=before, limit=_PAGE):
        for head in page:
            if head.seq > 1:
                yield load(view, head)
        before = page[-1].run_id


def _add(found: Inbox, view: View, run: Run, now_ms: int) -> None:
    if run.cancel and run.cancel.quarantine:
        return
    found.attention.extend(
        Item(run.id, run.agent, run.state, item, text) for item, text in run.to_look_at().items()
    )
    if run.state in LIVING:
        cards, questions = _asked(view, run)
        found.cards.extend(card for card in cards if card.expires_at_ms > now_ms)
        found.questions.extend(questions)


def _asked(view: View, run: Run) -> tuple[list[Card], list[Open]]:
    cards, questions = list[Card](), list[Open]()
    wanted = {name for name in run.open_questions() if run.questions[name].kind != "timer"}
    for record in records_of(view, run.id) if wanted else ():
        event = record.event
        if not isinstance(event, QuestionAsked) or event.question not in wanted:
            continue
        details: Any = value_of(event.details)
        if event.kind == "approval":
            cards.append(_card(run, event, details or {}))
        else:
            questions.append(
                Open(run.id, run.agent, event.question, event.kind, event.text, details, event.step)
            )
    return cards, questions


def _card(run: Run, event: QuestionAsked, said: Any) -> Card:
    return Card(
        run.id,
        run.agent,
        event.question,
        event.tool,
        said.get("args"),
        said.get("effect", ""),
        bool(said.get("can_be_undone")),
        event.text,
        event.call,
        event.due_ms,
    )
