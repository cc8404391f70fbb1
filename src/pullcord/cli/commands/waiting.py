"""approvals, attention: what waits for a person, over all runs."""

import sys
from typing import Any

from pullcord.cli.as_json import to_json
from pullcord.cli.reach import reach
from pullcord.cli.render.run_text import call_lines, coloured, line
from pullcord.core.show.words import declared, left
from pullcord.journal.views.inbox import Attention, Card


def carry_out(asked: Any) -> int:
    with reach(asked) as access:
        found = access.waiting(access.find(asked.run) if asked.run else None)
    is_about_calls = asked.verb == "approvals"
    if asked.json:
        sys.stdout.write(to_json(found.cards if is_about_calls else found.attention))
    elif is_about_calls:
        _approvals(found.cards)
    else:
        _attention(found.attention)
    return 0


def _approvals(cards: list[Card]) -> None:
    if not cards:
        print("Nothing waits for approval.")
    for card in cards:
        print(coloured("\n".join(call_lines(card.tool, card.args)), "1"))
        policy = line(declared(card.effect, undoable=card.can_be_undone), 60)
        expires = f"expires in {left(card.expires_in_ms)}"
        print(f"  {card.run} · {line(card.agent)} · {policy} · {expires}")
        print(f"  {line(card.text, 300)}")
        print(f"  pullcord approve {card.run} {card.question}")
        print(f"  pullcord deny {card.run} {card.question} --reason WHY")
        print(f"  pullcord edit {card.run} {card.question} ARGS")


def _attention(items: list[Attention]) -> None:
    if not items:
        print("Nothing needs attention.")
    for item in items:
        print(f"! {line(item.text, 1000)}")
        print(
            f"  {item.run} · {item.state} · when it is dealt with: "
            f"pullcord settle {item.run} {item.item}"
        )
