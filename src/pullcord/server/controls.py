"""The controls: each is the core's own command, signed with who has asked and how they got in."""

from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from starlette.requests import Request

from pullcord.core.acks import Ack
from pullcord.runtime.handle import RunHandle
from pullcord.server.desk import Desk
from pullcord.server.wall import grant_of

_Ask = Callable[[RunHandle, dict[str, Any], dict[str, Any]], Awaitable[Ack]]
_WHO: Final = ("reason", "key", "seen_seq")

_ASK: Final[dict[str, _Ask]] = {
    "pause": lambda run, said, who: run.pause(**said, **who),
    "resume": lambda run, said, who: run.resume(**said, **who),
    "redirect": lambda run, said, who: run.redirect(**said, **who),
    "cancel": lambda run, said, who: run.cancel(**said, **who),
    "answer": lambda run, said, who: run.answer(**said, **who),
    "approve": lambda run, said, who: _approve(run, **said, who=who),
    "deny": lambda run, said, who: run.deny(**said, **who),
    "settle": lambda run, said, who: run.settle(**said, **who),
    "undo": lambda run, said, who: run.undo(**said, **who),
    "raise": lambda run, said, who: run.raise_limits(**said, **who),
    "signal": lambda run, said, who: run.signal(**said, **who),
}


def _approve(
    run: RunHandle,
    *,
    question: str,
    call: str,
    args: dict[str, Any] | None,
    who: dict[str, Any],
) -> Awaitable[Ack]:
    if args is None:
        return run.approve(question, call=call, **who)
    return run.edit(question, args, call=call, **who)


def signed(request: Request) -> dict[str, str]:
    """Who asks, and how they were known: written into the record of what they asked for."""
    grant = grant_of(request)
    surface = "page" if "sec-fetch-site" in request.headers else "api"
    return {"by": grant.by, "via": f"{surface}, {grant.how}"}


def _handler(verb: str) -> Callable[[Desk, Request, Any], Awaitable[Ack]]:
    ask = _ASK[verb]

    async def control(desk: Desk, request: Request, body: Any) -> Ack:
        said = msgspec.structs.asdict(body)
        who = {name: said.pop(name) for name in _WHO} | signed(request)
        run = await desk.runs.get(request.path_params["run"])
        return await ask(run, said, who)

    return control


handlers: Final = {verb: _handler(verb) for verb in _ASK}
