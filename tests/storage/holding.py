"""A process that stands in the middle of a write to a store, or in the turnstile before it, until
its input ends: `python -m tests.storage.holding PATH write|turnstile`."""

import os
import sys
import time
from pathlib import Path

from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.journal.sqlite.turnstile import Turnstile


def wait(*_: object) -> None:
    print(f"holds {os.getpid()}", flush=True)
    sys.stdin.read()


def main(path: Path, where: str) -> None:
    store = SqliteStore(path)
    if where == "turnstile":
        Turnstile(Path(f"{path}-side") / "turn").enter(until_s=time.monotonic() + 1)
        wait()
    else:
        store.write(wait)
    store.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
