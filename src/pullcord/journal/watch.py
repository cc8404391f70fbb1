"""The one thread that hears. It has no event loop, so nothing an agent does can deafen it."""

import logging
import threading
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from pullcord.errors import StorageFailed
from pullcord.journal.store import Store

_log: Final = logging.getLogger("pullcord.journal")
_LISTEN_S: Final = 5.0
_AGAIN_S: Final = 0.05
_TRIES: Final = 20


Changed: TypeAlias = Mapping[str, int]
"""The runs that have changed, each with the number of its last record; 0: somebody has asked to be
told of it, and it may not have changed."""


class Watch:
    """Tells its listeners which runs have changed, after each commit by anyone."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._listener = store.listen()
        self._mark = store.read(lambda view: view.position())
        self._told: list[_Told] = []
        self._asked: set[str] = set()  # runs that somebody has to hear of, changed or not
        self._changing = threading.Lock()
        self._closing = False
        self._pause = threading.Event()
        self._thread = threading.Thread(target=self._hear, name="pullcord-control", daemon=True)
        self._thread.start()

    def add(self, on_change: Callable[[Changed], None]) -> Callable[[], None]:
        told = _Told(on_change)
        with self._changing:
            self._told = [*self._told, told]

        def remove() -> None:
            with self._changing:
                self._told = [other for other in self._told if other is not told]

        return remove

    def ask(self, run_id: str) -> None:
        """Have everybody told of this run as soon as the store can be read, changed or not."""
        with self._changing:
            self._asked.add(run_id)
            if not self._closing:
                self._listener.wake()

    def close(self) -> None:
        """Tell everybody that it is over, and stop. Safe to call twice."""
        with self._changing:
            if not self._closing:
                self._closing = True
                self._pause.set()
                self._listener.wake()  # still open: it is closed only behind this lock
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _hear(self) -> None:
        """For as long as the process lives: trouble with the store must not deafen it for good."""
        is_due = is_away = False
        while not self._closing:
            try:
                heard = self._listener.wait(_AGAIN_S if is_due else _LISTEN_S)
                is_due = self._tell() if heard or is_due or self._asked else False
                is_away = False
            except Exception as error:
                if not self._closing:
                    self._say(error, is_away)
                    is_due = is_away = True
                    self._pause.wait(_AGAIN_S)
        for told in self._told:
            told.tell({})
        with self._changing:
            self._listener.close()

    def _say(self, error: Exception, is_away: bool) -> None:
        """A store that is away may be so for hours: that is said once."""
        if not isinstance(error, StorageFailed):
            _log.exception("Could not read what has changed; looking again.")
        elif not is_away:
            _log.warning("%s What has changed is looked for until it is there.", error)

    def _tell(self) -> bool:
        """Tell everybody what is new. Return whether somebody has to be told again."""
        changed = self._listener.named()
        if not changed:
            self._mark, changed = self._store.read(lambda view: view.changed(self._mark))
        with self._changing:
            runs = changed if not self._asked else {**dict.fromkeys(self._asked, 0), **changed}
            self._asked.clear()
        told = [told.tell(runs) for told in self._told if runs or told.missed]
        return not all(told)


class _Told:
    """One listener, and what it has failed to take in so far."""

    def __init__(self, on_change: Callable[[Changed], None]) -> None:
        self._on_change = on_change
        self.missed: Changed = {}
        self._failures = 0

    def tell(self, runs: Changed) -> bool:
        try:
            self._on_change({**self.missed, **runs} if self.missed else runs)
        except StorageFailed as error:  # nobody's fault: it is told when the store is back
            if not self.missed:
                _log.warning("%s A listener is told when it is back.", error)
            self.missed = {**self.missed, **runs}
            return False
        except Exception:  # its own fault must not deafen the others
            self._failures += 1
            give_up = self._failures >= _TRIES
            _log.exception(
                "A listener failed; it %s.", "is given up" if give_up else "is told again"
            )
            self.missed = {} if give_up else {**self.missed, **runs}
            return give_up
        self.missed, self._failures = {}, 0
        return True
