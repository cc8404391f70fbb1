"""The body of a request: bounded while it arrives, strict JSON, and no field that is unknown."""

import asyncio
import json
import math
from typing import Any, TypeVar, cast

import msgspec
from starlette.requests import ClientDisconnect, Request

from pullcord.server.bounds import Bounds
from pullcord.server.problems import RequestRefused

T = TypeVar("T")
_CLOSE = {"Connection": "close"}  # what is left of the body is not waited for


async def body_as(request: Request, kind: type[T], bounds: Bounds) -> T:
    """Return the request's body as this type.

    Raises:
        RequestRefused: it is too long, too slow, not JSON, or has other fields. Nothing was
        changed.
    """
    _check_type(request)
    raw = await _read(request, bounds)
    _check_json(raw, bounds)
    try:
        return msgspec.json.decode(raw, type=kind)
    except msgspec.ValidationError as error:
        raise RequestRefused(422, "invalid_fields", _said_of(str(error))) from None
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise _malformed(str(error)) from None


def _said_of(error: str) -> str:
    """What is wrong with a field, in words."""
    why, _, path = error.replace("`", "").partition(" - at ")
    where = path.removeprefix("$").removeprefix(".")
    what = f"The field {where} of the body" if where else "The body"
    return f"{what} cannot be used: {why[:1].lower()}{why[1:]}. Nothing was changed."


def _check_type(request: Request) -> None:
    said = request.headers.get("content-type", "")
    kind, _, rest = said.partition(";")
    charset = rest.strip().lower().replace('"', "")
    if kind.strip().lower() != "application/json" or charset not in ("", "charset=utf-8"):
        raise RequestRefused(
            415,
            "not_json",
            f"What is sent here is application/json, not {said[:80]!r}. Nothing was changed.",
            headers=_CLOSE,
        )


async def _read(request: Request, bounds: Bounds) -> bytes:
    too_long = RequestRefused(
        413,
        "too_long",
        f"A body has at most {bounds.body:,} bytes. Nothing was changed.",
        headers=_CLOSE,
    )
    announced = request.headers.get("content-length", "0")
    if not announced.isascii() or not announced.isdigit():
        raise _malformed("Content-Length is not a number")
    if int(announced) > bounds.body:
        raise too_long
    raw = bytearray()
    pieces = request.stream().__aiter__()
    try:
        async with asyncio.timeout(bounds.whole_s):
            while True:
                async with asyncio.timeout(bounds.body_s):
                    piece = await anext(pieces)
                raw += piece
                if len(raw) > bounds.body:
                    raise too_long
    except StopAsyncIteration:
        return bytes(raw)
    except TimeoutError:
        why = f"Nothing came for {bounds.body_s:g} s, or the body was not whole after "
        why += f"{bounds.whole_s:g} s."
        raise RequestRefused(
            408, "too_slow", f"{why} Nothing was changed.", headers=_CLOSE
        ) from None
    except ClientDisconnect:
        raise RequestRefused(400, "cut_off", "The body was cut off. Nothing was changed.") from None


def _check_json(raw: bytes, bounds: Bounds) -> None:
    """What other readers of JSON let pass: the same name twice, numbers that are none."""
    try:
        value = json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_once,
            parse_float=_finite,
            parse_constant=_no_number,
        )
    except UnicodeDecodeError:
        raise _malformed("it is not UTF-8") from None
    except RecursionError:
        raise _too_deep(bounds) from None
    except ValueError as error:
        raise _malformed(str(error)) from None
    if not isinstance(value, dict):
        raise _malformed("it is not an object")
    _check_depth(value, bounds)


def _check_depth(value: Any, bounds: Bounds) -> None:
    level: list[Any] = [value]
    for _ in range(bounds.depth):
        inside: list[Any] = [one for outer in level for one in _within(outer)]
        level = [one for one in inside if isinstance(one, dict | list)]
        if not level:
            return
    raise _too_deep(bounds)


def _within(outer: Any) -> list[Any]:
    if isinstance(outer, dict):
        outer = cast("dict[str, Any]", outer).values()
    return list(outer)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a name occurs twice in one object")
    return made


def _finite(text: str) -> float:
    if math.isinf(value := float(text)):
        raise ValueError(f"{text[:40]} is not a number that can be kept")
    return value


def _no_number(text: str) -> float:
    raise ValueError(f"{text} is not JSON")


def _malformed(why: str) -> RequestRefused:
    return RequestRefused(400, "malformed", f"The body cannot be read: {why}. Nothing was changed.")


def _too_deep(bounds: Bounds) -> RequestRefused:
    return RequestRefused(
        400, "too_deep", f"JSON is read {bounds.depth} levels deep here. Nothing was changed."
    )
