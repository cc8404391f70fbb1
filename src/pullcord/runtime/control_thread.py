"""How a control reaches what is in flight, also when the owner's event loop is blocked.

Before each model or tool call the owner registers a *cutter*: a function that stops that call
from any thread (shut a socket, tell the warden, `call_soon_threadsafe(task.cancel)`). The thread
that hears of commits fires it. The journal has decided by then: a cutter is only an effector.
"""

import logging
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, TypeAlias

from pullcord.core.events import Control, Record
from pullcord.errors import PullcordError
from pullcord.journal.journal import Journal
from pullcord.journal.watch import Changed

_log: Final = logging.getLogger("pullcord.runtime")
Cut: TypeAlias = Callable[[Control], None]


class ControlThread:
    """Fires the cutters of the runs this process owns. No asyncio in here."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._cutters: dict[str, list[_Cutter]] = {}
        self._lock = threading.Lock()
        self._stop = journal.changes.watch(self._heard)

    @contextmanager
    def cutting(self, run_id: str, cut: Cut, *, after_seq: int) -> Generator[None]:
        """Have `cut(control)` called for every control recorded after `after_seq`, while inside.

        `after_seq` is the record of the call's own intent: a control that slipped in between is
        heard, too. Each is handed over once, in order, from the control thread: the store may be
        away, and must not hold up an event loop, nor fail a call. `cut` must be quick; what it
        raises is logged.
        """
        cutter = _Cutter(cut, after_seq)
        with self._lock:
            self._cutters.setdefault(run_id, []).append(cutter)
        try:
            self._journal.changes.ask(run_id)
            yield
        finally:
            cutter.close()
            with self._lock:
                self._cutters[run_id].remove(cutter)
                if not self._cutters[run_id]:
                    del self._cutters[run_id]

    def close(self) -> None:
        self._stop()

    def _heard(self, changed: Changed) -> None:
        failed: Exception | None = None
        for run_id in changed:
            with self._lock:
                cutters = list(self._cutters.get(run_id, ()))
            try:
                if cutters:
                    oldest = min(cutter.seen_seq for cutter in cutters)
                    records = self._journal.changes.read_now(run_id, after_seq=oldest)
                    for cutter in cutters:
                        cutter.hear(records)
            except PullcordError as error:
                failed = error  # the other runs first; the watch comes back with all of them
        if failed:
            raise failed


class _Cutter:
    def __init__(self, cut: Cut, seen_seq: int) -> None:
        self.seen_seq = seen_seq
        self._cut = cut
        self._lock = threading.Lock()
        self._is_closed = False

    def close(self) -> None:
        """From here on nothing is cut: what it would close may be someone else's by now."""
        with self._lock:
            self._is_closed = True

    def hear(self, records: list[Record]) -> None:
        with self._lock:  # two threads may bring the same news
            for record in records:
                if record.seq <= self.seen_seq or self._is_closed:
                    continue
                self.seen_seq = record.seq
                if isinstance(record.event, Control):
                    try:
                        self._cut(record.event)
                    except Exception:  # the other calls in flight must be cut all the same
                        _log.exception("A cutter failed: %s", type(record.event).__name__)
