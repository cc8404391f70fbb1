"""The messages of Pydantic AI: sealed, stored, and made valid for every provider."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
from pydantic import TypeAdapter
from pydantic_ai import messages as m
from pydantic_core import from_json

from pullcord.adapters import Json, Secrets

MESSAGES: Final = m.ModelMessagesTypeAdapter
_RESPONSE: Final[TypeAdapter[m.ModelResponse]] = TypeAdapter(m.ModelResponse)
_RETURN: Final[TypeAdapter[m.ToolReturn[Any]]] = TypeAdapter(m.ToolReturn)
Messages = list[m.ModelMessage]


# --- to and from what is stored ---


def sealed_messages(messages: Sequence[m.ModelMessage], secrets: Secrets) -> Messages:
    """The conversation as a model is sent it and a journal has it, with references."""
    if not secrets:
        return list(messages)
    return [_sealed(message, secrets) for message in messages]


def _sealed(message: m.ModelMessage, secrets: Secrets) -> m.ModelMessage:
    stored = msgspec.Raw(MESSAGES.dump_json([message]))
    hidden = secrets.seal_json(stored, screen=True)
    return message if hidden is stored else MESSAGES.validate_json(bytes(hidden))[0]


def sealed_response(response: m.ModelResponse, secrets: Secrets) -> m.ModelResponse:
    """What a model has answered, sealed. The arguments of its calls are read before: what is
    escaped in their JSON is not escaped for the tool."""
    if not secrets:
        return response
    for call in response.tool_calls:
        is_in = isinstance(call.args, str) and secrets.seal(call.args) != call.args
        if is_in and _is_json_object(call.args):
            call.args = call.args_as_dict()
    sealed = _sealed(response, secrets)
    assert isinstance(sealed, m.ModelResponse)
    return sealed


def stored_response(response: m.ModelResponse) -> Json:
    return msgspec.Raw(_RESPONSE.dump_json(response))


def response_of(stored: Json) -> m.ModelResponse:
    return _RESPONSE.validate_json(bytes(stored))


def stored_return(result: Any) -> Any:
    """What a tool gave, as it is stored: as JSON has it; with all that belongs to it, if there is
    more to it (files, content for the model, data for the application).

    Raises:
        ValueError: it has no JSON form.
    """
    given: Any = result if isinstance(result, m.ToolReturn) else m.ToolReturn(result)  # pyright: ignore[reportUnknownVariableType]
    stored: dict[str, Any] = from_json(_RETURN.dump_json(given))
    value: Any = stored["return_value"]
    is_plain = given is not result and return_of(value) == return_of(stored) == value
    return value if is_plain else stored


def return_of(stored: Any) -> Any:
    """What a tool gave, from what is stored of it."""
    match stored:
        case {"kind": "tool-return", "return_value": _}:
            given = _RETURN.validate_python(stored)
        case _:
            return stored
    is_plain = given.content is None and given.metadata is None and given.tools is None
    return given.return_value if is_plain else given


def shipped_return(value: Any, kind: str) -> Any:
    """What a tool gave in another process, where it was of this class."""
    module, _, name = kind.partition(":")
    if module != m.__name__:
        return value
    if name == "ToolReturn":
        return _RETURN.validate_python(value)
    return _RETURN.validate_python({"return_value": value}).return_value


# --- valid for every provider ---


def mended(messages: Sequence[m.ModelMessage]) -> Messages:
    """The same conversation, valid for every provider, and true.

    What was cut keeps its finished text; thinking that has no end and calls that were never
    complete are left out. A call without a result is told to be one: nobody knows what became
    of it.
    """
    kept: Messages = []
    open_calls: set[str] = set()
    for message in messages:
        if isinstance(message, m.ModelResponse):
            parts: list[Any] = list(_sound_parts(message))
            open_calls = {part.tool_call_id for part in parts if isinstance(part, m.ToolCallPart)}
        else:
            parts = [part for part in message.parts if _is_awaited(part, open_calls)]
        if parts == list(message.parts) and parts:
            kept.append(message)
        elif parts:
            kept.append(replace(message, parts=parts))
    return [_whole(message) for message in m.repair_messages(kept, repair_last_response=True)]


def _is_awaited(part: m.ModelRequestPart, open_calls: set[str]) -> bool:
    """Whether it may be there: of results, only the first one to a call that is open."""
    if not isinstance(part, m.ToolReturnPart):
        return True
    is_open = part.tool_call_id in open_calls
    open_calls.discard(part.tool_call_id)
    return is_open


def _whole(message: m.ModelMessage) -> m.ModelMessage:
    """One that was cut and one with calls may have become one message: those calls were whole."""
    if isinstance(message, m.ModelResponse) and message.tool_calls and _was_cut(message):
        return replace(message, state="complete")
    return message


def _was_cut(response: m.ModelResponse) -> bool:
    return response.state in ("interrupted", "incomplete")


def _sound_parts(response: m.ModelResponse) -> Iterator[m.ModelResponsePart]:
    was_cut = _was_cut(response)
    named: set[str] = set()
    for part in response.parts:
        match part:
            case m.TextPart(content=""):
                continue
            case m.ThinkingPart(signature=None) if was_cut:
                continue
            case m.ToolCallPart():
                is_second = part.tool_call_id in named
                named.add(part.tool_call_id)
                if was_cut or is_second or not _is_json_object(part.args):
                    continue
                yield part
            case _:
                yield part


def check_messages(messages: Sequence[m.ModelMessage]) -> list[str]:
    """What is wrong with a conversation, by the rules that strict providers refuse it with.

    An empty list: every provider takes it. The last answer may have calls that are still open.
    """
    wrong: list[str] = []
    open_calls: dict[str, str] = {}
    for number, message in enumerate(messages):
        here = f"message {number}"
        if isinstance(message, m.ModelResponse):
            wrong += [f"{here}: call {name} has no result" for name in open_calls]
            open_calls = {}
            wrong += [f"{here}: {why}" for why in _wrong_in(message, open_calls)]
        else:
            wrong += [f"{here}: {why}" for why in _answered_in(message, open_calls)]
            if not message.parts:
                wrong.append(f"{here}: it is empty")
    return wrong


def _wrong_in(response: m.ModelResponse, open_calls: dict[str, str]) -> Iterator[str]:
    if not response.parts:
        yield "it is empty"
    for part in response.parts:
        match part:
            case m.ToolCallPart():
                if part.tool_call_id in open_calls:
                    yield f"two calls are named {part.tool_call_id}"
                if _was_cut(response):
                    yield f"call {part.tool_call_id} is in an answer that was cut"
                if not _is_json_object(part.args):
                    yield f"the arguments of {part.tool_call_id} are not an object"
                open_calls[part.tool_call_id] = part.tool_name
            case m.ThinkingPart(signature=None, provider_name="anthropic"):
                yield "thinking has no signature"
            case m.TextPart(content=""):
                yield "a text is empty"
            case _:
                pass


def _answered_in(request: m.ModelRequest, open_calls: dict[str, str]) -> Iterator[str]:
    for part in request.parts:
        is_result = isinstance(part, m.ToolReturnPart)
        if is_result and open_calls.pop(part.tool_call_id, None) is None:
            yield f"a result for {part.tool_call_id}, which is no open call"
    if open_calls:
        yield f"no result for {', '.join(open_calls)}"
        open_calls.clear()


def _is_json_object(args: Any) -> bool:
    if not isinstance(args, str):
        return True
    try:
        return not args or isinstance(from_json(args), dict)
    except ValueError:
        return False
