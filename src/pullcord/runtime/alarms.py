"""Being woken after a while, by the clock that was handed in."""

import asyncio
from collections.abc import Callable
from typing import Protocol, TypeAlias, runtime_checkable

CallOff: TypeAlias = Callable[[], object]


@runtime_checkable
class Alarms(Protocol):
    """A clock that can also wake somebody. `ManualClock` is one."""

    def after(self, seconds: float, ring: Callable[[], object]) -> CallOff:
        """Call `ring` in this event loop once `seconds` have passed. Return what calls it off."""
        ...


class LoopAlarms:
    """Alarms of the running event loop."""

    def after(self, seconds: float, ring: Callable[[], object]) -> CallOff:
        return asyncio.get_running_loop().call_later(seconds, ring).cancel


class Alarm:
    """One alarm that is set again and again. Setting it while it is set changes nothing."""

    def __init__(self, alarms: Alarms, ring: Callable[[], object]) -> None:
        self._alarms = alarms
        self._ring = ring
        self._call_off: CallOff | None = None
        self.has_rung = False  # and was neither set again nor called off since

    @property
    def is_set(self) -> bool:
        return self._call_off is not None

    def set(self, seconds: float) -> None:
        if self._call_off is None:
            self.has_rung = False
            self._call_off = self._alarms.after(seconds, self._rings)

    def off(self) -> None:
        self.has_rung = False
        if self._call_off is not None:
            self._call_off()
            self._call_off = None

    def _rings(self) -> None:
        self._call_off, self.has_rung = None, True
        self._ring()
