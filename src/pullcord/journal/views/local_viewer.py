"""A viewer on this machine that reads a run without a server."""

from collections.abc import Callable

from pullcord.core.events import Record, TextEnded
from pullcord.core.show.viewer_progress import ViewerProgress, shown
from pullcord.core.stops import HEARD, StopShown
from pullcord.journal.store import LiveText


class LocalViewer:
    """Tracks what a terminal was sent and has displayed, and reports that at a stop (`noted`)."""

    def __init__(
        self, who: str, via: str, *, since: int, noted: Callable[[StopShown], None]
    ) -> None:
        """`since`: the last record before the viewer came. It saw none of the stops up to there."""
        self._handed = ViewerProgress(who, via)
        self._since = since
        self._noted = noted

    def comes(self, item: Record | LiveText) -> None:
        if isinstance(item, Record) and item.seq > self._since:
            self._since = item.seq  # so that reading the run again reports no stop twice
            if type(item.event) in HEARD:
                self._noted(shown(item.seq, [self._handed]))

    def has(self, item: Record | LiveText) -> None:
        if isinstance(item, LiveText):
            self._handed.text(item.part, item.offset + len(item.text))
        else:
            ended = item.event.part if isinstance(item.event, TextEnded) else ""
            self._handed.record(item.seq, ended=ended)
        self._handed.taken()
