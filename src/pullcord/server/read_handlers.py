"""Reading: who I am, what runs there are, what happened, what waits for a person."""

import asyncio
import inspect
from typing import Any, cast

import msgspec
from msgspec.structs import asdict
from starlette.requests import Request

from pullcord.core.show.receipt_words import receipt_words
from pullcord.core.show.viewer_progress import ViewerProgress
from pullcord.core.show.words import declared
from pullcord.core.states import RunState
from pullcord.core.values import check_id, dump
from pullcord.core.values import load as value_of
from pullcord.journal.stored_runs.run_records import START
from pullcord.server.control_handlers import signed
from pullcord.server.event_streams import Stream, cursor_of, place_of
from pullcord.server.handler_context import HandlerContext
from pullcord.server.hub import Rows, record_json
from pullcord.server.problems import RequestRefused
from pullcord.server.start_handlers import shown
from pullcord.server.wall import grant_of
from pullcord.server.wire import (
    AgentLine,
    Agents,
    CardShown,
    Found,
    Grants,
    InboxShown,
    Me,
    ReceiptShown,
    Runs,
    RunShown,
)


async def me(context: HandlerContext, request: Request, _: None) -> Me:
    grant = grant_of(request)
    return Me(grant.by, grant.right, grant.run, grant.how)


async def agents(context: HandlerContext, request: Request, _: None) -> Agents:
    return Agents(
        [
            AgentLine(name, agent.wants_input, _about(agent.function))
            for name, agent in context.runs.agents.items()
        ]
    )


def _about(agent: Any) -> str:
    """The first line of what its author says about it."""
    is_function = inspect.isfunction(agent) or inspect.ismethod(agent)
    said = inspect.getdoc(agent) if is_function else getattr(agent, "description", "")
    return said.splitlines()[0] if isinstance(said, str) and said else ""


async def find(context: HandlerContext, request: Request, _: None) -> Found:
    """By as much of its id as somebody has typed."""
    begins = _id(request.query_params.get("begins"), "run") or ""
    limit = _number(request.query_params.get("limit"), "limit", default=4, most=context.bounds.page)
    if (only := grant_of(request).run) is not None:
        return Found([only] if only.startswith(begins) else [])
    return Found(
        await context.runs.journal.for_people(lambda look: look.beginning_with(begins, limit=limit))
    )


async def runs(context: HandlerContext, request: Request, _: None) -> Runs:
    query = request.query_params
    if (only := grant_of(request).run) is not None:
        return Runs([(await context.hub.state(only)).panel])
    states = [_state(name) for name in query.getlist("state")] or RunState
    thread = _id(query.get("thread"), "thread")
    before = _id(query.get("before"), "run")
    limit = _number(query.get("limit"), "limit", default=50, most=context.bounds.page)
    return Runs(
        await context.hub.look(
            lambda look: look.panels(states, thread=thread, before=before, limit=limit)
        )
    )


def _state(name: str) -> RunState:
    if name not in set(RunState):
        names = ", ".join(RunState)
        raise RequestRefused(
            400, "state", f"{name[:40]!r} is not a state of a run. There are {names}."
        )
    return RunState(name)


def _id(said: str | None, kind: str) -> str | None:
    return check_id(said, kind=kind) if said else None


def _number(said: str | None, what: str, *, default: int, most: int, least: int = 1) -> int:
    if said is None:
        return default
    if not (said.isascii() and said.isdigit() and len(said) < 16 and least <= int(said) <= most):
        raise RequestRefused(400, what, f"{what} is a number from {least} to {most:,}.")
    return int(said)


async def run(context: HandlerContext, request: Request, _: None) -> RunShown:
    run_id = request.path_params["run"]
    panel, given, result, code_version, model = await context.hub.look(
        lambda look: look.whole(run_id)
    )
    return RunShown(
        panel,
        value_of(given) if given is not None else None,
        value_of(result) if result is not None else None,
        panel.created_at_ms,
        code_version,
        model,
    )


async def records(context: HandlerContext, request: Request, _: None) -> msgspec.Raw:
    run_id, query, most = request.path_params["run"], request.query_params, context.bounds.records
    after = _number(query.get("after"), "after", default=0, most=2**53, least=0)
    limit = _number(query.get("limit"), "limit", default=most, most=most)
    found, names = await context.hub.look(
        lambda look: (look.records(run_id, after, limit), look.names(run_id))
    )
    body = b",".join(record_json(record, names) for record in found)
    return msgspec.Raw(b'{"records":[' + body + b"]}")


async def read_receipt(context: HandlerContext, request: Request, _: None) -> ReceiptShown:
    """What it has left behind so far. (A handle's own waits until a stop is in effect.)"""
    run_id = request.path_params["run"]
    made = await context.hub.look(lambda look: look.receipt(run_id))
    return ReceiptShown(**asdict(made), lines=receipt_words(made))


async def inbox(context: HandlerContext, request: Request, _: None) -> InboxShown:
    only = _id(request.query_params.get("run"), "run") or grant_of(request).run
    if only is not None and not grant_of(request).allows("view", only):
        raise RequestRefused(403, "right", f"You may not look at run {only}.")
    found = await context.hub.look(lambda look: look.inbox(only))
    cards = [
        CardShown(
            **asdict(card),
            shown=_as_text(card.args),
            policy=declared(card.effect, undoable=card.can_be_undone),
        )
        for card in found.cards
    ]
    return InboxShown(cards, found.questions, found.attention)


def _as_text(args: Any) -> list[tuple[str, str]]:
    """Each argument as the JSON it is. What was not given by name has the name `value`."""
    if args is None:
        return []
    named = cast("dict[str, Any]", args if isinstance(args, dict) else {"value": args})
    return [(name, bytes(dump(value)).decode()) for name, value in named.items()]


async def grants(context: HandlerContext, request: Request, _: None) -> Grants:
    assert context.keeper is not None
    return Grants([shown(kept) for kept in context.keeper.all()])


async def events(context: HandlerContext, request: Request, _: None) -> Stream:
    only = request.query_params.get("only", "")
    if only not in ("", "panel"):
        raise RequestRefused(400, "only", f"only can be panel, not {only[:40]!r}.")
    return await _stream(context, request, request.path_params["run"], only_panel=only == "panel")


async def all_events(context: HandlerContext, request: Request, _: None) -> Stream:
    grant = grant_of(request)
    run_id = _id(request.query_params.get("run"), "run")
    if run_id is not None and not grant.allows("view", run_id):
        raise RequestRefused(403, "right", f"You may not look at run {run_id}.")
    rows = context.hub.watch_rows(grant.run)
    try:
        return await _stream(context, request, run_id, rows=rows)
    except BaseException:
        context.hub.leave_rows(rows)
        raise


async def _stream(
    context: HandlerContext,
    request: Request,
    run_id: str | None,
    *,
    rows: Rows | None = None,
    only_panel: bool = False,
) -> Stream:
    changed = rows.changed if rows else asyncio.Event()
    still = context.still
    place = START
    channel = handed = None
    if run_id is not None:
        state, said, text_end = await context.hub.state(run_id), place_of(request), 0
        if "." in said:
            text_end = await context.hub.look(lambda look: look.text_end())
        place = cursor_of(said, seq=state.panel.seq, text_end=text_end, run_id=run_id)
        who = signed(request)
        handed = None if only_panel else ViewerProgress(who["by"], who["via"], seq=place.seq)
        channel = await context.hub.watch(run_id, changed, handed)
        channel.learn(state)  # it may not have heard of that yet
    return Stream(
        context.hub,
        channel=channel,
        changed=changed,
        place=place,
        handed=handed,
        rows=rows,
        only_panel=only_panel,
        still=lambda: still(request),
    )
