"""The environment that a process tool or a command is started with.

It is that of this process, less what would let a tool act as somebody else: the variables that
`PULLCORD_SECRETS` names, every variable whose value holds a registered secret, the database's
password, and whatever is ours. A tool that needs one of them says so by name.
"""

import os
from collections.abc import Collection, Mapping
from typing import Final

from pullcord.core.secrets import Secrets

_OURS: Final = "PULLCORD_"
_NAMED: Final = "PULLCORD_SECRETS"
_CREDENTIALS: Final = frozenset({"PGPASSWORD"})


def named_secrets() -> list[str]:
    """The variables that `PULLCORD_SECRETS` names."""
    return [name.strip() for name in os.environ.get(_NAMED, "").split(",") if name.strip()]


def for_tools(
    secrets: Secrets, *, needs: Collection[str] = (), given: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Return what a tool finds. `needs`: what it asks for by name; `given`: what it is handed."""
    withheld = {*named_secrets(), *_CREDENTIALS} - set(needs)
    inherited = {
        name: value
        for name, value in os.environ.items()
        if name not in withheld and (name in needs or not secrets.are_in(value))
    }
    both = {**inherited, **(given or {})}
    return {name: value for name, value in both.items() if not name.startswith(_OURS)}
