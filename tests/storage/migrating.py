"""A child that brings a file up to date, and does nothing else: `migrating PATH`."""

import sys

from pullcord.journal.sqlite.backend import SqliteStore
from tests.storage.openers import NEWER

if __name__ == "__main__":
    SqliteStore(sys.argv[1], migrations=NEWER).close()
