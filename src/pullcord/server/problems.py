"""What went wrong, as an answer: the library's own sentences, in `application/problem+json`."""

from typing import Any, Final

import msgspec
from starlette.responses import Response

from pullcord.core.acks import Ack
from pullcord.errors import (
    AgentUnknown,
    Conflict,
    InvalidId,
    InvalidInput,
    JournalClosed,
    KillSwitchEngaged,
    KillSwitchFailed,
    NotEntered,
    NotReached,
    PullcordError,
    RunForgotten,
    RunNotFound,
    StorageFailed,
    StoreRefused,
    ThreadBusy,
)

_STATUS: Final[tuple[tuple[type[Exception], int], ...]] = (
    (InvalidId, 400),
    (AgentUnknown, 422),
    (InvalidInput, 422),
    (RunNotFound, 404),
    (RunForgotten, 410),
    (ThreadBusy, 409),
    (KillSwitchEngaged, 409),
    (KillSwitchFailed, 503),
    (NotReached, 409),
    (Conflict, 409),
    (StorageFailed, 503),
    (StoreRefused, 503),
    (JournalClosed, 503),
    (NotEntered, 503),
)
_TITLES: Final = {
    400: "That cannot be read",
    401: "Who are you?",
    403: "Not allowed",
    404: "Not there",
    405: "Not that way",
    406: "Not in that form",
    408: "Too slow",
    409: "Not done",
    410: "Deleted",
    411: "How long is it?",
    413: "Too long",
    415: "Not JSON",
    422: "That cannot be used",
    429: "Too many at once",
    431: "Too long",
    500: "Our fault",
    503: "Not now",
}


class RequestRefused(Exception):
    """A request that is answered with a problem. Nothing was changed."""

    def __init__(
        self, status: int, code: str, detail: str, *, headers: dict[str, str] | None = None
    ) -> None:
        self.status, self.code, self.detail = status, code, detail
        self.headers = headers or {}
        super().__init__(detail)


def problem(
    status: int,
    code: str,
    detail: str,
    *,
    ack: Ack | None = None,
    headers: dict[str, str] | None = None,
) -> Response:
    said: dict[str, Any] = {
        "type": "about:blank",
        "title": _TITLES.get(status, "Not done"),
        "status": status,
        "detail": detail,
        "code": code,
    }
    if ack is not None:
        said["ack"] = ack
    body = msgspec.json.encode(said)
    return Response(body, status, headers, media_type="application/problem+json")


def of_error(error: PullcordError) -> Response:
    status = next((status for kind, status in _STATUS if isinstance(error, kind)), 409)
    name = type(error).__name__
    code = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).removeprefix("_")
    return problem(status, code, str(error))


def of_ack(ack: Ack) -> Response:
    """A control that came too late, or is not possible: not done, and this is why."""
    return problem(409, ack.reason or ack.verdict, ack.message, ack=ack)
