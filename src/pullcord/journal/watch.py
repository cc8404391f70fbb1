"""The one thread that hears. It has no event loop, so nothing an agent does can deafen it."""

import logging
import threading
from collections.abc import Callable
from typing import Final

from pullcord.journal.store import Store

_log: Final = logging.getLogger("pullcord.journal")
_LISTEN_S: Final = 5.0
_AGAIN_S: Final = 0.05


class Watch:
    """Tells its listeners which runs have changed, after each commit by anyone."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._listener = store.listen()
        self._mark = store.read(lambda view: view.position())
        self._told: dict[object, Callable[[frozenset[str]], None]] = {}
        self._changing = threading.Lock()
        self._closing = False
        self._pause = threading.Event()
        self._thread = threading.Thread(target=self._hear, name="pullcord-control", daemon=True)
        self._thread.start()

    def add(self, on_change: Callable[[frozenset[str]], None]) -> Callable[[], None]:
        token = object()
        with self._changing:
            self._told = {**self._told, token: on_change}

        def remove() -> None:
            with self._changing:
                self._told = {t: told for t, told in self._told.items() if t is not token}

        return remove

    def close(self) -> None:
        self._closing = True
        self._pause.set()
        self._listener.wake()
        if threading.current_thread() is not self._thread:
            self._thread.join()

    def _hear(self) -> None:
        """For as long as the process lives: trouble with the store must not deafen it for good."""
        is_due = False
        while not self._closing:
            try:
                is_due = self._listener.wait(_AGAIN_S if is_due else _LISTEN_S) or is_due
                if is_due:
                    self._tell()
                    is_due = False
            except Exception:
                if not self._closing:
                    _log.exception("Could not read what has changed; looking again.")
                    is_due = True
                    self._pause.wait(_AGAIN_S)
        self._listener.close()

    def _tell(self) -> None:
        self._mark, runs = self._store.read(lambda view: view.changed(self._mark))
        if not runs:
            return
        changed = frozenset(runs)
        for told in self._told.values():
            try:
                told(changed)
            except Exception:  # a listener's own fault must not deafen the others
                _log.exception("A listener failed; the others are told all the same.")
