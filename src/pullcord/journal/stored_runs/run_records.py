"""Reading one run from a consistent look at the store, with or without an event loop."""

from collections.abc import Sequence
from typing import Final, NamedTuple, TypeAlias

from pullcord.core.events import Created, Record
from pullcord.core.states import RunState
from pullcord.core.values import check_id
from pullcord.errors import InvalidInput, RunNotFound
from pullcord.journal.chain import GENESIS, opened
from pullcord.journal.store import Head, LiveText, View
from pullcord.journal.stored_runs.forgotten import act_of, refuse_forgotten
from pullcord.journal.stored_runs.snapshots import load

ALL: Final = 2**62


class Cursor(NamedTuple):
    """A place in a run's stream: after record `seq` and live text `pos`. Prints as an event id."""

    seq: int = 0
    pos: int = 0

    def __str__(self) -> str:
        return f"{self.seq}.{self.pos}" if self.pos else str(self.seq)


START: Final = Cursor()
Item: TypeAlias = tuple[Cursor, Record | LiveText]


def existing(view: View, run_id: str) -> Head:
    if head := view.head(check_id(run_id)):
        return head
    raise RunNotFound(run_id)


def records_of(view: View, run_id: str, after_seq: int = 0, limit: int = ALL) -> list[Record]:
    """The run's records after `after_seq`, each checked against the one before. Of a forgotten
    run only the last one is left, which says so."""
    return _read(view, run_id, after_seq, limit)[1]


def _read(
    view: View, run_id: str, after_seq: int, limit: int, *, after_pos: int | None = None
) -> tuple[Head, list[Record], list[LiveText]]:
    """Return the run's head, its records after `after_seq` and its live text."""
    after_seq = max(after_seq, 0)
    known = min(after_seq, 1)  # with the one before, from which they follow
    head, rows, live = view.tail(
        check_id(run_id), after_seq=after_seq - known, limit=limit + known, after_pos=after_pos
    )
    if head is None:
        raise RunNotFound(run_id)
    if act := act_of(view, head):
        return head, [act] if after_seq < act.seq else [], live
    before, rows = (rows[0].hash, rows[1:]) if known and rows else (GENESIS, rows)
    return head, list(opened(run_id, rows, seq=after_seq, before=before)), live


def birth(view: View, run_id: str, *, what: str) -> Created:
    """How the run began, for whoever is to go on from it.

    Raises:
        RunForgotten: that is not known any more, of it or of a run that it goes on from.
    """
    existing(view, run_id)
    refuse_forgotten(view, run_id, what=what)
    return first_of(view, run_id)


def first_of(view: View, run_id: str) -> Created:
    """Return how a run began that is not forgotten."""
    [first] = records_of(view, run_id, 0, 1)
    assert isinstance(first.event, Created)
    return first.event


def reusable(view: View, run_id: str, *, what: str) -> Created:
    """How the run began, for a run that begins with something of it: its input, its steps.

    Raises:
        InvalidInput: it, or a run that it goes on from, is quarantined.
        RunForgotten: that is not known any more, of it or of a run that it goes on from.
    """
    first = birth(view, run_id, what=what)
    source: str | None = run_id
    while source is not None:
        run = load(view, existing(view, source))
        if run.is_quarantined:
            raise InvalidInput(
                f"Cannot {what} run {run_id}: it, or a run it goes on from, is quarantined, and "
                "nothing of it may be used again. Nothing was started. Start anew, with an input "
                "of its own: pullcord run"
            )
        source = run.forked_from
    return first


def stream(view: View, run_id: str, after: Cursor, *, limit: int = ALL) -> Sequence[Item]:
    """Records and live text after a place, merged in the order they happened. With a `limit`,
    no more than so many records: read on from the last place."""
    head, records, live = _read(view, run_id, after.seq, limit, after_pos=after.pos)
    texts = _shown(view, head, live)
    if len(records) == limit:
        texts = [text for text in texts if text.after_seq <= records[-1].seq]
    merged: list[Item] = []
    seq, pos = after
    for item in sorted(
        [*records, *texts],
        key=lambda i: (i.seq, 0, 0) if isinstance(i, Record) else (i.after_seq, 1, i.pos),
    ):
        if isinstance(item, Record):
            seq = item.seq
        else:
            pos = item.pos
        merged.append((Cursor(seq, pos), item))
    return merged


def _shown(view: View, head: Head, texts: list[LiveText]) -> list[LiveText]:
    """Without what came after a pause was asked for: that is shown when the run goes on."""
    if not texts or head.state not in (RunState.PAUSING, RunState.PAUSED):
        return texts
    pause = load(view, head).pause
    return [text for text in texts if pause is None or text.after_seq < pause.seq]
