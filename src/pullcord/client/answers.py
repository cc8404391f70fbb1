"""Reads a server's answer: the requested value, or the error that a local store would raise."""

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
    """Return the value in an answer.

    Raises:
        PullcordError: the server refuses, in its own words.
        ServerRefused: a Pullcord server does not answer like this.
    """
    if answer.status >= 300:
        known = _problem(answer)
        raise _as_here(known) if known else strange(where, answer)
    try:
        return msgspec.json.decode(answer.body, type=kind)
    except (msgspec.DecodeError, UnicodeError):
        strange(where, answer)


def error_of(answer: Response) -> Ack | None:
    """Return the answer to a control that the run refuses in its current state, or None."""
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
    """Return the error that a local store would raise, with the server's words."""
    name = "".join(word.capitalize() for word in problem.code.split("_"))
    kind = getattr(errors, name, None)
    if isinstance(kind, type) and issubclass(kind, PullcordError):
        return kind.__new__(kind, problem.detail)  # its words are made already
    if problem.status in (400, 413, 422):
        return InvalidInput(problem.detail)
    return ServerRefused(problem.detail)
