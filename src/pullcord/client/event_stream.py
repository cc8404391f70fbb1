"""The events of a server, over as many connections as it takes: each once, none left out."""

import threading
import time
from collections.abc import Iterator
from typing import Final

import msgspec

from pullcord.client.answers import read_answer, strange
from pullcord.client.http import Client, Response, ServerEvent
from pullcord.errors import ServerLost, ServerRefused

BACK: Final = "back"  # a connection stands, the first or a later one
LOST: Final = "lost"  # it broke; the next attempt follows
ANEW: Final = "anew"  # viewers may no longer see all of it: the stream begins again
_LATER: Final = (429, 502, 503, 504)  # statuses of a server that was there and will be back
_LONGEST_S: Final = 5.0


class EventStream:
    """One stream of one server. `patience`: how often in a row a connection may be lost."""

    def __init__(
        self,
        client: Client,
        path: str,
        place: str,
        *,
        only: str = "",
        until: float | None = None,
        patience: float = 5,
    ) -> None:
        self._client = client
        self._path, self._place, self._only = path, place, only
        self._until = until
        self._patience = patience
        self._line = client
        self._is_cut = threading.Event()

    def cut(self) -> None:
        """End the stream. Any thread may call it."""
        self._is_cut.set()
        self._line.cut()

    def events(self) -> Iterator[ServerEvent]:
        """Yield the events, and when a connection stands (`back`) or breaks (`lost`, with the
        reason).

        Raises:
            ServerLost: it was lost too often.
            ServerRefused: the caller may not watch, or not any longer.
        """
        lost, has_begun = 0, False
        while not self._is_cut.is_set():
            try:
                for event in self._connected(has_begun=has_begun):
                    has_begun, lost = True, 0
                    yield event
            except ServerLost as error:
                lost += 1
                if lost > self._patience:
                    raise
                yield ServerEvent("", LOST, error.why.encode())
            finally:
                self._line.close()
            if self._until is not None and time.monotonic() >= self._until:
                return
            self._is_cut.wait(0.1 if lost < 2 else min(0.5 * lost, _LONGEST_S))

    def _connected(self, *, has_begun: bool) -> Iterator[ServerEvent]:
        where = self._client.where.url
        self._line = Client(self._client.where, self._client.credential)
        path = f"{self._path}?only={self._only}&after={self._place}"
        is_first = True
        for event in self._line.events(path, self._until):
            if self._is_cut.is_set():
                return
            if isinstance(event, Response):
                if has_begun and event.status in _LATER:
                    raise ServerLost(where, why=f"it answers {event.status}", changes=False)
                read_answer(where, event, msgspec.Raw)
                strange(where, event)
            if is_first:
                is_first = False
                yield ServerEvent("", BACK, b"")
            self._place = event.id or self._place
            yield event
            if event.kind == "bye" and b"revoked" in event.data:
                raise ServerRefused(
                    f"{where} does not let you watch any longer: your right was taken back. The "
                    "run goes on as it is."
                )
