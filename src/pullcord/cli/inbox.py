"""approvals, attention: what waits for a person, over all runs of the store."""

import json
import sys
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from pullcord.cli.control import to_json
from pullcord.cli.store import Desk, desk
from pullcord.cli.words import call, clock, coloured, line, plain
from pullcord.core.events import QuestionAsked
from pullcord.core.run import Run
from pullcord.core.states import LIVING, RunState
from pullcord.core.values import load as value_of
from pullcord.journal.reading import records_of
from pullcord.journal.snapshots import load

_RUNS_MAX = 1000


class Card(NamedTuple):
    """One call that waits for somebody's word."""

    run: str
    agent: str
    question: str
    tool: str
    args: Any
    effect: str
    can_be_undone: bool
    text: str
    call: str
    expires_at_ms: int


def carry_out(asked: Any) -> int:
    with desk(asked) as here:
        only = here.find(asked.run) if asked.run else None
        return (
            _approvals(asked, here, only)
            if asked.verb == "approvals"
            else _attention(asked, here, only)
        )


def _approvals(asked: Any, here: Desk, only: str | None) -> int:
    now = here.now_ms()
    cards = [
        card
        for run in _runs(here, LIVING, only)
        for card in _cards(here, run)
        if card.expires_at_ms > now  # else nobody can answer it, whoever has noticed that
    ]
    if asked.json:
        sys.stdout.write(to_json([card._asdict() for card in cards]))
        return 0
    if not cards:
        print("Nothing waits for approval.")
    for card in cards:
        print(coloured(call(card.tool, card.args), "1"))
        undo = "can be undone" if card.can_be_undone else "cannot be undone"
        left = clock(card.expires_at_ms - now)
        print(f"  {card.run} · {card.agent} · {card.effect}, {undo} · expires in {left}")
        print(f"  {line(card.text, 300)}")
        print(f"  pullcord approve {card.run} {card.question}")
        print(f"  pullcord deny {card.run} {card.question} --reason WHY")
    return 0


def _cards(here: Desk, run: Run) -> Iterator[Card]:
    wanted = {name for name in run.open_questions() if run.questions[name].kind == "approval"}
    if not wanted or (run.cancel and run.cancel.quarantine):
        return
    for record in here.read(lambda view: records_of(view, run.id)):
        event = record.event
        if isinstance(event, QuestionAsked) and event.question in wanted:
            said: Any = value_of(event.details) or {}
            yield Card(
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


def _attention(asked: Any, here: Desk, only: str | None) -> int:
    found = [
        {"run": run.id, "state": run.state, "item": item, "text": text}
        for run in _runs(here, RunState, only)
        for item, text in run.attention.items()
        if not (run.cancel and run.cancel.quarantine)
    ]
    if asked.json:
        print(json.dumps(found))
        return 0
    if not found:
        print("Nothing needs attention.")
    for item in found:
        print(f"! {plain(item['text'])}")
        print(
            f"  {item['run']} · {item['state']} · when it is dealt with: "
            f"pullcord settle {item['run']} {item['item']}"
        )
    return 0


def _runs(here: Desk, states: Iterable[RunState], only: str | None) -> list[Run]:
    if only:
        return [here.run(only)[1]]
    heads = here.read(
        lambda view: view.heads(states=states, thread=None, before=None, limit=_RUNS_MAX)
    )
    return [here.read(lambda view, head=head: load(view, head)) for head in heads]
