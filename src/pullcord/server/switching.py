"""The kill switch over HTTP: for admins to pull and to release, for everybody to see."""

import asyncio

from starlette.requests import Request

from pullcord.core.values import check_text
from pullcord.errors import InvalidInput, KillSwitchFailed, StorageFailed
from pullcord.killswitch.engaging import Pulled, pull
from pullcord.killswitch.flags import KINDS, Scope, new_note
from pullcord.server.controls import signed
from pullcord.server.desk import Desk
from pullcord.server.problems import Refused
from pullcord.server.wall import grant_of
from pullcord.server.wire import SwitchedOff, SwitchSaid, SwitchShown, Unstopped


async def status(desk: Desk, request: Request, _: None) -> SwitchShown:
    shown = await _shown(desk)
    if (only := grant_of(request).run) is None:
        return shown
    return SwitchShown(engaged=shown.engaged, held=[run for run in shown.held if run == only])


async def engage(desk: Desk, request: Request, said: SwitchSaid) -> SwitchShown:
    journal, scope, who = _journal(desk), _scope(said), signed(request)
    reason = check_text(journal.secrets.seal(said.reason), field="reason")
    note = new_note(by=who["by"], reason=reason, via=who["via"])
    try:
        pulled = await asyncio.to_thread(pull, journal.flags, journal.side, scope, note)
    except OSError as error:
        path, now = journal.flags.path(scope), "NOTHING IS STOPPED."
        raise KillSwitchFailed("engaged", path=path, why=error.strerror, now=now) from None
    return await _shown(desk, pulled)


async def release(desk: Desk, request: Request, said: SwitchSaid) -> SwitchShown:
    journal, who = _journal(desk), signed(request)
    reason = check_text(journal.secrets.seal(said.reason), field="reason")
    await journal.release_switch(_scope(said), by=who["by"], reason=reason, via=who["via"])
    return await _shown(desk)


def _journal(desk: Desk):
    if not desk.runs.journal.flags:
        raise Refused(409, "kill_switch", "A store that is kept in memory has no kill switch.")
    return desk.runs.journal


def _scope(said: SwitchSaid) -> Scope:
    if said.agent and said.thread:
        raise InvalidInput("Name an agent or a thread, not both. Nothing was changed.")
    named = zip(KINDS, (said.agent, said.thread), strict=True)
    return next((Scope(kind, name) for kind, name in named if name), Scope())


async def _shown(desk: Desk, pulled: Pulled | None = None) -> SwitchShown:
    journal = desk.runs.journal
    recorded = True
    try:
        if pulled:
            await journal.hold()
        held = await journal.held()
    except StorageFailed:  # it holds all the same; whoever opens the store next records it
        held, recorded = [], False
    raised = await asyncio.to_thread(journal.flags.raised)
    return SwitchShown(
        engaged=[
            SwitchedOff(
                scope=one.scope.kind or "all",
                name=one.scope.name,
                by=one.by,
                reason=one.reason,
                at_ms=one.at_ms,
            )
            for one in raised
        ],
        held=held,
        recorded=recorded,
        asked=pulled.asked if pulled else 0,
        took_ms=pulled.took_ms if pulled else 0,
        killed=pulled.killed if pulled else [],
        not_stopped=[Unstopped(what=w, why=why) for w, why in pulled.left] if pulled else [],
    )
