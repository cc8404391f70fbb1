"""How the switch stands, as every surface shows it: a command, a server, the page."""

from collections.abc import Sequence
from typing import Any, TypeAlias

from pullcord.killswitch.flags import Flag, Flags
from pullcord.killswitch.pulled import Pulled

Report: TypeAlias = dict[str, Any]
"""`engaged`: the flags that are raised; `held`: runs in their reach; `asked`, `killed`,
`not_stopped`, `took_ms`: what pulling them did; `why_not_recorded`: empty if the journal knows."""


def report(
    flags: Flags, held: Sequence[str], pulled: Sequence[Pulled], *, why_not_recorded: str = ""
) -> Report:
    return {
        "engaged": [_shown(flag) for flag in flags.raised()],
        "held": list(held),
        "recorded": not why_not_recorded,
        "asked": sum(one.asked for one in pulled),
        "killed": [pid for one in pulled for pid in one.killed],
        "not_stopped": [{"what": what, "why": why} for one in pulled for what, why in one.left],
        "took_ms": max((one.took_ms for one in pulled), default=0),
        "why_not_recorded": why_not_recorded,
    }


def _shown(flag: Flag) -> Report:
    return {
        "scope": flag.scope.kind or "all",
        "name": flag.scope.name,
        "by": flag.by,
        "reason": flag.reason,
        "at_ms": flag.at_ms,
    }
