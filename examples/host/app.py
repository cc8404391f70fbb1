"""A host of your own: your page, your users, and the control bar in it.

    python examples/host/app.py         then open http://127.0.0.1:8000

Who somebody is, your app knows; here it is a name in a cookie, which will do for an example and
for nothing else. What they may do to a run is what `who` makes of it.
"""

import html
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from string import Template
from typing import Final, Literal

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route

import pullcord
from pullcord.demo.agents import agents
from pullcord.server import Grant, app

RIGHTS: Final[dict[str, Literal["view", "control", "approve"]]] = {
    "ana": "approve",  # allows calls and raises limits, and all that bo may
    "bo": "control",  # starts, pauses, redirects, cancels
    "cleo": "view",
}
PAGE: Final = Template((Path(__file__).parent / "index.html").read_text())


def who(request: Request) -> Grant | None:
    """Whoever sent this, and what they may do. None: nobody we know, and they are told so."""
    user = request.cookies.get("user", "")
    return Grant(by=user, right=RIGHTS[user]) if user in RIGHTS else None


def host(store: str) -> Starlette:
    runtime = pullcord.open(store, agents=agents())
    control = app(runtime, authorize=who)

    @asynccontextmanager
    async def lifespan(_app: Starlette) -> AsyncGenerator[None]:
        async with runtime:
            yield
            control.close()

    async def page(request: Request) -> Response:
        grant = who(request)
        latest = await runtime.list(limit=1)
        run = request.query_params.get("run") or (latest[0].run_id if latest else "")
        user, right = (grant.by, grant.right) if grant else ("nobody", "do nothing")
        shown = {"run": run, "user": user, "right": right}
        return HTMLResponse(PAGE.substitute({k: html.escape(v) for k, v in shown.items()}))

    async def become(request: Request) -> Response:
        back = RedirectResponse("/", 303)
        back.set_cookie("user", request.path_params["user"], httponly=True, samesite="strict")
        return back

    async def report(request: Request) -> Response:
        grant = who(request)
        if grant is None or not grant.allows("control"):
            return Response("You may not start a report.", 403)
        run = await runtime.start("churn-report", by=grant.by)
        return RedirectResponse(f"/?run={run.id}", 303)

    routes = [
        Route("/", page),
        Route("/as/{user}", become),
        Route("/reports", report, methods=["POST"]),
        Mount("/agents", app=control),
    ]
    return Starlette(routes=routes, lifespan=lifespan)


if __name__ == "__main__":
    uvicorn.run(host("host.db"), port=8000, timeout_graceful_shutdown=2)
