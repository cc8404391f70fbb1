"""The clock by which everything is decided: it never jumps, and every process reads the same.

It is a boot's own clock, moved once per boot so that it shows about what the wall clock showed
then. Setting the machine's clock does not move it; a reboot never moves it back. Only the time
for which the machine was off is taken from the wall clock: nobody else could know it.
"""

from pullcord.journal.clock import Clock
from pullcord.journal.store import Holder, Transaction, View


def monotonic_now(view: View, clock: Clock) -> int:
    """What it shows, in milliseconds. Before anything was written in this boot: what it would."""
    boot, seconds = clock.boot_time()
    base_ms = view.boot_base(boot)
    if base_ms is None:
        return max(clock.wall_ms(), view.latest_ms())
    return base_ms + round(seconds * 1000)


class MonotonicClock:
    """The same for who writes: in a boot in which nobody has written yet, it is set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._set_in = -1  # the transaction that has set it, which may still be rolled back
        self._base = ("", 0)

    def now_ms(self, tx: Transaction) -> int:
        boot, seconds = self._clock.boot_time()
        if self._base[0] == boot:
            return self._base[1] + round(seconds * 1000)
        base_ms = tx.boot_base(boot)
        if base_ms is None:
            base_ms = monotonic_now(tx, self._clock) - round(seconds * 1000)
            tx.put_boot_base(boot, base_ms)
            self._set_in = tx.number()
        elif self._set_in != tx.number():
            self._base = boot, base_ms
        return base_ms + round(seconds * 1000)


def last_sign_of_life(view: View, holder: Holder) -> int:
    """When a holder has claimed or renewed last, on this clock. 0: nobody knows."""
    base_ms = view.boot_base(holder.boot) if holder.boot else None
    return 0 if base_ms is None else base_ms + round(holder.from_s * 1000)
