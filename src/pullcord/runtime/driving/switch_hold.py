"""Applies the kill switch to the runs that this process drives: cuts, holds, and names the rest."""

import asyncio
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from typing import Final, TypeAlias

from pullcord.killswitch.flags import Scope, Whose
from pullcord.runtime.driving.driver import Driver
from pullcord.runtime.processes.started_work import StartedWork, left_running

_NAMED_MAX: Final = 50
GoesOn: TypeAlias = Callable[[], bool]
_Minded: TypeAlias = tuple["weakref.ref[StartedWork]", list[Whose], str]


class SwitchHold:
    """Implements `switch_watch.Held`. Made in the runtime's loop, used by the switch's thread."""

    def __init__(
        self,
        drivers: Mapping[str, Driver],
        covers: Callable[..., Scope | None],
        news: Callable[[], None],
    ) -> None:
        self._drivers, self._covers, self._news = drivers, covers, news
        self._loop: asyncio.AbstractEventLoop | None = None
        self._minded: list[tuple[list[Whose], str, GoesOn]] = []
        # Work that a call has started refers to it. Without such work it disappears from here.
        self._started: dict[int, _Minded] = {}

    def open(self) -> None:
        self._loop = asyncio.get_running_loop()

    def cut_sockets(self) -> None:
        for driver in self._held():
            driver.cut_sockets()

    def hold(self) -> None:
        if self._loop:
            with suppress(RuntimeError):  # the loop is closed: nothing is driven
                self._loop.call_soon_threadsafe(self._tell)

    def going_on(self) -> list[tuple[str, str]]:
        left = dict(one for driver in self._held() for one in driver.going_on())
        why = "nobody can stop a thread, nor what ignores being cancelled"
        for whose, what, goes_on in tuple(self._minded):
            if goes_on() and self._covers(*whose):
                left.setdefault(what, why)
        for whose, what, names in self._left_running():
            if self._covers(*whose):
                left.setdefault(what, f"it was left running: {', '.join(names)}")
        return list(left.items())[:_NAMED_MAX]

    @property
    def is_anything_left(self) -> bool:
        """Whether work goes on that belongs to no step, and may outlive the runtime."""
        return any(goes_on() for _, _, goes_on in tuple(self._minded)) or any(self._left_running())

    def mind(self, whose: list[Whose], what: str, goes_on: GoesOn | StartedWork) -> None:
        """Watch work that belongs to no step of its run, or may outlive the run."""
        if isinstance(goes_on, StartedWork):
            key = id(goes_on)
            gone = weakref.ref(goes_on, lambda _: self._started.pop(key, None))
            self._started[key] = (gone, whose, what)
            return
        self._minded = [one for one in self._minded if one[2]()]
        self._minded.append((whose, what, goes_on))

    def _left_running(self) -> Iterator[tuple[list[Whose], str, tuple[str, ...]]]:
        """Yield the names of ongoing work that minded calls have started."""
        minded = tuple(self._started.values())
        found = left_running(*([self._loop] if self._loop else [])) if minded else {}
        for gone, whose, what in minded:
            if (started := gone()) is not None and (names := found.get(started)):
                yield whose, what, names

    def _held(self) -> list[Driver]:
        return [driver for driver in tuple(self._drivers.values()) if driver.live.is_switched_off]

    def _tell(self) -> None:
        """Cut all runs before any of them writes to the journal, which takes its time."""
        for driver in tuple(self._drivers.values()):
            driver.hold_off()
            driver.live.news()
        self._news()
