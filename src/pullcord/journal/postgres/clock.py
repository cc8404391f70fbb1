"""The clock of a PostgreSQL store: the database's own, which all machines that use it share.

A boot's clock would not do here: on another machine every lease of this one would look lapsed, and
two owners would fight over a run. The server is asked in each transaction, along with the rest;
in between this machine's own clock counts on from there.
"""

import threading
from typing import Final

from pullcord.journal.clock import BootTime, Clock, SystemClock

NOW: Final = "(extract(epoch FROM clock_timestamp())::float8)"
SHOWN: Final = f"greatest(seen_s, {NOW} + ahead_s)"
"""What the store's clock shows. A server whose clock is set back does not set this one back: it
goes on from where it was, ahead of the server's by `ahead_s` from then on."""
KEEP_UP: Final = (  # once a second is enough, by whoever comes first: nobody waits for the others
    f"UPDATE store SET seen_s = greatest(seen_s, {NOW} + ahead_s), "
    f"ahead_s = greatest(ahead_s, seen_s - {NOW}) "
    f"WHERE seen_s < {NOW} + ahead_s - 1 OR seen_s > {NOW} + ahead_s"
)
"""Notes what it has shown. After the server's clock was set back, it may go back by as long as
nobody has noted it: about a second. Then a lease ends later for others than for its owner."""


class DatabaseClock:
    """Leases by the database's clock; the time for people is this machine's."""

    def __init__(self, machine: Clock | None = None) -> None:
        self._machine = machine or SystemClock()
        self._lock = threading.Lock()
        self._boot, self._shown_s, self._at_s = "", 0.0, self._here_s()

    def begin(self, boot: str) -> None:
        """`boot`: which database's clock it is."""
        self._boot = boot

    def hear(self, shown_s: float) -> None:
        """What the database's clock shows just now. That may be a little less than was counted
        here: to keep the larger one would let a machine with a quick clock run ever further
        ahead."""
        with self._lock:
            self._shown_s, self._at_s = shown_s, self._here_s()

    def wall_ms(self) -> int:
        return self._machine.wall_ms()

    def boot_time(self) -> BootTime:
        with self._lock:
            return BootTime(self._boot, self._shown_s + (self._here_s() - self._at_s))

    def _here_s(self) -> float:
        return self._machine.boot_time().seconds
