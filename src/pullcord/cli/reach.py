"""Opens what holds the runs that a verb is about. Loads only the one that is meant."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    from pullcord.cli import remote, store
    from pullcord.cli.cord import Cord
else:
    remote = lazy_import("pullcord.cli.remote")
    store = lazy_import("pullcord.cli.store")


def reach(asked: Any) -> "AbstractContextManager[Cord]":
    """The server that was named, or else the store."""
    return remote.reach(asked) if asked.server else store.reach(asked)
