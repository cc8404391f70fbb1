"""What the kill switch means for the journal: every living run in its reach is paused by it."""

from collections.abc import Collection, Iterator, Sequence
from contextlib import suppress
from hashlib import sha256
from itertools import islice
from typing import Final

import msgspec

from pullcord.core.commands import Pause
from pullcord.core.events import Created
from pullcord.core.states import LIVING, RunState
from pullcord.core.stops import (
    LISTED_MAX,
    Act,
    SwitchAnswered,
    SwitchEngaged,
    SwitchReleased,
    Unstopped,
    decode_entry,
)
from pullcord.core.stops import Scope as LogScope
from pullcord.errors import InvalidInput, KillSwitchFailed, PullcordError
from pullcord.journal.chain import GENESIS, opened
from pullcord.journal.store import Head, View
from pullcord.killswitch.flags import Flag, Flags, Raised, Scope, Whose
from pullcord.killswitch.pulled import Left, Pulled

_PAGE: Final = 200
HELD_AT_ONCE: Final = 200  # how many runs are paused in one transaction
PAUSED_S: Final = 1.0  # how long whoever has pulled it waits for runs that cannot start anyhow
_ALL: Final = 2**62
_S = RunState
_DRIVEN: Final = (_S.RUNNING, _S.WAITING, _S.PAUSING, _S.STOPPING)


def pause_by(flag: Flag) -> Pause:
    """The pause that it is. Given twice it is the same one."""
    key = f"kill-switch-{sha256(flag.id.encode()).hexdigest()[:32]}"
    return Pause(
        by=flag.by, reason=flag.reason, source="kill_switch", via=flag.via, key=key, now=True
    )


def whose(view: View, head: Head) -> list[Whose]:
    """By what the switch knows a run: its own agent and thread, and those of the runs that it
    works for."""
    known = [(head.agent, head.thread)]
    while head.parent and not _is_detached(view, head) and (above := view.head(head.parent)):
        head = above
        known.append((head.agent, head.thread))
    return known


def _is_detached(view: View, head: Head) -> bool:
    """One that is not yet there, or cannot be read, counts as sharing its parent's fate."""
    rows = view.rows(head.run_id, after_seq=0, limit=1)
    with suppress(PullcordError):
        for record in opened(head.run_id, rows, seq=0, before=GENESIS):
            return isinstance(record.event, Created) and record.event.detached
    return False


def to_hold(view: View, raised: Raised) -> list[tuple[str, Flag]]:
    """The runs that are in its reach and not at rest, each with the flag that holds it. First
    those that somebody may be driving; a queued one waits for somebody who may start it."""
    found = [*runs_in_reach(view, raised, _DRIVEN), *runs_in_reach(view, raised, [_S.QUEUED])]
    return [(head.run_id, flag) for head, flag in found]


def held_runs(
    view: View,
    raised: Raised,
    states: Collection[RunState] = LIVING,
    *,
    limit: int | None = None,
) -> list[str]:
    """Every living run in its reach, the newest first; or only so many."""
    return [head.run_id for head, _ in islice(runs_in_reach(view, raised, states), limit)]


def runs_in_reach(
    view: View, raised: Raised, states: Collection[RunState]
) -> Iterator[tuple[Head, Flag]]:
    """The runs in these states that it holds, each with the flag that does. `raised`: as it was
    seen before the transaction, in which no file is read."""
    before: str | None = None
    while raised:
        heads = view.heads(states=states, thread=None, before=before, limit=_PAGE)
        for head in heads:
            if flag := raised.over() or raised.over(*whose(view, head)):
                yield head, flag
        if len(heads) < _PAGE:
            return
        before = heads[-1].run_id


def is_noted(view: View, flag: Flag) -> bool:
    """Whether the stop log knows of this flag."""
    return any(isinstance(act, SwitchEngaged) and act.flag == flag.id for act in _acts(view))


def unnoted(view: View, raised: Raised) -> list[Flag]:
    """The flags that the stop log does not know of."""
    return [flag for flag in raised.flags if not is_noted(view, flag)]


def outcomes(view: View, raised: Raised) -> list[Pulled]:
    """What pulling each flag that is raised has done, the last time that it was pulled."""
    last = {act.flag: act for act in _acts(view) if isinstance(act, SwitchAnswered)}
    known = [last[flag.id] for flag in raised.flags if flag.id in last]
    return [
        Pulled(
            one.asked,
            list(one.killed),
            [Left(unstopped.what, unstopped.why) for unstopped in one.left],
            one.took_ms,
            {"by": one.by, "via": one.via, "reason": one.reason},
        )
        for one in known
    ]


def _acts(view: View) -> Iterator[Act]:
    """What the stop log says that is about no run."""
    for row in view.stops(after=0, limit=_ALL, run=""):
        with suppress(msgspec.DecodeError):  # of a newer build: nothing may keep a switch from it
            yield decode_entry(row.payload or b"").act


def engaged_by(flag: Flag, held: Sequence[str]) -> SwitchEngaged:
    return SwitchEngaged(
        by=flag.by,
        scope=_of(flag.scope),
        name=flag.scope.name,
        via=flag.via,
        reason=flag.reason,
        engaged_at_ms=flag.at_ms,
        flag=flag.id,
        held=tuple(held[:LISTED_MAX]),
    )


def answered_by(flag: Flag, pulled: Pulled) -> SwitchAnswered:
    left = pulled.left[:LISTED_MAX]
    return SwitchAnswered(
        flag=flag.id,
        asked=pulled.asked,
        took_ms=pulled.took_ms,
        killed=tuple(pulled.killed),
        left=tuple(Unstopped(what=one.what, why=one.why) for one in left),
        by=pulled.note["by"],
        via=pulled.note["via"],
        reason=pulled.note["reason"],
    )


def released_by(scope: Scope, *, by: str, reason: str, via: str) -> SwitchReleased:
    return SwitchReleased(by=by, scope=_of(scope), name=scope.name, via=via, reason=reason)


def _of(scope: Scope) -> LogScope:
    return "agent" if scope.kind == "agent" else "thread" if scope.kind else "all"


def check_engaged(raised: Raised, scope: Scope) -> None:
    """Raises InvalidInput if there is nothing to be released."""
    if scope not in [flag.scope for flag in raised.flags]:
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
