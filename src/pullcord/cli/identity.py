"""The name to sign with."""

import os
import pwd


def whoami(given: str | None) -> str:
    """The name to sign with: given, from the environment, or the account's."""
    if known := given or os.environ.get("PULLCORD_USER") or os.environ.get("USER"):
        return known
    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:  # an account without a name, as in many containers
        return f"uid-{os.getuid()}"
