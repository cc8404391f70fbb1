"""A child that tries to open stores it may not write to, and says what it was told.

Run as a program: `unwritable nobody PATH...` gives up root first; `unwritable sealed FOLDER
PATH...` (in a private mount namespace) makes FOLDER read-only first.
"""

import os
import sys
from pathlib import Path
from typing import Final

import msgspec

from pullcord.journal.sqlite.backend import SqliteStore
from tests.storage.disks import mount
from tests.storage.writers import say

_NOBODY: Final = 65534


def attempt(path: str) -> str:
    try:
        SqliteStore(path).close()
    except Exception as error:  # the answer, whatever it is: the test says what it must be
        return f"{type(error).__name__}: {error}"
    return "opened"


def _become_nobody() -> None:
    os.setgroups([])
    os.setgid(_NOBODY)
    os.setuid(_NOBODY)


def _seal(folder: Path) -> None:
    mount("--bind", folder, folder)
    mount("-o", "remount,bind,ro", folder)


def main(how: str, *paths: str) -> None:
    if how == "nobody":
        _become_nobody()
    else:
        _seal(Path(paths[0]))
        paths = paths[1:]
    say(msgspec.json.encode([attempt(path) for path in paths]).decode())


if __name__ == "__main__":
    main(*sys.argv[1:])
