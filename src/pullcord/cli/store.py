"""The store as a command uses it: opened, read or commanded once, closed. No event loop."""

import os
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from pullcord.cli.cord import Glance
from pullcord.cli.identity import whoami as whoami
from pullcord.cli.naming import the_one
from pullcord.cli.parser import store_path
from pullcord.cli.secret_names import sealed
from pullcord.core.acks import Ack
from pullcord.core.commands import Command, check_command
from pullcord.core.conditions import Used
from pullcord.core.events import Record, TextEnded
from pullcord.core.fold import replay
from pullcord.core.receipts import Receipt, receipt
from pullcord.core.run import Run
from pullcord.core.states import RunState
from pullcord.core.stops import StopShown
from pullcord.core.values import check_id
from pullcord.errors import InvalidInput, JournalError
from pullcord.journal.leases import is_driven
from pullcord.journal.ledger import Ledger
from pullcord.journal.limiting import used_of
from pullcord.journal.opening import opened
from pullcord.journal.place import is_url
from pullcord.journal.reading import ALL, existing, records_of
from pullcord.journal.snapshots import load
from pullcord.journal.steady import steady_now
from pullcord.journal.stopping import Stopping, perform
from pullcord.journal.store import Head, Store, View
from pullcord.killswitch.flags import Flags
from pullcord.lazy_import import lazy_import
from pullcord.process import stands_still

if TYPE_CHECKING:
    from pullcord.cli import store_looking as looking
    from pullcord.cli.shapes import Waiting
    from pullcord.core import withhold as seen
    from pullcord.core.panel import Panel
    from pullcord.journal import families
    from pullcord.journal.reading import Cursor, Item
else:
    families = lazy_import("pullcord.journal.families")
    looking = lazy_import("pullcord.cli.store_looking")
    seen = lazy_import("pullcord.core.withhold")

T = TypeVar("T")


class Desk:
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

    def now_ms(self) -> int:
        """What the clock shows by which time is counted. It never jumps."""
        return self.read(lambda view: steady_now(view, self.clock))

    def used(self, run_id: str) -> Used:
        """What the run, and everybody who works for it, has used up."""
        return self.read(lambda view: used_of(view, run_id, steady_now(view, self.clock)))

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
        _, run = self.run(run_id)
        hide = run.cancel is not None and run.cancel.quarantine
        most = ALL if limit is None else limit
        found = self.read(lambda view: records_of(view, run_id, after, most))
        replace = msgspec.structs.replace
        return [replace(one, event=seen.as_viewed(one.event, hide=hide)) for one in found]

    def receipt(self, run_id: str) -> Receipt:
        """What the run has left behind, with the text that was cut."""
        records = self.read(lambda view: records_of(view, run_id))
        cut = {r.event.part: r.event.text for r in records if isinstance(r.event, TextEnded)}
        run = replay(run_id, records)
        theirs = self.read(lambda view: list(families.members(run, families.finding(view))))
        return receipt(run, cut, theirs)

    def is_driven(self, head: Head) -> bool:
        """Whether a living process holds it."""
        return is_driven(head, self.clock.boot_time())

    def ids(self, states: Iterable[RunState], limit: int) -> list[str]:
        found = self.read(
            lambda view: view.heads(states=states, thread=None, before=None, limit=limit)
        )
        return [head.run_id for head in found]

    def panel(self, run_id: str) -> "Panel":
        return looking.panel(self.store, run_id)

    def listed(self, states: Iterable[RunState], limit: int) -> "list[Panel]":
        return looking.listed(self.store, states, limit)

    def waiting(self, run_id: str | None) -> "Waiting":
        return looking.waiting(self.store, run_id)

    def stream(self, run_id: str, after: "Cursor") -> "Iterator[Item]":
        return looking.stream(self.store, run_id, after)

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
def desk(asked: Any) -> Generator[Desk]:
    """Open the store that is meant."""
    store = opened(existing_store(asked), make=False)
    try:
        yield Desk(store)
    finally:
        store.close()


reach = desk
