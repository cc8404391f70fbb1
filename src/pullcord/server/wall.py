"""The wall around every route: which names, origins, ways and credentials get through it.

Asked in this order, before anything is read or changed: is it plain HTTP by a method that we
have, addressed to a name that is ours, from a page that may, and by somebody we know?
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeAlias

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from pullcord.errors import PullcordError
from pullcord.server.problems import RequestRefused, of_error, problem
from pullcord.server.rights import Grant

Authorize: TypeAlias = Callable[[Request], Grant | Awaitable[Grant | None] | None]
MARK: Final = "x-pullcord"  # a header that no page of another origin can send unasked
CSP: Final = (
    "default-src 'none'; script-src 'self'; connect-src 'self'; img-src 'self'; style-src 'self'; "
    "font-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
_ALWAYS: Final = {
    "Content-Security-Policy": CSP,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
}


class Wall:
    """An ASGI app around another. What it lets through knows its `Grant`: `grant_of(request)`.

    `hosts`: the names this server answers to, with their ports; None: the app around this one
    sees to that. `origins`: pages of other origins that may use it, with a token of their own.
    `head`: how many bytes the head of a request may have. `is_open(method, path)`: what needs no
    credential. `how`: how somebody comes to a credential, in words.
    """

    def __init__(
        self,
        app: ASGIApp,
        *,
        authorize: Authorize,
        hosts: Iterable[str] | None,
        origins: Iterable[str],
        head: int,
        is_open: Callable[[str, str], bool],
        how: str,
    ) -> None:
        self._app = app
        self._authorize = authorize
        self._hosts = None if hosts is None else frozenset(host.lower() for host in hosts)
        self._origins = frozenset(origins)
        self._head = head
        self._is_open = is_open
        self._how = how

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] != "http":
            return await send({"type": "websocket.close", "code": 1008})
        request = Request(scope, receive)
        guest = self._guest(request.headers)

        async def with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in _ALWAYS.items():
                    headers.setdefault(name, value)
                headers.setdefault("Cache-Control", "no-store")
                if guest:
                    headers["Access-Control-Allow-Origin"] = guest
                    headers.add_vary_header("Origin")
            await send(message)

        try:
            answer = await self._checked(request, guest)
        except RequestRefused as refused:
            answer = problem(refused.status, refused.code, refused.detail, headers=refused.headers)
        except PullcordError as error:  # who this is cannot be told: nobody is let in
            answer = of_error(error)
        await (answer or self._app)(scope, receive, with_headers)
        return None

    async def _checked(self, request: Request, guest: str) -> Response | None:
        """None: it may pass."""
        headers, method, path = request.headers, request.method, _path(request)
        self._check_shape(request, path)
        self._check_host(headers)
        is_open = self._is_open(method, path)
        if not (is_open and _is_visit(request)):
            self._check_origin(headers, guest)
        if method == "OPTIONS" and guest and "access-control-request-method" in headers:
            return _preflight()
        if method not in ("GET", "POST"):
            allowed = {"Allow": "GET, POST"}
            raise RequestRefused(405, "method", f"{method[:20]} is not used here.", headers=allowed)
        if method == "POST" and headers.get(MARK) != "1":
            raise RequestRefused(
                403,
                "unmarked",
                "What changes something carries the header X-Pullcord: 1, so that no other page "
                "can send it unasked. Nothing was changed.",
                headers={"Connection": "close"},
            )
        if not is_open:
            request.scope["pullcord.grant"] = await self._known(_without_cookie(request, guest))
        return None

    def _check_shape(self, request: Request, path: str) -> None:
        headers = request.headers
        size = sum(len(name) + len(value) + 4 for name, value in headers.raw)
        size += len(request.scope.get("raw_path") or b"") + len(request.scope["query_string"])
        if size > self._head:
            raise RequestRefused(
                431,
                "head_too_long",
                f"The head of a request has at most {self._head:,} bytes. Nothing was changed.",
                headers={"Connection": "close"},
            )
        if not path.startswith("/") or not path.isprintable() or "\\" in path:
            raise RequestRefused(
                400, "path", "That is not a path of this server. Nothing was changed."
            )
        if "transfer-encoding" in headers and "content-length" in headers:
            raise RequestRefused(
                400,
                "two_lengths",
                "A body has a length or is sent in chunks, not both. Nothing was changed.",
                headers={"Connection": "close"},
            )

    def _check_host(self, headers: Headers) -> None:
        said = headers.getlist("host")
        if len(said) != 1:
            raise RequestRefused(400, "host", "A request names one host. Nothing was changed.")
        if self._hosts is not None and said[0].lower() not in self._hosts:
            raise RequestRefused(
                403,
                "host",
                f"This server is not called {said[0][:80]!r}. Nothing was changed. Whoever runs it "
                "can allow the name: pullcord serve --allow-host NAME",
            )

    def _check_origin(self, headers: Headers, guest: str) -> None:
        if guest:
            return
        origin, site = headers.get("origin"), headers.get("sec-fetch-site", "none")
        is_ours = origin is None or origin.partition("://")[2].lower() == headers["host"].lower()
        if not is_ours or len(headers.getlist("origin")) > 1 or site not in ("same-origin", "none"):
            raise RequestRefused(
                403,
                "origin",
                f"Pages of {(origin or 'another site')[:80]} may not use this server. Nothing was "
                "changed. Whoever runs it can allow them: pullcord serve --allow-origin ORIGIN",
            )

    def _guest(self, headers: Headers) -> str:
        """The other origin whose page this is, if it may be here."""
        said = headers.getlist("origin")
        return said[0] if len(said) == 1 and said[0] in self._origins else ""

    async def _known(self, request: Request) -> Grant:
        found = self._authorize(request)
        if inspect.isawaitable(found):
            found = await found
        if found is None:
            raise RequestRefused(
                401,
                "unknown",
                f"This needs a credential that is valid here: {self._how}. Nothing was changed.",
                headers={"WWW-Authenticate": "Bearer", "Connection": "close"},
            )
        return found


def grant_of(request: Request) -> Grant:
    return request.scope["pullcord.grant"]


def _without_cookie(request: Request, guest: str) -> Request:
    """A page of another origin brings a token of its own: this browser's session is not its."""
    if not guest:
        return request
    kept = [pair for pair in request.scope["headers"] if pair[0].lower() != b"cookie"]
    return Request({**request.scope, "headers": kept})


def _is_visit(request: Request) -> bool:
    """Somebody follows a link to the page, wherever it stood. The page itself tells nothing."""
    headers = request.headers
    is_document = headers.get("sec-fetch-dest") == "document" and "origin" not in headers
    return request.method == "GET" and headers.get("sec-fetch-mode") == "navigate" and is_document


def _path(request: Request) -> str:
    """The path below where this app is mounted."""
    path, root = request.scope["path"], request.scope.get("root_path", "")
    return path.removeprefix(root) if root and path.startswith(root) else path


def _preflight() -> Response:
    return Response(
        status_code=204,
        headers={
            "Access-Control-Allow-Methods": "GET, POST",
            "Access-Control-Allow-Headers": f"authorization, content-type, last-event-id, {MARK}",
            "Access-Control-Max-Age": "600",
        },
    )
