"""The kill switch over HTTP: for admins to pull and to release, for everybody to see."""

import asyncio
from typing import Final

import msgspec
from starlette.requests import Request

from pullcord.core.values import check_text
from pullcord.errors import InvalidInput, KillSwitchFailed, RunNotFound, StorageFailed
from pullcord.journal.journal import Journal
from pullcord.journal.rules.switch_pauses import PAUSED_S
from pullcord.killswitch.engaging import pull
from pullcord.killswitch.flags import KINDS, Scope, new_note
from pullcord.killswitch.pulled import Pulled
from pullcord.killswitch.report import report
from pullcord.server.control_handlers import signed
from pullcord.server.handler_context import HandlerContext
from pullcord.server.problems import RequestRefused
from pullcord.server.wall import grant_of
from pullcord.server.wire import SwitchSaid, SwitchShown

_RECORDED_S: Final = 20.0  # what has been stopped is to be told, whatever the store does


async def status(context: HandlerContext, request: Request, _: None) -> SwitchShown:
    shown = await _shown(context)
    if (only := grant_of(request).run) is None:
        return shown
    mine = {("all", ""), *await _scopes_of(context, only)}
    return SwitchShown(
        engaged=[one for one in shown.engaged if (one.scope, one.name) in mine],
        held=[run for run in shown.held if run == only],
    )


async def _scopes_of(context: HandlerContext, run_id: str) -> set[tuple[str, str]]:
    """Those that this run is in, beside everything. What is said of others is not for whoever was
    given this one."""
    try:
        head = await context.runs.journal.head(run_id)
    except (RunNotFound, StorageFailed):
        return set()
    return set(zip(KINDS, (head.agent, head.thread), strict=True))


async def engage(context: HandlerContext, request: Request, said: SwitchSaid) -> SwitchShown:
    journal, scope, who = _journal(context), _scope(said), signed(request)
    reason = check_text(journal.secrets.seal(said.reason), field="reason")
    note = new_note(by=who["by"], reason=reason, via=who["via"])
    try:
        pulled = await asyncio.to_thread(pull, journal.kill_switch.flags, journal.side, scope, note)
    except OSError as error:
        path, now = journal.kill_switch.flags.path(scope), "NOTHING IS STOPPED."
        raise KillSwitchFailed("engaged", path=path, why=error.strerror, now=now) from None
    return await _shown(context, scope, pulled)


async def release(context: HandlerContext, request: Request, said: SwitchSaid) -> SwitchShown:
    journal, who = _journal(context), signed(request)
    reason = check_text(journal.secrets.seal(said.reason), field="reason")
    await journal.kill_switch.release(_scope(said), by=who["by"], reason=reason, via=who["via"])
    return await _shown(context)


def _journal(context: HandlerContext):
    if not context.runs.journal.kill_switch.flags:
        raise RequestRefused(
            409, "kill_switch", "A store that is kept in memory has no kill switch."
        )
    return context.runs.journal


def _scope(said: SwitchSaid) -> Scope:
    if said.agent and said.thread:
        raise InvalidInput("Name an agent or a thread, not both. Nothing was changed.")
    named = zip(KINDS, (said.agent, said.thread), strict=True)
    return next((Scope(kind, name) for kind, name in named if name), Scope())


async def _shown(
    context: HandlerContext, scope: Scope | None = None, pulled: Pulled | None = None
) -> SwitchShown:
    """What the journal knows; and if it says nothing, what is known without it. It holds all the
    same, and whoever opens the store next records it."""
    journal, done = context.runs.journal, [pulled] if pulled else list[Pulled]()
    held, why_not = list[str](), f"The store has said nothing for {_RECORDED_S:g} s."
    asking = asyncio.create_task(_recorded(journal, scope, pulled))
    if (await asyncio.wait({asking}, timeout=_RECORDED_S))[0]:  # (it cannot be called off)
        try:
            (held, done), why_not = await asking, ""
        except StorageFailed as error:
            why_not = str(error)
    said = await asyncio.to_thread(
        report, journal.kill_switch.flags, held, done, why_not_recorded=why_not
    )
    return msgspec.convert(said, SwitchShown)


async def _recorded(
    journal: Journal, scope: Scope | None, pulled: Pulled | None
) -> tuple[list[str], list[Pulled]]:
    """The runs that are held, and what pulling it has done."""
    if scope is None or pulled is None:
        return await journal.kill_switch.held()
    pulled = await journal.kill_switch.answered(
        scope, pulled
    )  # first: who is held has no owner to be asked
    await journal.kill_switch.hold(within_s=PAUSED_S)  # the rest by the housekeeping of a runtime
    return (await journal.kill_switch.held())[0], [pulled]
