"""The routes, as one table: what each needs, takes, answers and does. Named after the commands."""

from collections.abc import Awaitable, Callable
from typing import Any, Final, NamedTuple, TypeAlias

from starlette.requests import Request

from pullcord.core.acks import Ack
from pullcord.core.commands import COMMANDS, Command, words_of
from pullcord.server.control_handlers import body_for, handler_for
from pullcord.server.handler_context import HandlerContext
from pullcord.server.read_handlers import (
    agents,
    all_events,
    events,
    find,
    grants,
    inbox,
    me,
    read_receipt,
    records,
    run,
    runs,
)
from pullcord.server.rights import Grant, Right
from pullcord.server.start_handlers import (
    aside,
    end_session,
    fork,
    give,
    go_on,
    revoke,
    session,
    start,
)
from pullcord.server.switch_handlers import engage, release, status
from pullcord.server.wire import (
    Agents,
    AsideSaid,
    ContinueSaid,
    Entered,
    ForkSaid,
    Found,
    Given,
    Grants,
    GrantSaid,
    GrantShown,
    InboxShown,
    Me,
    Nothing,
    ReceiptShown,
    Records,
    Runs,
    RunShown,
    SessionSaid,
    Started,
    StartSaid,
    SwitchSaid,
    SwitchShown,
)

Handler: TypeAlias = Callable[[HandlerContext, Request, Any], Awaitable[Any]]
Wider: TypeAlias = tuple[tuple[str, Right], ...]
"""Fields of the body that need a wider right, if something is said in them."""


class Query(NamedTuple):
    name: str
    about: str
    kind: str = "string"


class Route(NamedTuple):
    """`right` empty: needs no credential. `takes`: the body. `gives`: the answer."""

    method: str
    path: str
    right: Right | None
    about: str
    handler: Handler
    takes: type[Any] | None = None
    gives: type[Any] | None = None
    status: int = 200
    query: tuple[Query, ...] = ()
    streams: bool = False
    standing: bool = False  # only where the server keeps its own credentials
    narrows: bool = False  # it shows those who may see one run only that one
    starts: bool = False  # it makes a new run: nothing for those who were given one
    wider: Wider = ()

    def is_for(self, grant: Grant, run: str | None) -> bool:
        """Whether this grant is enough for it."""
        return self.right is None or self._allows(grant, self.right, run)

    def beyond(self, grant: Grant, run: str | None, body: Any) -> tuple[str, Right] | None:
        """The first thing said for which this grant is not enough, and what it needs."""
        for field, right in self.wider:
            if getattr(body, field) and not self._allows(grant, right, run):
                return field, right
        return None

    def _allows(self, grant: Grant, right: Right, run: str | None) -> bool:
        return grant.allows(right, grant.run if self.narrows else None if self.starts else run)


def _control(kind: type[Command]) -> Route:
    return Route(
        "POST",
        f"/runs/{{run}}/{kind.verb}",
        kind.right,
        words_of(kind).summary,
        handler_for(kind),
        body_for(kind),
        Ack,
        wider=kind.wider,
    )


def _looking(path: str, about: str, handler: Handler, gives: type[Any], **how: Any) -> Route:
    """Return a route that only reads: the smallest right is enough."""
    return Route("GET", path, "view", about, handler, gives=gives, **how)


def _starting(path: str, about: str, handler: Handler, takes: type[Any], **how: Any) -> Route:
    """Return a route that makes a new run."""
    return Route("POST", path, "control", about, handler, takes, Started, 201, starts=True, **how)


_AFTER: Final = Query("after", "the id of the last event that was seen; 0: from the beginning")

ROUTES: Final = (
    _looking("/me", "Who I am here, and what I may do.", me, Me, narrows=True),
    _looking("/agents", "The agents that can be started.", agents, Agents),
    _looking(
        "/runs",
        "The newest runs.",
        runs,
        Runs,
        narrows=True,
        query=(
            Query("state", "only those in this state; may be given again"),
            Query("thread", "only those of this conversation"),
            Query("before", "the id of the last run of the page before"),
            Query("limit", "how many", "integer"),
        ),
    ),
    _starting("/runs", "Start a run.", start, StartSaid),
    _looking(
        "/find",
        "The runs whose ids begin like this.",
        find,
        Found,
        narrows=True,
        query=(
            Query("begins", "the beginning of an id"),
            Query("limit", "how many", "integer"),
        ),
    ),
    _looking("/runs/{run}", "A run as it is now.", run, RunShown),
    _looking(
        "/runs/{run}/records",
        "Its journal.",
        records,
        Records,
        query=(
            Query("after", "the number of the last record that was seen", "integer"),
            Query("limit", "how many", "integer"),
        ),
    ),
    _looking(
        "/runs/{run}/receipt", "What it has left behind, or has so far.", read_receipt, ReceiptShown
    ),
    Route(
        "GET",
        "/runs/{run}/events",
        "view",
        "What happens in it, as it happens (text/event-stream).",
        events,
        query=(_AFTER, Query("only", "panel: nothing but how the run is")),
        streams=True,
    ),
    Route(
        "GET",
        "/events",
        "view",
        "What becomes of all runs, and everything that happens in one.",
        all_events,
        query=(_AFTER, Query("run", "the run of which everything is told")),
        narrows=True,
        streams=True,
    ),
    _looking(
        "/inbox",
        "What waits for a person.",
        inbox,
        InboxShown,
        narrows=True,
        query=(Query("run", "only of this run"),),
    ),
    *map(_control, COMMANDS.values()),
    _starting(
        "/runs/{run}/fork",
        "A new run that goes on from what this one has done.",
        fork,
        ForkSaid,
        wider=(("limits", "approve"),),
    ),
    _starting("/runs/{run}/continue", "The next run on the same thread.", go_on, ContinueSaid),
    _starting("/runs/{run}/aside", "Ask about a run without disturbing it.", aside, AsideSaid),
    _looking(
        "/kill-switch",
        "Whether the kill switch is engaged, and what it holds.",
        status,
        SwitchShown,
        narrows=True,
    ),
    Route(
        "POST",
        "/kill-switch/engage",
        "admin",
        "Stop everything, an agent or a thread; nothing starts until the release.",
        engage,
        SwitchSaid,
        SwitchShown,
    ),
    Route(
        "POST",
        "/kill-switch/release",
        "admin",
        "Let things start again. Resumes nothing.",
        release,
        SwitchSaid,
        SwitchShown,
    ),
    Route(
        "POST",
        "/session",
        None,
        "Exchange a launch code, or that of a link, for a browser's session.",
        session,
        SessionSaid,
        Entered,
        standing=True,
    ),
    Route(
        "POST",
        "/session/end",
        "view",
        "End this browser's session.",
        end_session,
        Nothing,
        status=204,
        narrows=True,
        standing=True,
    ),
    Route(
        "GET",
        "/grants",
        "admin",
        "The credentials that count.",
        grants,
        gives=Grants,
        standing=True,
    ),
    Route(
        "POST",
        "/grants",
        "admin",
        "Make a link for one run, or a token for a program.",
        give,
        GrantSaid,
        Given,
        201,
        standing=True,
    ),
    Route(
        "POST",
        "/grants/{grant}/revoke",
        "admin",
        "Take a credential back.",
        revoke,
        Nothing,
        GrantShown,
        standing=True,
    ),
)
