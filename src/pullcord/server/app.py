"""The server as an ASGI app: the routes behind the wall, to be mounted or to stand alone."""

import logging
from collections.abc import Awaitable, Callable, Iterable
from functools import cached_property
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route as StarletteRoute
from starlette.types import ASGIApp, Receive, Scope, Send

from pullcord.core.acks import Ack
from pullcord.errors import PullcordError
from pullcord.runtime.inside_tool import InsideTool
from pullcord.runtime.services import Timing
from pullcord.server.bodies import body_as
from pullcord.server.bounds import Bounds
from pullcord.server.credentials import Keeper
from pullcord.server.event_streams import Stream
from pullcord.server.handler_context import HandlerContext, Runs
from pullcord.server.hub import Hub
from pullcord.server.openapi import document
from pullcord.server.problems import RequestRefused, of_ack, of_error, problem
from pullcord.server.routes import ROUTES, Route
from pullcord.server.wall import Authorize, Wall, grant_of

_log: Final = logging.getLogger("pullcord.server")
_encode: Final = msgspec.json.Encoder().encode
_LINK: Final = (
    "open the link that `pullcord serve` has printed, or send Authorization: Bearer TOKEN"
)
_HOST: Final = (
    "the app that this is mounted in has given no right to whoever sent this (its `authorize` "
    "returned None). Sign in there, or have it return a Grant"
)


def app(
    runs: Runs,
    *,
    authorize: Authorize,
    hosts: Iterable[str] | None = None,
    origins: Iterable[str] = (),
    bounds: Bounds | None = None,
) -> "Server":
    """Return the control plane of a runtime as an ASGI app: mount it anywhere in your own.

    `authorize` is asked about every request and returns the `Grant` of whoever sent it, or None.
    `hosts`: the names it answers to (None: your own app sees to that). `origins`: pages of other
    origins that may use it, with a token. Nothing of a run depends on anybody being connected.
    """
    if isinstance(runs, InsideTool):  # this is the process of a tool, which serves nobody
        return cast("Server", runs)
    return Server(
        runs, authorize=authorize, hosts=hosts, origins=origins, bounds=bounds or Bounds()
    )


class Server:
    """Made by `app`. `close()` lets every reader go, so that whoever serves it can stop."""

    def __init__(
        self,
        runs: Runs,
        *,
        authorize: Authorize,
        hosts: Iterable[str] | None,
        origins: Iterable[str],
        bounds: Bounds,
    ) -> None:
        self._runs, self._bounds, self._authorize = runs, bounds, authorize
        self._is_closed = False
        self._keeper = keeper = authorize if isinstance(authorize, Keeper) else None
        routes = [r for r in ROUTES if keeper or not r.standing]
        open_posts = {route.path for route in routes if route.right is None}
        spec = _encode(document(routes))
        inner = Starlette(
            routes=[
                *(StarletteRoute(path, _file(path), methods=["GET"]) for path in FILES),
                StarletteRoute("/openapi.json", _constant(spec), methods=["GET"]),
                *map(self._route, routes),
            ],
            exception_handlers={HTTPException: _not_there},
        )
        inner.router.redirect_slashes = False
        self._wall: ASGIApp = Wall(
            inner,
            authorize=authorize,
            hosts=hosts,
            origins=origins,
            head=bounds.head,
            is_open=lambda method, path: path in (FILES if method == "GET" else open_posts),
            how=_LINK if keeper else _HOST,
        )

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._wall(scope, receive, send)

    def close(self) -> None:
        """Let everybody go who watches something, and take nobody new."""
        self._is_closed = True
        if "_context" in vars(self):
            self._context.hub.close()

    @cached_property
    def _context(self) -> HandlerContext:
        """Made for the first request: an app is mounted before its runtime is entered."""
        runs, bounds = self._runs, self._bounds
        timing = getattr(runs, "timing", None) or Timing()
        hub = Hub(runs.journal, bounds, timing.hold_s)
        if self._is_closed:
            hub.close()
        return HandlerContext(runs, hub, bounds, self._keeper, self._still)

    async def _still(self, request: Request) -> bool:
        """Whether who sent this may still do what it asked for."""
        found = self._authorize(request)
        if isinstance(found, Awaitable):
            found = await found
        return found == grant_of(request)

    def _route(self, route: Route) -> StarletteRoute:
        async def endpoint(request: Request) -> Any:
            try:
                return await self._carry_out(route, request)
            except RequestRefused as refused:
                return problem(
                    refused.status, refused.code, refused.detail, headers=refused.headers
                )
            except PullcordError as error:
                return of_error(error)
            except Exception:
                _log.exception("%s %s failed.", route.method, route.path)
                why = "Something is wrong with this server; its log says what. Look at the run "
                return problem(500, "internal", f"{why}before you try again.")

        return StarletteRoute(route.path, endpoint, methods=[route.method])

    async def _carry_out(self, route: Route, request: Request) -> Any:
        if route.right is not None and not route.is_for(
            grant_of(request), request.path_params.get("run")
        ):
            raise RequestRefused(
                403,
                "right",
                f"This needs the right to {route.right} here, and {grant_of(request).by} has not "
                "been given it. Nothing was changed.",
                headers={"Connection": "close"},
            )
        body: Any = None
        if route.takes:
            body = await body_as(request, route.takes, self._context.bounds)
        if route.wider and (
            found := route.beyond(grant_of(request), request.path_params.get("run"), body)
        ):
            field, right = found
            raise RequestRefused(
                403,
                "right",
                f"With {field} this needs the right to {right} here, and {grant_of(request).by} "
                "has not been given it. Nothing was changed.",
            )
        answer = await route.handler(self._context, request, body)
        match answer:
            case Response() | Stream():
                return answer
            case Ack() if not answer.holds:
                return of_ack(answer)
            case _:
                return Response(_encode(answer), route.status, media_type="application/json")


def _file(path: str) -> Callable[[Request], Awaitable[Response]]:
    kind, content = FILES[path]

    async def endpoint(request: Request) -> Response:
        return Response(content, media_type=kind, headers={"Cache-Control": "no-cache"})

    return endpoint


def _constant(content: bytes) -> Callable[[Request], Awaitable[Response]]:
    async def endpoint(request: Request) -> Response:
        return Response(content, media_type="application/json")

    return endpoint


async def _not_there(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    path = request.scope["path"][:80]
    says = {404: f"There is nothing at {path}.", 405: f"{path} is not used in this way."}
    headers = dict(error.headers) if error.headers else {}
    return problem(
        error.status_code,
        "not_there" if error.status_code == 404 else "method",
        says.get(error.status_code, error.detail),
        headers={**headers, "Connection": "close"},
    )


_HERE: Final = Path(__file__).parent.parent / "web"
_KINDS: Final = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
_NAMES: Final = {
    "/": "page.html",
    "/page.js": "page.js",
    "/page.css": "page.css",
    "/pullcord-bar.js": "pullcord-bar.js",
    "/icon.svg": "icon.svg",
}

FILES: Final[dict[str, tuple[str, bytes]]] = {
    path: (_KINDS[Path(name).suffix], (_HERE / name).read_bytes()) for path, name in _NAMES.items()
}
"""Path → its media type and content."""
