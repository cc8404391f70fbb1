"""Time, handed in. The wall clock is for people; only boot time decides anything."""

import time
from pathlib import Path
from typing import Final, NamedTuple, Protocol

_BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class BootTime(NamedTuple):
    """A reading that never jumps, also not across suspend. Comparable only within one boot."""

    boot: str
    seconds: float


class Clock(Protocol):
    def wall_ms(self) -> int:
        """Milliseconds since 1970, as the machine believes. May jump."""
        ...

    def boot_time(self) -> BootTime:
        """Seconds since this machine booted, and which boot that was."""
        ...


class SystemClock:
    """The machine's own clocks."""

    def __init__(self) -> None:
        try:
            self._boot = _BOOT_ID.read_text().strip()
        except OSError:  # not Linux: a boot is then known by the machine's monotonic origin
            self._boot = f"origin-{round(time.time() - time.monotonic(), -1):.0f}"
        self._source = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)

    def wall_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def boot_time(self) -> BootTime:
        return BootTime(self._boot, time.clock_gettime(self._source))
