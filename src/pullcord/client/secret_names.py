"""Secrets of a command line: `PULLCORD_SECRETS` names the environment variables that hold them."""

import os
from typing import TYPE_CHECKING, TypeVar

from pullcord.errors import InvalidInput
from pullcord.lazy_import import lazy_import

if TYPE_CHECKING:
    import msgspec

    from pullcord.core.text import sealing as sealing
    from pullcord.core.text import secrets
else:
    secrets = lazy_import("pullcord.core.text.secrets")
    sealing = lazy_import("pullcord.core.text.sealing")

T = TypeVar("T", bound="msgspec.Struct")


def from_environment() -> dict[str, str]:
    """Return the registered secrets, each under the name of its variable.

    Raises:
        InvalidInput: a variable is not set.
    """
    names = [name for name in os.environ.get("PULLCORD_SECRETS", "").split(",") if name.strip()]
    found = {name.strip(): os.environ.get(name.strip(), "") for name in names}
    if missing := [name for name, value in found.items() if not value]:
        raise InvalidInput(
            f"PULLCORD_SECRETS names {missing[0]}, and there is no such variable in the "
            "environment. Nothing was changed. Set it, or do not name it."
        )
    return found


def sealed(command: T) -> T:
    """Return the command with references in place of secrets. Without secrets it loads nothing."""
    if not (known := from_environment()):
        return command
    return sealing.sealed(command, secrets.Secrets(known))
