"""What lies beside a store on this machine: the kill switch, the anchor, the folder in which
runtimes announce themselves. Nothing here needs a database: see `killswitch`."""

import re
from typing import TYPE_CHECKING, Final

from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    from pullcord.journal.postgres import address
else:
    address = lazy_import("pullcord.journal.postgres.address")

_MEANT: Final = re.compile(
    r"[\s'\"]*postgres(ql)?(\+\w*)?://|(.*\s)?(host|hostaddr|dbname|user|password|service)\s*=",
    re.IGNORECASE,
)


def is_url(store: str) -> bool:
    """Whether a PostgreSQL server is meant, and not a file: also if it is written in a way that is
    then refused. As the name of a file, its password would be shown."""
    return _MEANT.match(store) is not None


def beside(store: str) -> str:
    """The path with which the names of what lies beside the store begin: the file's own, or one in
    a folder of this machine that is named after the server's database.

    Raises:
        StoreRefused: it is a URL that cannot be meant.
    """
    if not is_url(store):
        return store
    return address.parsed(store).beside


def shown_location(store: str) -> str:
    """The store as it may be shown: no password."""
    if not is_url(store):
        return store
    return address.parsed(store).name
