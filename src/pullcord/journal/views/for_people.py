"""Reads runs for people. Every surface reads through this module, and lays out what it gets.

The run as it is in the same look at the store decides what a viewer may see. The content of a
quarantined run is withheld, in all of its records and texts. Of a forgotten run only the fact that
it ran is left. A surface hides nothing itself. Content that it had shown before a quarantine or a
deletion is *withdrawn*: `News.withdrawn_seq` tells the surface to read the run anew.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

import msgspec

from pullcord.core.events import Completed, Created, Record, Stopped
from pullcord.core.fold import replay
from pullcord.core.receipts import Receipt, ended_texts, receipt
from pullcord.core.run import Run
from pullcord.core.show.panel import Panel, panel
from pullcord.core.show.story import Names
from pullcord.core.show.withhold import as_viewed, withheld_act
from pullcord.core.states import TERMINAL, RunState
from pullcord.core.stops import Entry
from pullcord.core.values import Json
from pullcord.errors import PullcordError
from pullcord.journal.clock import Clock
from pullcord.journal.monotonic import last_sign_of_life, monotonic_now
from pullcord.journal.rules.leases import is_driven
from pullcord.journal.store import Head, LiveText, View
from pullcord.journal.stored_runs.families import finding, living, members
from pullcord.journal.stored_runs.run_records import ALL, Cursor, Item, existing, records_of, stream
from pullcord.journal.stored_runs.snapshots import load
from pullcord.journal.views.inbox import Inbox, family_inbox, inbox_of
from pullcord.process import stands_still

# A run in any other state is neither quarantined nor forgotten, so it need not be folded for that.
_MAY_BE_WITHDRAWN: Final = TERMINAL | {RunState.CANCELLING}


class News(NamedTuple):
    """The records and live text of a run after a place, as viewers may see them.

    `withdrawn_seq`: the record that withdrew everything before it (0: none did). A surface that has
    shown the run up to a place before that record reads the run anew.
    """

    items: Sequence[Item]
    withdrawn_seq: int


class Whole(NamedTuple):
    """A run with its input and its result, as viewers may see them."""

    panel: Panel
    input: Json | None  # None: it is forgotten
    result: Json | None
    code_version: str
    model: str


class ForPeople:
    """Reads runs as people may see them, in one look at the store."""

    def __init__(self, view: View, clock: Clock, *, hold_s: float = 10.0) -> None:
        """`hold_s`: how long a pause lets a model finish its answer."""
        self._view = view
        self._clock = clock
        self._hold_s = hold_s

    # --- how runs are ---

    def panel(self, run_id: str) -> Panel:
        """Return the run as a control surface shows it."""
        return self._panel(existing(self._view, run_id))

    def panels(
        self,
        states: Iterable[RunState] = RunState,
        *,
        thread: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[Panel]:
        """Return the newest runs in these states; page on with `before`, a run id."""
        heads = self._view.heads(states=tuple(states), thread=thread, before=before, limit=limit)
        return [self._panel(head) for head in heads]

    def beginning_with(self, prefix: str, *, limit: int) -> list[str]:
        """Return the ids of runs that begin like this, in order."""
        return self._view.beginning_with(prefix, limit=limit)

    def names(self, run_id: str) -> Names:
        """Return the names of the run's steps and questions, for the words of its records."""
        return Names(load(self._view, existing(self._view, run_id)))

    def withdrawn_seq(self, run_id: str) -> int:
        """Return the record that withdrew everything before it from viewers. 0: none did."""
        run = self._withdrawn(existing(self._view, run_id))
        return run.withdrawn_seq if run else 0

    def whole(self, run_id: str) -> Whole:
        """Return the run with its input and its result."""
        head = existing(self._view, run_id)
        run = load(self._view, head)
        born = self.records(run_id, limit=1)[0].event
        end = self.records(run_id, run.state_seq - 1, limit=1)[0].event
        return Whole(
            self._panel(head),
            born.input if isinstance(born, Created) else None,
            end.result if isinstance(end, Completed | Stopped) else None,
            run.code_version,
            run.model,
        )

    def receipt(self, run_id: str) -> Receipt:
        """Return the account of what the run has left behind so far, with the text that was cut."""
        records = records_of(self._view, run_id)
        run = replay(run_id, records)
        return receipt(run, ended_texts(records), list(members(run, finding(self._view))))

    # --- what happened ---

    def records(self, run_id: str, after_seq: int = 0, limit: int = ALL) -> list[Record]:
        """Return the run's records after this one, without the content that is withheld."""
        run = self._withdrawn(existing(self._view, run_id))
        found = records_of(self._view, run_id, after_seq, limit)
        return [_viewed(record, run) for record in found]

    def news(self, run_id: str, after: Cursor, limit: int = ALL) -> News:
        """Return records and live text after a place, in the order they happened.

        Returns at most `limit` records. To continue, read on from the last place.
        """
        run = self._withdrawn(existing(self._view, run_id))
        shown = list[Item]()
        for cursor, what in stream(self._view, run_id, after, limit=limit):
            if isinstance(what, LiveText):
                if run is None or not run.is_quarantined:
                    shown.append((cursor, what))
            else:
                shown.append((cursor, _viewed(what, run)))
        return News(shown, run.withdrawn_seq if run else 0)

    def text_end(self) -> int:
        """Return the position of the last live text of any run. No cursor is beyond it."""
        return self._view.position()[1]

    # --- what waits for a person ---

    def entry(self, entry: Entry) -> Entry:
        """Return an entry of the stop log as viewers may see it. The run may be damaged."""
        with suppress(PullcordError):
            head = self._view.head(entry.run) if entry.run else None
            if head is None or self._withdrawn(head) is None:
                return entry
        return msgspec.structs.replace(entry, act=withheld_act(entry.act))

    def inbox(self, only: str | None = None) -> Inbox:
        """Return everything that waits for a person, in one run or in all of them."""
        return inbox_of(self._view, self._now_ms(), only)

    def family_inbox(self, run_id: str) -> Inbox:
        """Return everything that waits for a person in a run and in its living descendants."""
        return family_inbox(self._view, self._now_ms(), run_id)

    def _now_ms(self) -> int:
        return monotonic_now(self._view, self._clock)

    def _withdrawn(self, head: Head) -> Run | None:
        """Return the run if part of it was withdrawn from viewers, else None."""
        if head.state not in _MAY_BE_WITHDRAWN:
            return None
        run = load(self._view, head)
        return run if run.withdrawn_seq else None

    def _panel(self, head: Head) -> Panel:
        run, now_ms = load(self._view, head), self._now_ms()
        workers = tuple(living(run, finding(self._view)))
        driven = is_driven(head, self._clock.boot_time())
        return panel(
            run,
            sum((one.used_at(now_ms) for one in workers), run.used_at(now_ms)),
            now_ms=now_ms,
            wall_ms=self._clock.wall_ms(),
            driven=driven,
            hold_s=self._hold_s,
            workers=workers,
            alive_ms=last_sign_of_life(self._view, head.holder),
            still=stands_still(head.holder.owner) if driven else "",
        )


def _viewed(record: Record, run: Run | None) -> Record:
    event = as_viewed(record.event, hide=run is not None and run.is_quarantined)
    return record if event is record.event else msgspec.structs.replace(record, event=event)
