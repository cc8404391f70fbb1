"""How the switch stands, as every surface shows it: a command, a server, the page."""

from typing import Any, TypeAlias

from pullcord.killswitch.engaging import Pulled
from pullcord.killswitch.flags import Flag, Flags

Report: TypeAlias = dict[str, Any]
"""`engaged`: the flags that are raised; `held`: runs in their reach; `not_stopped`: what goes on
all the same, as far as this is known; `recorded`: whether the journal knows of it."""


def report(flags: Flags, held: list[str], *, pulled: Pulled | None = None) -> Report:
    said: Report = {
        "engaged": [shown(flag) for flag in flags.raised()],
        "held": held,
        "recorded": True,
        "asked": 0,
        "killed": [],
        "not_stopped": [],
        "took_ms": 0,
    }
    if pulled:
        said["asked"], said["killed"] = pulled.asked, pulled.killed
        said["not_stopped"] = [{"what": one.what, "why": one.why} for one in pulled.left]
        said["took_ms"] = pulled.took_ms
    return said


def shown(flag: Flag) -> Report:
    return {
        "scope": flag.scope.kind or "all",
        "name": flag.scope.name,
        "by": flag.by,
        "reason": flag.reason,
        "at_ms": flag.at_ms,
    }
