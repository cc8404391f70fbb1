"""approvals, attention: what waits for a person, over all runs of the store."""

import json
import sys
from typing import Any

from pullcord.cli.control import to_json
from pullcord.cli.store import Desk, desk
from pullcord.cli.words import call, clock, coloured, line, plain
from pullcord.journal.inbox import inbox_of


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
    cards = here.read(lambda view: inbox_of(view, now, only)).cards
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


def _attention(asked: Any, here: Desk, only: str | None) -> int:
    now = here.now_ms()
    found = [
        {"run": found.run, "state": found.state, "item": found.item, "text": found.text}
        for found in here.read(lambda view: inbox_of(view, now, only)).attention
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
