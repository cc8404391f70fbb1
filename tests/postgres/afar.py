"""The command line on a PostgreSQL store. See `tests.cli.terminal`."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from pullcord.errors import InvalidInput
from pullcord.journal.open_store import opened
from pullcord.journal.store import Store, View
from tests.cli.terminal import Terminal
from tests.postgres.server import until

T = TypeVar("T")


class Afar(Terminal):
    """A terminal whose store is somewhere else."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self.url = url
        self.env |= {"PULLCORD_STORE": url, "PULLCORD_STATE": str(folder / "state")}

    def _until(self, look: Callable[[View], T | None]) -> T:
        found: list[Store] = []
        until(lambda: self._opened(found))
        [store] = found
        listener = store.listen()
        try:
            while (seen := store.read(look)) is None:
                listener.wait(1.0)
            return seen
        finally:
            listener.close()
            store.close()

    def _opened(self, found: list[Store]) -> bool:
        try:
            found.append(opened(self.url, make=False))
        except InvalidInput:  # nobody has made it yet
            return False
        return True
