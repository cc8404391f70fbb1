"""The store as a command uses it: opened, read or commanded once, closed. No event loop."""

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from pullcord.cli.arguments import whoami as whoami
from pullcord.cli.parser import store_path
from pullcord.client.run_access import Glance
from pullcord.client.secret_names import sealed
from pullcord.core.acks import Ack
from pullcord.core.commands import Command, check_command
from pullcord.core.conditions import Used
from pullcord.core.events import Record
from pullcord.core.fold import ends
from pullcord.core.run import Run
from pullcord.core.run_ids import the_one
from pullcord.core.states import RunState
from pullcord.core.stops import StopShown
from pullcord.core.values import check_id
from pullcord.errors import InvalidInput, JournalError
from pullcord.journal.monotonic import monotonic_now
from pullcord.journal.open_store import opened
from pullcord.journal.rules.leases import is_driven
from pullcord.journal.rules.ledger import Ledger
from pullcord.journal.rules.limit_checks import used_of
from pullcord.journal.rules.undriven_stops import Stopping, perform
from pullcord.journal.store import Head, Store, View
from pullcord.journal.store_location import is_url
from pullcord.journal.stored_runs.run_records import ALL, existing
from pullcord.journal.stored_runs.snapshots import load
from pullcord.killswitch.flags import Flags
from pullcord.lazy_import import lazy_import
from pullcord.process import stands_still

if TYPE_CHECKING:
    from pullcord.core.receipts import Receipt
    from pullcord.core.show.panel import Panel
    from pullcord.journal.stored_runs.run_records import Cursor, Item
    from pullcord.journal.views import for_people
    from pullcord.journal.views.for_people import ForPeople
    from pullcord.journal.views.inbox import Inbox
else:
    for_people = lazy_import("pullcord.journal.views.for_people")

T = TypeVar("T")


class LocalRuns:
    """One store, for one command."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.where = store.name
        self.clock = store.clock
        self._ledger = Ledger(self.clock, flags=Flags(store.beside))
        self._stopping = Stopping(self._ledger, store.beside)

    def command(self, run_id: str, command: Command) -> Ack:
        check_id(run_id)
        command = sealed(command)
        check_command(command)
        perform(self._stopping.finish_cancelled(), self.store)
        return perform(self._stopping.command(run_id, command), self.store)

    def read(self, look: Callable[[View], T]) -> T:
        return self.store.read(look)

    def look(self, at: "Callable[[ForPeople], T]", *, hold_s: float = 10.0) -> T:
        """Return what is found at one look, as people may see it."""
        people = for_people.ForPeople
        return self.read(lambda view: at(people(view, self.clock, hold_s=hold_s)))

    def used(self, run_id: str) -> Used:
        """What the run, and everybody who works for it, has used up."""
        return self.read(lambda view: used_of(view, run_id, monotonic_now(view, self.clock)))

    def run(self, run_id: str) -> tuple[Head, Run]:
        def look(view: View) -> tuple[Head, Run]:
            head = existing(view, run_id)
            return head, load(view, head)

        return self.read(look)

    def find(self, said: str) -> str:
        check_id(said)
        return the_one(said, self.read(lambda view: view.beginning_with(said, limit=4)))

    def glance(self, run_id: str) -> Glance:
        head = self.read(lambda view: existing(view, run_id))
        is_driven = self.is_driven(head)
        return Glance(head.state, is_driven, stands_still(head.holder.owner) if is_driven else "")

    def questions(self, run_id: str) -> dict[str, str]:
        _, run = self.run(run_id)
        return {name: run.questions[name].call for name in run.open_questions()}

    def records(self, run_id: str, after: int = 0, limit: int | None = None) -> list[Record]:
        most = ALL if limit is None else limit
        return self.look(lambda look: look.records(run_id, after, most))

    def receipt(self, run_id: str) -> "Receipt":
        return self.look(lambda look: look.receipt(run_id))

    def is_driven(self, head: Head) -> bool:
        """Whether a living process holds it."""
        return is_driven(head, self.clock.boot_time())

    def ids(self, states: Iterable[RunState], limit: int) -> list[str]:
        found = self.read(
            lambda view: view.heads(states=states, thread=None, before=None, limit=limit)
        )
        return [head.run_id for head in found]

    def panel(self, run_id: str) -> "Panel":
        return self.look(lambda look: look.panel(run_id))

    def listed(self, states: Iterable[RunState], limit: int) -> "list[Panel]":
        return self.look(lambda look: look.panels(states, limit=limit))

    def waiting(self, run_id: str | None) -> "Inbox":
        return self.look(lambda look: look.inbox(run_id))

    def stream(self, run_id: str, after: "Cursor") -> "Iterator[Item]":
        _, run = self.run(run_id)
        if after.seq > run.seq:
            raise InvalidInput(
                f"Run {run_id} has no record {after.seq}: it ends at {run.seq}. An id belongs to "
                "the run that it was seen in."
            )
        if run.ended and after.seq >= run.state_seq:
            return
        listener = self.store.listen()
        try:
            while True:
                for after, item in self.look(lambda look, at=after: look.news(run_id, at)).items:
                    yield after, item
                    if isinstance(item, Record) and ends(item.event):
                        return
                listener.wait(5.0)
        finally:
            listener.close()

    def note_shown(self, run_id: str, said: StopShown) -> None:
        with suppress(JournalError):  # whoever only watches is told nothing of such trouble
            self.store.write(lambda tx: self._ledger.note(tx, said, run_id))

    def begin(self, verb: str, run_id: str | None, said: dict[str, Any]) -> str:
        raise InvalidInput(f"{verb} needs a process to drive it. Nothing was started.")

    def wait(self, run_id: str, holds: Callable[[], T | None], timeout_s: float | None) -> T | None:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        listener = self.store.listen()
        try:
            while True:
                if (found := holds()) is not None:
                    return found
                left = 5.0 if until is None else min(until - time.monotonic(), 5.0)
                if left <= 0:
                    return None
                listener.wait(left)
        finally:
            listener.close()


def existing_store(asked: Any) -> str:
    """The path or the URL of the store that is meant. One that is not there is not made.

    Raises:
        InvalidInput: there is none.
    """
    path = store_path(asked.store)
    if not is_url(path) and not os.path.exists(path):
        raise InvalidInput(
            f"There is no store at {path}. Nothing was changed. Name the one that is meant with "
            "--store or PULLCORD_STORE, or start a first run: pullcord run FILE.py:NAME"
        )
    return path


@contextmanager
def local_runs(asked: Any) -> Generator[LocalRuns]:
    """Open the store that is meant."""
    store = opened(existing_store(asked), make=False)
    try:
        yield LocalRuns(store)
    finally:
        store.close()
