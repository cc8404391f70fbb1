"""A store that is only looked at: nothing of it is made, moved or brought up to date."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, cast
from urllib.parse import quote

import apsw

from pullcord.errors import InvalidInput
from pullcord.journal.sqlite.file import explained, refuse_foreign
from pullcord.journal.sqlite.rows import Connection
from pullcord.journal.sqlite.schema import MIGRATIONS
from pullcord.journal.store import View

_SINCE: Final = 5  # the version from which on the tables are as they are read


@contextmanager
def looking_at(path: Path) -> Generator[View]:
    """One consistent look at the store at `path`, which may lie where nothing can be written.

    Raises:
        InvalidInput: there is none, or it is older than the stop log.
        FormatUnknown, StoreRefused, StorageFailed: it is newer, not ours, or damaged.
    """
    if not path.is_file():
        raise InvalidInput(f"There is no store at {path}. Nothing was done. Name it with --store.")
    try:
        refuse_foreign(path, len(MIGRATIONS))
        db = _opened(path)
        try:
            version = cast("int", db.pragma("user_version"))
            if version < _SINCE:
                raise InvalidInput(
                    f"The store {path} is of version {version}, which had no stop log. Nothing was "
                    f"done. Bring it up to date by opening it: pullcord ps --store {path}"
                )
            db.config(apsw.SQLITE_DBCONFIG_ENABLE_QPSG, 1)  # as for those who write: see `backend`
            db.execute("BEGIN")
            yield Connection(db)
        finally:
            db.close()
    except apsw.Error as error:
        raise explained(error, "Reading", path) from error


def _opened(path: Path) -> apsw.Connection:
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
        db.set_busy_timeout(30_000)
        db.pragma("schema_version")
        return db
    except apsw.CantOpenError:  # no room for what readers share: a copy on something read-only
        wal = f"{path}-wal"
        if os.path.exists(wal) and os.path.getsize(wal):
            raise
        flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
        return apsw.Connection(f"file:{quote(str(path))}?immutable=1", flags=flags)
