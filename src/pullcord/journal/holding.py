"""What the kill switch means for the journal: every living run in its reach is paused by it."""

from collections.abc import Collection, Iterator
from hashlib import sha256
from typing import Final

from pullcord.core.commands import Pause
from pullcord.core.states import LIVING, RunState
from pullcord.errors import InvalidInput, KillSwitchFailed
from pullcord.journal.store import Head, View
from pullcord.killswitch.flags import Flag, Flags, Scope

_PAGE: Final = 200
_TO_HOLD: Final = (RunState.QUEUED, RunState.RUNNING, RunState.WAITING, RunState.PAUSING)


def pause_by(flag: Flag) -> Pause:
    """The pause that it is. Given twice it is the same one."""
    key = f"kill-switch-{sha256(flag.id.encode()).hexdigest()[:32]}"
    return Pause(
        by=flag.by, reason=flag.reason, source="kill_switch", via=flag.via, key=key, now=True
    )


def to_hold(view: View, flags: Flags) -> list[tuple[str, Flag]]:
    """The runs that are in its reach and not at rest, each with the flag that holds it."""
    return [(head.run_id, flag) for head, flag in _reached(view, flags, _TO_HOLD)]


def held_runs(view: View, flags: Flags) -> list[str]:
    """Every living run in its reach, the newest first."""
    return [head.run_id for head, _ in _reached(view, flags, LIVING)]


def _reached(view: View, flags: Flags, states: Collection[RunState]) -> Iterator[tuple[Head, Flag]]:
    before: str | None = None
    while flags.is_any_raised():
        heads = view.heads(states=states, thread=None, before=before, limit=_PAGE)
        for head in heads:
            if flag := flags.covers(head.agent, head.thread):
                yield head, flag
        if len(heads) < _PAGE:
            return
        before = heads[-1].run_id


def check_engaged(flags: Flags, scope: Scope) -> None:
    """Raises InvalidInput if there is nothing to be released."""
    if scope not in [flag.scope for flag in flags.raised()]:
        raise InvalidInput(
            f"The kill switch is not engaged for {scope}. Nothing was changed. "
            "See what is: pullcord kill-switch status"
        )


def lower(flags: Flags, scope: Scope) -> None:
    try:
        flags.lower(scope)
    except OSError as error:
        now = f"It stays engaged for {scope}."
        raise KillSwitchFailed(
            "released", path=flags.path(scope), why=error.strerror, now=now
        ) from None
