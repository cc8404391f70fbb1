"""A child that opens stores when told to, so that two of them can do it at the same time.

Run as a program: each line on stdin is a path; it is opened as a newer build would open it, one
run is written, and the answer is a line on stdout. Ends with its stdin.
"""

import os
import sys
from typing import Final

from pullcord.core.events import Created
from pullcord.journal.clock import SystemClock
from pullcord.journal.rules.ledger import Append, Ledger
from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.journal.sqlite.schema import MIGRATIONS
from tests.storage.writers import say

NEWER: Final = (
    *MIGRATIONS,
    """
    ALTER TABLE runs ADD COLUMN note TEXT NOT NULL DEFAULT '';
    CREATE TABLE notes (run INTEGER PRIMARY KEY, text TEXT NOT NULL) STRICT;
    INSERT INTO notes SELECT num, 'made before there were notes' FROM runs;
    UPDATE runs SET note = 'older';
    """,
)
"""The tables of a build that does not exist yet: one migration more than this one has."""


def open_and_write(path: str) -> str:
    try:
        store = SqliteStore(path, migrations=NEWER)
        try:
            created = Created(agent="a", thread="t")
            new = Append(run_id=f"by-{os.getpid()}", events=[created], expected_seq=0)
            store.write(lambda tx: Ledger(SystemClock()).append(tx, new))
        finally:
            store.close()
    except Exception as error:  # the answer, whatever it is: the test says what it must be
        return f"{type(error).__name__}: {error}"
    return "ok"


if __name__ == "__main__":
    say("ready")
    for line in sys.stdin:
        say(open_and_write(line.rstrip("\n")))
