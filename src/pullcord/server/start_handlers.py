"""Runs begin, and people are let in."""

from collections.abc import Mapping
from urllib.parse import urlencode

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from pullcord.core.conditions import Condition
from pullcord.core.continuing import said_next
from pullcord.core.events import Created
from pullcord.core.limits import caps_as_condition, parsed
from pullcord.core.values import check_text
from pullcord.errors import AgentUnknown
from pullcord.server.control_handlers import signed
from pullcord.server.credentials import SESSION_S, Keeper, Kept
from pullcord.server.handler_context import HandlerContext
from pullcord.server.problems import RequestRefused
from pullcord.server.rights import OF_LINKS
from pullcord.server.wall import grant_of
from pullcord.server.wire import (
    AsideSaid,
    ContinueSaid,
    Entered,
    ForkSaid,
    Given,
    GrantSaid,
    GrantShown,
    Nothing,
    SessionSaid,
    Started,
    StartSaid,
)


async def start(context: HandlerContext, request: Request, said: StartSaid) -> Started:
    made = await context.runs.start(
        said.agent,
        said.input,
        run_id=said.run_id,
        thread=said.thread,
        if_busy=said.if_busy,
        model=said.model,
        by=signed(request)["by"],
        limits=_limits(said.limits),
        on_exhausted=said.on_exhausted,
    )
    return Started(made.id)


async def fork(context: HandlerContext, request: Request, said: ForkSaid) -> Started:
    run_id = request.path_params["run"]
    await _birth(context, run_id)
    made = await context.runs.fork(
        run_id,
        by=signed(request)["by"],
        at=said.at,
        instruction=said.instruction,
        made=said.run_id,
        limits=_limits(said.limits),
        on_exhausted=said.on_exhausted,
    )
    return Started(made.id)


async def go_on(context: HandlerContext, request: Request, said: ContinueSaid) -> Started:
    run_id = request.path_params["run"]
    born = await _birth(context, run_id)
    made = await context.runs.start(
        born.agent,
        said_next(run_id, said.input),
        run_id=said.run_id,
        thread=born.thread,
        model=born.model,
        by=signed(request)["by"],
    )
    return Started(made.id)


async def aside(context: HandlerContext, request: Request, said: AsideSaid) -> Started:
    run_id = request.path_params["run"]
    await _birth(context, run_id)
    made = await context.runs.fork(
        run_id, by=signed(request)["by"], aside=said.question, made=said.run_id
    )
    return Started(made.id)


def _limits(caps: Mapping[str, float]) -> Condition | None:
    """Caps by name, any of which ends a run.

    Raises:
        InvalidInput: there is no such cap.
    """
    return caps_as_condition(parsed([f"{name}={value}" for name, value in caps.items()]))


async def _birth(context: HandlerContext, run_id: str) -> Created:
    """How the run began, if its agent is known here.

    Raises:
        AgentUnknown: nobody here could go on with it.
        RunForgotten: nobody could.
    """
    first = await context.runs.journal.families.birth(run_id, what="go on from")
    if first.agent not in context.runs.agents:
        raise AgentUnknown(first.agent, known=context.runs.agents)
    return first


# --- credentials ----------------------------------------------------------------------------------


async def session(context: HandlerContext, request: Request, said: SessionSaid) -> Response:
    keeper = _keeper(context)
    made = keeper.session(said.code)
    if made is None:
        raise RequestRefused(
            401,
            "used_up",
            "This link does not open anything: it was used before, has expired or was revoked. "
            "Ask for another one, or start `pullcord serve` again: it prints a new one.",
        )
    answer = Response(msgspec.json.encode(Entered(made.key)), media_type="application/json")
    answer.set_cookie(
        keeper.cookie,
        made.cookie,
        max_age=SESSION_S,
        path=request.scope.get("root_path", "") + "/",
        httponly=True,
        samesite="strict",
        secure=request.url.scheme == "https",
    )
    return answer


async def end_session(context: HandlerContext, request: Request, said: Nothing) -> Response:
    keeper = _keeper(context)
    keeper.end(request.cookies.get(keeper.cookie, ""))
    context.hub.ask_again()
    answer = Response(status_code=204)
    answer.delete_cookie(keeper.cookie, path=request.scope.get("root_path", "") + "/")
    return answer


async def give(context: HandlerContext, request: Request, said: GrantSaid) -> Given:
    right = said.right
    if said.kind == "link" and right == "control":  # what the right to stop was part of before
        right = "stop"
    if said.kind == "link" and (said.run is None or right not in OF_LINKS):
        raise RequestRefused(
            422,
            "too_wide",
            "A link is for one run, to watch it or to stop it: whoever has it can use it. "
            "Nothing was changed. Give wider rights as a token.",
        )
    check_text(said.name, field="name")
    if said.run is not None:
        await context.runs.get(said.run)
    kept, code = _keeper(context).give(
        kind=said.kind,
        name=said.name or f"guest of {grant_of(request).by}",
        right=right,
        run=said.run,
        lasts_s=said.expires_in_s,
    )
    base = str(request.base_url)
    url = f"{base}#{urlencode({'share': code})}" if said.kind == "link" else ""
    return Given(kept.id, code, url)


async def revoke(context: HandlerContext, request: Request, said: Nothing) -> GrantShown:
    taken = _keeper(context).revoke(request.path_params["grant"])
    context.hub.ask_again()
    return shown(taken)


def shown(kept: Kept) -> GrantShown:
    return msgspec.convert(kept, GrantShown, from_attributes=True)


def _keeper(context: HandlerContext) -> Keeper:
    assert context.keeper is not None  # these routes are there only with one
    return context.keeper
