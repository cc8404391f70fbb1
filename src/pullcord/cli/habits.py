"""How patient the runtime of a command is."""

from typing import Any

from pullcord.runtime.site import Habits


def habits_of(asked: Any) -> Habits:
    """A process of our own commands may be killed by the kill switch. `lease_s` of pullcord.toml
    says how long it keeps its runs when it cannot reach the store."""
    if asked.lease_s is None:
        return Habits(killable=True)
    return Habits(killable=True, lease_s=asked.lease_s)
