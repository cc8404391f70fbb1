"""What a server's answer means: the value that was asked for, or the error it would be here."""

from typing import NoReturn, TypeVar

import msgspec

from pullcord import errors
from pullcord.client.http import Response
from pullcord.core.acks import Ack
from pullcord.errors import InvalidInput, PullcordError, ServerRefused

T = TypeVar("T")


class _Problem(msgspec.Struct):
    status: int
    detail: str
    code: str
    ack: Ack | None = None


def read_answer(where: str, answer: Response, kind: type[T]) -> T:
    """The value in it.

    Raises:
        PullcordError: what was asked for is refused, in the server's words.
        ServerRefused: that is not how our servers answer.
    """
    if answer.status >= 300:
        known = _problem(answer)
        raise _as_here(known) if known else strange(where, answer)
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeError):
        strange(where, answer)


def error_of(answer: Response) -> Ack | None:
    """A control that the run, as it is, does not take."""
    known = _problem(answer) if answer.status == 409 else None
    return known.ack if known else None


def strange(where: str, answer: Response) -> NoReturn:
    kind = answer.kind[:60] or "nothing that says what it is"
    raise ServerRefused(
        f"{where} answered with {answer.status} and {kind!r}, which is not how a Pullcord "
        "server of this version answers. Nothing is known to have been done. Check --server, "
        "and what stands between."
    )


def _problem(answer: Response) -> _Problem | None:
    if answer.kind != "application/problem+json":
        return None
    try:
        return msgspec.json.decode(answer.body, type=_Problem)
    except (msgspec.DecodeError, UnicodeError):
        return None


def _as_here(problem: _Problem) -> PullcordError:
    """The error that the same thing would have been here, in the server's words."""
    name = "".join(word.capitalize() for word in problem.code.split("_"))
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, PullcordError):
        return kind.__new__(kind, problem.detail)  # its words are made already
    if problem.status in (400, 413, 422):
        return InvalidInput(problem.detail)
    return ServerRefused(problem.detail)
