"""Which store is meant: a file, or a server's database. Loads only the one."""

import os
from typing import TYPE_CHECKING

from pullcord.errors import StoreRefused
from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.journal.store import Store
from pullcord.journal.store_location import is_url, shown_location
from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    from pullcord.journal.postgres import backend
else:
    backend = lazy_import("pullcord.journal.postgres.backend")


def opened(
    store: str | os.PathLike[str], *, busy_timeout_s: float = 30.0, make: bool = True
) -> Store:
    """Open it, made if there is none. Without `make`, a server's database is left as it is.

    Raises:
        InvalidInput: there is none, and it is not to be made.
        StoreRefused: it cannot serve as a store; the message says what to do.
        FormatUnknown: a newer pullcord wrote it.
        StorageFailed: it is not to be had now.
    """
    said = os.fspath(store)
    if not is_url(said):
        return SqliteStore(said, busy_timeout_s=busy_timeout_s)
    try:
        make_store = backend.PostgresStore
    except ImportError as error:  # the package, or the library below it
        raise StoreRefused(
            shown_location(said),
            why=f"it needs psycopg, which is not installed ({error.name or error})",
            instead="Install it: pip install 'pullcord[postgres]'",
        ) from None
    return make_store(said, busy_timeout_s=busy_timeout_s, make=make)
