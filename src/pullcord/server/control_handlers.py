"""The controls: each is the core's own command, signed with who has asked and how they got in."""

from collections.abc import Awaitable, Callable
from typing import Annotated, Any, Final

import msgspec
from msgspec.structs import FieldInfo, fields
from starlette.requests import Request

from pullcord.core.acks import Ack
from pullcord.core.commands import SIGNED, Command
from pullcord.core.values import Json, dump
from pullcord.runtime.handle import ask
from pullcord.server.handler_context import HandlerContext
from pullcord.server.wall import grant_of
from pullcord.server.wire import Caps, Said

_SENT: Final[dict[str, tuple[Any, ...]]] = {
    # fields that are said in another way than the command has them: their type, and a default
    "value": (Any, None),
    "args": (dict[str, Any],),
    "caps": (Caps,),
}
_HAS_TO_BE_SENT: Final = ("call",)  # who allows a call says which one was shown


def body_for(kind: type[Command]) -> type[Any]:
    """Return what is sent to ask for it: all that is in the command, but for who asks."""
    return msgspec.defstruct(
        f"{kind.__name__}Said",
        [_sent(one) for one in fields(kind) if one.name not in SIGNED],
        bases=(Said,),
        module=__name__,
        frozen=True,
        kw_only=True,
        forbid_unknown_fields=True,
    )


def _sent(field: FieldInfo) -> tuple[Any, ...]:
    """Return a field of a body: its name, its type and, unless it is required, its default."""
    if field.name in _HAS_TO_BE_SENT:
        return field.name, Annotated[field.type, msgspec.Meta(min_length=1)]
    as_it_is = (field.type,) if field.required else (field.type, field.default)
    return field.name, *_SENT.get(field.name, as_it_is)


def signed(request: Request) -> dict[str, str]:
    """Who asks, and how they were known: written into the record of what they asked for."""
    grant = grant_of(request)
    surface = "page" if "sec-fetch-site" in request.headers else "api"
    return {"by": grant.by, "via": f"{surface}, {grant.how}"}


def handler_for(kind: type[Command]) -> Callable[[HandlerContext, Request, Any], Awaitable[Ack]]:
    kept = [one.name for one in fields(kind) if one.type is Json]

    async def control(context: HandlerContext, request: Request, body: Any) -> Ack:
        said: dict[str, Any] = msgspec.structs.asdict(body) | signed(request)
        said |= {name: dump(said[name]) for name in kept}
        run = await context.runs.get(request.path_params["run"])
        return await ask(run, kind(**said))

    return control
