"""One run, as a terminal looks at it and commands it: through the journal, without a loop."""

from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec

from pullcord.cli.store import Desk
from pullcord.core.commands import Command
from pullcord.core.events import Record
from pullcord.core.panel import Panel
from pullcord.core.withhold import as_viewed
from pullcord.journal.inbox import Card, Inbox, Open, inbox_of
from pullcord.journal.reading import Cursor, existing, stream
from pullcord.journal.seeing import panel_of, see
from pullcord.journal.snapshots import load
from pullcord.journal.store import LiveText, View


class Seen(NamedTuple):
    """The run as it is now, and what of it and its children waits for a person's word."""

    panel: Panel
    cards: list[Card]
    questions: list[Open]
    now_ms: int  # by the clock that cards expire by


class Hand:
    """`hold_s`: how long a pause lets a model finish its answer."""

    def __init__(self, here: Desk, run_id: str, *, after: Cursor, hold_s: float) -> None:
        self._here = here
        self._run_id = run_id
        self._hold_s = hold_s
        self._after = after
        self._hide = False

    def look(self) -> Seen:
        run_id, clock = self._run_id, self._here.clock
        seen = self._here.read(lambda view: see(view, existing(view, run_id), clock))
        shown = panel_of(seen, wall_ms=clock.wall_ms(), hold_s=self._hold_s)
        now = seen.now_ms
        self._hide = shown.quarantined
        waiting = self._here.read(lambda view: _family(view, run_id, now))
        cards = [card for inbox in waiting for card in inbox.cards]
        return Seen(shown, cards, [one for inbox in waiting for one in inbox.questions], now)

    def news(self) -> Iterator[tuple[Cursor, Record | LiveText]]:
        """What has happened since the last time, as viewers may see it."""
        for cursor, item in self._here.read(lambda view: stream(view, self._run_id, self._after)):
            self._after = cursor
            if isinstance(item, Record):
                event = as_viewed(item.event, hide=self._hide)
                yield cursor, msgspec.structs.replace(item, event=event)
            elif not self._hide:
                yield cursor, item

    def ask(self, run_id: str, command: Command) -> Any:
        """Return the answer, durable. A stop also takes hold of a run whose process is gone."""
        return self._here.command(run_id, command)


def _family(view: View, run_id: str, now_ms: int) -> list[Inbox]:
    """What waits in it, and in everybody who works for it."""
    found, family = list[Inbox](), [run_id]
    for name in family:
        run = load(view, existing(view, name))
        found.append(inbox_of(view, now_ms, name))
        family += run.living_children()
    return found
