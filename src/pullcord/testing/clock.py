"""A clock that stands still until a test moves it."""

from collections.abc import Callable

from pullcord.journal.clock import BootTime


class ManualClock:
    """Wall clock, boot time and alarms, moved apart or together."""

    def __init__(self, *, wall_ms: int = 1_700_000_000_000, boot: str = "boot-1") -> None:
        self._wall_ms = wall_ms
        self._boot = BootTime(boot, 1000.0)
        self._alarms: dict[object, tuple[float, Callable[[], object]]] = {}

    def wall_ms(self) -> int:
        return self._wall_ms

    def boot_time(self) -> BootTime:
        return self._boot

    def advance(self, seconds: float) -> None:
        """Time passes."""
        self._wall_ms += round(seconds * 1000)
        self._boot = self._boot._replace(seconds=self._boot.seconds + seconds)
        for alarm, (due_s, ring) in sorted(self._alarms.items(), key=lambda item: item[1][0]):
            if due_s <= self._boot.seconds and self._alarms.pop(alarm, None):
                ring()

    def after(self, seconds: float, ring: Callable[[], object]) -> Callable[[], object]:
        """Have `ring` called when the clock has been moved that far. Returns what calls it off."""
        alarm = object()
        self._alarms[alarm] = (self._boot.seconds + seconds, ring)
        return lambda: self._alarms.pop(alarm, None)

    def jump_wall(self, seconds: float) -> None:
        """Someone sets the machine's clock. No time passes."""
        self._wall_ms += round(seconds * 1000)

    def reboot(self, boot: str) -> None:
        """The machine starts again: boot time begins anew, and no lease from before holds."""
        self._boot = BootTime(boot, 0.0)
