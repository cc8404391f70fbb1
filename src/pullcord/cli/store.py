"""The store as a command uses it: opened, read or commanded once, closed. No event loop."""

import os
import pwd
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, TypeVar

from pullcord.cli.parser import store_path
from pullcord.cli.secret_names import sealed
from pullcord.core.commands import Command, check_command
from pullcord.core.conditions import Used
from pullcord.core.decide import Ack
from pullcord.core.events import TextEnded
from pullcord.core.fold import replay
from pullcord.core.receipts import Receipt, receipt
from pullcord.core.run import Run
from pullcord.core.values import check_id
from pullcord.errors import InvalidInput
from pullcord.journal.clock import SystemClock
from pullcord.journal.leases import is_held
from pullcord.journal.ledger import Ledger
from pullcord.journal.limiting import used_of
from pullcord.journal.process import is_gone
from pullcord.journal.reading import existing, records_of
from pullcord.journal.snapshots import load
from pullcord.journal.sqlite import SqliteStore
from pullcord.journal.steady import steady_now
from pullcord.journal.store import Head, Transaction, View

T = TypeVar("T")


class Desk:
    """One store, for one command."""

    def __init__(self, store: SqliteStore) -> None:
        self.store = store
        self.clock = SystemClock()
        self._ledger = Ledger(self.clock)

    def command(self, run_id: str, command: Command) -> Ack:
        check_id(run_id)
        command = sealed(command)
        check_command(command)
        ack = self.store.write(lambda tx: self._ledger.command(tx, run_id, command))
        self.store.poke()
        return ack

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
        """The run that is meant: its whole id, or as much of it as makes it the only one."""
        check_id(said)
        found = self.read(lambda view: view.beginning_with(said, limit=4))
        if len(found) < 2 or said in found:
            return found[0] if len(found) == 1 else said
        raise InvalidInput(
            f"{said} may be any of {', '.join(found[:3])}{' ...' if len(found) > 3 else ''}. "
            "Nothing was changed. Write more of the id."
        )

    def bring_to_rest(self, run_id: str) -> Head:
        """See `Ledger.bring_to_rest`."""

        def work(tx: Transaction) -> Head:
            self._ledger.bring_to_rest(tx, run_id)
            return existing(tx, run_id)

        head = self.store.write(work)
        self.store.poke()
        return head

    def receipt(self, run_id: str) -> Receipt:
        """What the run has left behind, with the text that was cut."""
        records = self.read(lambda view: records_of(view, run_id))
        cut = {r.event.part: r.event.text for r in records if isinstance(r.event, TextEnded)}
        return receipt(replay(run_id, records), cut)

    def is_driven(self, head: Head) -> bool:
        """Whether a living process holds it."""
        return is_held(head, self.clock.boot_time()) and not is_gone(head.holder.owner)

    def wait(self, holds: Callable[[], T | None], timeout_s: float | None) -> T | None:
        """Return what `holds` returns as soon as it is something. None: the time is over."""
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


@contextmanager
def desk(asked: Any) -> Generator[Desk]:
    """Open the store that is meant. One that is not there is not made."""
    path = store_path(asked.store)
    if not os.path.exists(path):
        raise InvalidInput(
            f"There is no store at {path}. Nothing was changed. Name the one that is meant with "
            "--store or PULLCORD_STORE, or start a first run: pullcord run FILE.py:NAME"
        )
    store = SqliteStore(path)
    try:
        yield Desk(store)
    finally:
        store.close()


def whoami(given: str | None) -> str:
    """The name to sign with: given, from the environment, or the account's."""
    if known := given or os.environ.get("PULLCORD_USER") or os.environ.get("USER"):
        return known
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # an account without a name, as in many containers
        return f"uid-{os.getuid()}"
