"""The kill switch over HTTP: for admins to pull and to release, for everybody to see."""

import asyncio
from typing import Final

import msgspec
from starlette.requests import Request

from pullcord.core.values import check_text
from pullcord.errors import InvalidInput, KillSwitchFailed, RunNotFound, StorageFailed
from pullcord.journal.holding import PAUSED_S
from pullcord.journal.journal import Journal
from pullcord.killswitch.engaging import pull
from pullcord.killswitch.flags import KINDS, Scope, new_note
from pullcord.killswitch.pulled import Pulled
from pullcord.killswitch.report import report
from pullcord.server.controls import signed
from pullcord.server.desk import Desk
from pullcord.server.problems import Refused
from pullcord.server.wall import grant_of
from pullcord.server.wire import SwitchSaid, SwitchShown

_RECORDED_S: Final = 20.0  # what has been stopped is to be told, whatever the store does


async def status(desk: Desk, request: Request, _: None) -> SwitchShown:
    shown = await _shown(desk)
    if (only := grant_of(request).run) is None:
        return shown
    mine = {("all", ""), *await _scopes_of(desk, only)}
    return SwitchShown(
        engaged=[one for one in shown.engaged if (one.scope, one.name) in mine],
        held=[run for run in shown.held if run == only],
    )


async def _scopes_of(desk: Desk, run_id: str) -> set[tuple[str, str]]:
    """Those that this run is in, beside everything. What is said of others is not for whoever was
    given this one."""
    try:
        head = await desk.runs.journal.head(run_id)
    except (RunNotFound, StorageFailed):
        return set()
    return set(zip(KINDS, (head.agent, head.thread), strict=True))


async def engage(desk: Desk, request: Request, said: SwitchSaid) -> SwitchShown:
    journal, scope, who = _journal(desk), _scope(said), signed(request)
    reason = check_text(journal.secrets.seal(said.reason), field="reason")
    note = new_note(by=who["by"], reason=reason, via=who["via"])
    try:
        pulled = await asyncio.to_thread(pull, journal.flags, journal.side, scope, note)
    except OSError as error:
        path, now = journal.flags.path(scope), "NOTHING IS STOPPED."
        raise KillSwitchFailed("engaged", path=path, why=error.strerror, now=now) from None
    return await _shown(desk, scope, pulled)


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


async def _shown(
    desk: Desk, scope: Scope | None = None, pulled: Pulled | None = None
) -> SwitchShown:
    """What the journal knows; and if it says nothing, what is known without it. It holds all the
    same, and whoever opens the store next records it."""
    journal, done = desk.runs.journal, [pulled] if pulled else list[Pulled]()
    held, why_not = list[str](), f"The store has said nothing for {_RECORDED_S:g} s."
    asking = asyncio.create_task(_recorded(journal, scope, pulled))
    if (await asyncio.wait({asking}, timeout=_RECORDED_S))[0]:  # (it cannot be called off)
        try:
            (held, done), why_not = await asking, ""
        except StorageFailed as error:
            why_not = str(error)
    said = await asyncio.to_thread(report, journal.flags, held, done, why_not_recorded=why_not)
    return msgspec.convert(said, SwitchShown)


async def _recorded(
    journal: Journal, scope: Scope | None, pulled: Pulled | None
) -> tuple[list[str], list[Pulled]]:
    """The runs that are held, and what pulling it has done."""
    if scope is None or pulled is None:
        return await journal.held()
    pulled = await journal.answered(scope, pulled)  # first: who is held has no owner to be asked
    await journal.hold(within_s=PAUSED_S)  # the rest by the housekeeping of a runtime
    return (await journal.held())[0], [pulled]
