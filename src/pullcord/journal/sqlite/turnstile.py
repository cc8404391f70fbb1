"""Fair turns between processes at one file.

SQLite lets whoever asks at the right moment write, so a process that writes without a break can
keep another one out for as long as it likes. A turnstile in front of the lock prevents it: pass
the turnstile, wait for the lock, free the turnstile, write. While one writes, the next is already
through the turnstile, and the first finds it closed when it comes back.
(tests/promises/test_a_busy_owner_never_starves_a_control.py)
"""

import fcntl
import os
import time
from pathlib import Path
from typing import Final

from pullcord.regular_file import open_regular

POLL_S: Final = 0.0002


class TurnTimeout(Exception):
    """Somebody has stood in the turnstile for longer than the caller would wait."""


class Turnstile:
    """An advisory lock on a file of its own. Never on the database: closing any descriptor of
    that file would drop SQLite's own locks in this process."""

    def __init__(self, path: Path) -> None:
        self._fd = open_regular(path, os.O_RDWR | os.O_CREAT)

    def enter(self, *, until_s: float) -> None:
        """Wait to be alone in the turnstile, until `time.monotonic()` reaches `until_s`.

        Polled, because flock() cannot be given a time limit and this thread must be able to say
        that it waited in vain. The turnstile is free for as long as anyone writes, so a poll
        that is quicker than one fsync is enough to be next.
        """
        while True:
            try:
                return fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                if time.monotonic() > until_s:
                    raise TurnTimeout from None
            time.sleep(POLL_S)

    def leave(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._fd)


def locks_hold(path: Path) -> bool:
    """Whether a lock taken through one descriptor keeps a second one out.

    On a network file system mounted without locking, every process would be let in at once.
    """
    first = open_regular(path, os.O_RDWR | os.O_CREAT)
    try:
        second = open_regular(path, os.O_RDWR)
    except OSError:
        os.close(first)
        raise
    try:
        fcntl.flock(first, fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            fcntl.flock(second, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        return False
    except BlockingIOError:
        return True  # someone else holds it: so locks do hold
    except OSError:
        return False
    finally:
        os.close(first)
        os.close(second)
