"""Opens what holds the runs that a verb is about. Loads only the one that is meant."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any

from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    from pullcord.cli import local_runs
    from pullcord.client import server_runs
    from pullcord.client.run_access import RunAccess
else:
    server_runs = lazy_import("pullcord.client.server_runs")
    local_runs = lazy_import("pullcord.cli.local_runs")


def reach(asked: Any) -> "AbstractContextManager[RunAccess]":
    """The server that was named, or else the store."""
    return server_runs.reach(asked) if asked.server else local_runs.local_runs(asked)
