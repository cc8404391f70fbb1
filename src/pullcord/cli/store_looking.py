"""A store, looked at as control surfaces show it. Loaded only by verbs that look."""

from collections.abc import Iterable, Iterator

import msgspec

from pullcord.cli.shapes import Attention, Card, Waiting
from pullcord.core.events import Record
from pullcord.core.fold import ends
from pullcord.core.panel import Panel
from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.core.withhold import as_viewed
from pullcord.errors import InvalidInput
from pullcord.journal.inbox import inbox_of
from pullcord.journal.reading import Cursor, Item, existing
from pullcord.journal.reading import stream as stream_of
from pullcord.journal.seeing import panel_of, see
from pullcord.journal.snapshots import load
from pullcord.journal.steady import steady_now
from pullcord.journal.store import Head, LiveText, Store, View


def panel(store: Store, run_id: str) -> Panel:
    return store.read(lambda view: _panel(store, view, existing(view, run_id)))


def listed(store: Store, states: Iterable[RunState], limit: int) -> list[Panel]:
    def look(view: View) -> list[Panel]:
        heads = view.heads(states=states, thread=None, before=None, limit=limit)
        return [_panel(store, view, head) for head in heads]

    return store.read(look)


def _panel(store: Store, view: View, head: Head) -> Panel:
    return panel_of(see(view, head, store.clock), wall_ms=store.clock.wall_ms())


def waiting(store: Store, run_id: str | None) -> Waiting:
    now = store.read(lambda view: steady_now(view, store.clock))
    found = store.read(lambda view: inbox_of(view, now, run_id))
    cards: list[Card] = []
    for card in found.cards:
        said = card._asdict()
        left = said.pop("expires_at_ms") - now
        cards.append(Card(**said, expires_in_ms=max(left, 0)))
    return Waiting(
        cards,
        [Attention(run=i.run, state=i.state, item=i.item, text=i.text) for i in found.attention],
    )


def stream(store: Store, run_id: str, after: Cursor) -> Iterator[Item]:
    run = store.read(lambda view: load(view, existing(view, run_id)))
    if after.seq > run.seq:
        raise InvalidInput(
            f"Run {run_id} has no record {after.seq}: it ends at {run.seq}. An id belongs to the "
            "run that it was seen in."
        )
    if run.ended and after.seq >= run.state_seq:
        return
    listener = store.listen()
    try:
        while True:
            items = store.read(lambda view, at=after: stream_of(view, run_id, at))
            run = store.read(lambda view: load(view, existing(view, run_id)))
            for after, item in items:
                if (shown := _visible(run, item)) is not None:
                    yield after, shown
                if isinstance(item, Record) and ends(item.event):
                    return
            listener.wait(5.0)
    finally:
        listener.close()


def _visible(run: Run, item: Record | LiveText) -> Record | LiveText | None:
    hide = run.cancel is not None and run.cancel.quarantine
    if not isinstance(item, Record):
        return None if hide else item
    return msgspec.structs.replace(item, event=as_viewed(item.event, hide=hide))
