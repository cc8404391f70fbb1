"""How each dialect writes a reply: as a stream of events, as one body, as an error.

Pure: values in, bytes out. Fields that no client reads are left out.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, cast, get_args

from tests.agents.provider.reply import Part, Reply, Text, Thinking, ToolCall, pieces

Dialect: TypeAlias = Literal["chat", "responses", "anthropic"]
Kind: TypeAlias = Literal["text", "thinking", "args"]
Json: TypeAlias = dict[str, object]

DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
PATHS: dict[str, Dialect] = {
    "/v1/chat/completions": "chat",
    "/v1/responses": "responses",
    "/v1/messages": "anthropic",
}
_CREATED = 1_700_000_000


@dataclass(frozen=True)
class Frame:
    """One event on the wire. `kind` is None for framing, which carries no content."""

    data: bytes
    text: str = ""
    kind: Kind | None = None


def frames(dialect: Dialect, reply: Reply, *, number: int, body: Json) -> list[Frame]:
    """The reply as a stream of events, the dialect's proper end included."""
    writers: dict[Dialect, Callable[[Reply, int, Json], list[Frame]]] = {
        "chat": _chat_frames,
        "responses": _responses_frames,
        "anthropic": _anthropic_frames,
    }
    return writers[dialect](reply, number, body)


def whole(dialect: Dialect, reply: Reply, *, number: int, body: Json) -> bytes:
    """The reply as one JSON body."""
    writers: dict[Dialect, Callable[[Reply, int, str], Json]] = {
        "chat": _chat_whole,
        "responses": _responses_whole,
        "anthropic": _anthropic_whole,
    }
    return _dump(writers[dialect](reply, number, _model(body)))


def with_ids(reply: Reply, number: int) -> Reply:
    """The same reply with an id for each tool call that has none."""
    given: list[Part] = [
        replace(part, id=f"call_{number}_{at}")
        if isinstance(part, ToolCall) and part.id is None
        else part
        for at, part in enumerate(reply.parts)
    ]
    return replace(reply, parts=given)


def error_body(dialect: Dialect, status: int, message: str) -> bytes:
    """An error as this dialect words it."""
    kinds = {
        400: "invalid_request_error",
        404: "not_found_error",
        429: "rate_limit_error",
        529: "overloaded_error",
    }
    kind = kinds.get(status, "api_error" if dialect == "anthropic" else "server_error")
    if dialect == "anthropic":
        return _dump({"type": "error", "error": {"type": kind, "message": message}})
    return _dump({"error": {"message": message, "type": kind, "param": None, "code": None}})


def error_frame(dialect: Dialect, message: str) -> Frame:
    """The error that comes inside a stream that had begun well."""
    if dialect == "responses":
        error: Json = {"type": "error", "code": "server_error", "message": message, "param": None}
        return _event("error", {**error, "sequence_number": 0})
    body = error_body(dialect, 529, message)
    if dialect == "anthropic":
        return Frame(b"event: error\ndata: " + body + b"\n\n")
    return Frame(b"data: " + body + b"\n\n")


def _dump(value: object) -> bytes:
    """JSON with wide characters left as they are: a cut inside one must be possible."""
    return json.dumps(value, ensure_ascii=False).encode()


def _data(value: Json, text: str = "", kind: Kind | None = None) -> Frame:
    return Frame(b"data: " + _dump(value) + b"\n\n", text, kind)


def _event(name: str, value: Json, text: str = "", kind: Kind | None = None) -> Frame:
    head = f"event: {name}\ndata: ".encode()
    return Frame(head + _dump(value) + b"\n\n", text, kind)


def _model(body: Json) -> str:
    return str(body.get("model", "fake"))


def _calls(parts: Sequence[Part]) -> list[ToolCall]:
    return [part for part in parts if isinstance(part, ToolCall)]


def _text(parts: Sequence[Part]) -> str:
    return "".join(part.text for part in parts if isinstance(part, Text))


def _as_object(arguments: str) -> object:
    """Tool input for a dialect that cannot carry broken JSON in one piece: the text itself."""
    try:
        return cast(object, json.loads(arguments))
    except ValueError:
        return arguments


# Chat Completions


def _chat_usage(usage: tuple[int, int]) -> Json:
    return {
        "prompt_tokens": usage[0],
        "completion_tokens": usage[1],
        "total_tokens": sum(usage),
    }


def _chat_frames(reply: Reply, number: int, body: Json) -> list[Frame]:
    base: Json = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion.chunk",
        "created": _CREATED,
        "model": _model(body),
    }

    def delta(
        value: Json, text: str = "", kind: Kind | None = None, end: str | None = None
    ) -> Frame:
        choice: Json = {"index": 0, "delta": value, "finish_reason": end}
        return _data({**base, "choices": [choice]}, text, kind)

    out = [delta({"role": "assistant", "content": ""})]
    index = 0
    for part in reply.parts:
        match part:
            case Text():
                out += [delta({"content": p}, p, "text") for p in pieces(part.text, reply)]
            case Thinking():
                out += [
                    delta({"reasoning_content": p}, p, "thinking") for p in pieces(part.text, reply)
                ]
            case ToolCall():
                at = 0 if reply.duplicate_indices else index
                index += 1
                head: Json = {"index": at, "id": part.id, "type": "function"}
                opening: Json = {**head, "function": {"name": part.name, "arguments": ""}}
                out.append(delta({"tool_calls": [opening]}))
                for p in pieces(part.arguments, reply):
                    more: Json = {"index": at, "function": {"arguments": p}}
                    out.append(delta({"tool_calls": [more]}, p, "args"))
    out.append(delta({}, end=reply.finish or ("tool_calls" if index else "stop")))
    if reply.usage is not None:
        out.append(_data({**base, "choices": [], "usage": _chat_usage(reply.usage)}))
    out.append(Frame(b"data: [DONE]\n\n"))
    return out


def _chat_whole(reply: Reply, number: int, model: str) -> Json:
    calls = _calls(reply.parts)
    message: Json = {"role": "assistant", "content": _text(reply.parts) or None}
    thinking = "".join(part.text for part in reply.parts if isinstance(part, Thinking))
    if thinking:
        message["reasoning_content"] = thinking
    if calls:
        message["tool_calls"] = [
            {
                "id": part.id,
                "type": "function",
                "function": {"name": part.name, "arguments": part.arguments},
            }
            for part in calls
        ]
    finish = reply.finish or ("tool_calls" if calls else "stop")
    out: Json = {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": _CREATED,
        "model": model,
        "choices": [{"index": 0, "message": message, "finish_reason": finish}],
    }
    if reply.usage is not None:
        out["usage"] = _chat_usage(reply.usage)
    return out


# Responses


def _responses_item(part: Part, number: int, at: int, *, done: bool) -> Json:
    status = "completed" if done else "in_progress"
    match part:
        case Text():
            content: list[Json] = [{"type": "output_text", "text": part.text, "annotations": []}]
            return {
                "type": "message",
                "id": f"msg_{number}_{at}",
                "role": "assistant",
                "status": status,
                "content": content if done else [],
            }
        case Thinking():
            summary: list[Json] = [{"type": "summary_text", "text": part.text}]
            return {
                "type": "reasoning",
                "id": f"rs_{number}_{at}",
                "summary": summary if done else [],
                "encrypted_content": part.signature if done else None,
            }
        case ToolCall():
            return {
                "type": "function_call",
                "id": f"fc_{number}_{at}",
                "call_id": part.id,
                "name": part.name,
                "arguments": part.arguments if done else "",
                "status": status,
            }


def _responses_whole(reply: Reply, number: int, model: str, status: str | None = None) -> Json:
    begun = status == "in_progress"
    out: Json = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": _CREATED,
        "model": model,
        "status": status or reply.finish or "completed",
        "output": []
        if begun
        else [
            _responses_item(p, number, _at(reply, n), done=True) for n, p in enumerate(reply.parts)
        ],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
        "error": None,
        "incomplete_details": None,
    }
    if reply.usage is not None and not begun:
        out["usage"] = {
            "input_tokens": reply.usage[0],
            "output_tokens": reply.usage[1],
            "total_tokens": sum(reply.usage),
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }
    return out


def _at(reply: Reply, number: int) -> int:
    return 0 if reply.duplicate_indices else number


def _responses_frames(reply: Reply, number: int, body: Json) -> list[Frame]:
    out: list[Frame] = []

    def add(name: str, value: Json, text: str = "", kind: Kind | None = None) -> None:
        numbered: Json = {"type": name, "sequence_number": len(out), **value}
        out.append(_event(name, numbered, text, kind))

    begun = _responses_whole(reply, number, _model(body), "in_progress")
    add("response.created", {"response": begun})
    add("response.in_progress", {"response": begun})
    for n, part in enumerate(reply.parts):
        at = _at(reply, n)
        item = _responses_item(part, number, at, done=True)
        opening = _responses_item(part, number, at, done=False)
        where: Json = {"item_id": item["id"], "output_index": at}
        add("response.output_item.added", {"output_index": at, "item": opening})
        match part:
            case Text():
                inside: Json = {**where, "content_index": 0}
                empty: Json = {"type": "output_text", "text": "", "annotations": []}
                add("response.content_part.added", {**inside, "part": empty})
                for p in pieces(part.text, reply):
                    value: Json = {**inside, "delta": p, "logprobs": []}
                    add("response.output_text.delta", value, p, "text")
                full: Json = {**inside, "text": part.text, "logprobs": []}
                add("response.output_text.done", full)
                add("response.content_part.done", {**inside, "part": {**empty, "text": part.text}})
            case Thinking():
                inside = {**where, "summary_index": 0}
                empty = {"type": "summary_text", "text": ""}
                add("response.reasoning_summary_part.added", {**inside, "part": empty})
                for p in pieces(part.text, reply):
                    add(
                        "response.reasoning_summary_text.delta",
                        {**inside, "delta": p},
                        p,
                        "thinking",
                    )
                add("response.reasoning_summary_text.done", {**inside, "text": part.text})
                full = {**empty, "text": part.text}
                add("response.reasoning_summary_part.done", {**inside, "part": full})
            case ToolCall():
                for p in pieces(part.arguments, reply):
                    add("response.function_call_arguments.delta", {**where, "delta": p}, p, "args")
                full = {**where, "name": part.name, "arguments": part.arguments}
                add("response.function_call_arguments.done", full)
        add("response.output_item.done", {"output_index": at, "item": item})
    add("response.completed", {"response": _responses_whole(reply, number, _model(body))})
    return out


# Anthropic Messages


def _anthropic_message(reply: Reply, number: int, model: str) -> Json:
    out: Json = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": model,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
    }
    if reply.usage is not None:
        out["usage"] = {"input_tokens": reply.usage[0], "output_tokens": 1}
    return out


def _anthropic_stop(reply: Reply) -> str:
    return reply.finish or ("tool_use" if _calls(reply.parts) else "end_turn")


def _anthropic_block(part: Part) -> Json:
    match part:
        case Text():
            return {"type": "text", "text": part.text}
        case Thinking():
            return {"type": "thinking", "thinking": part.text, "signature": part.signature or ""}
        case ToolCall():
            given = _as_object(part.arguments)
            return {"type": "tool_use", "id": part.id, "name": part.name, "input": given}


def _anthropic_whole(reply: Reply, number: int, model: str) -> Json:
    out = _anthropic_message(reply, number, model)
    out["content"] = [_anthropic_block(part) for part in reply.parts]
    out["stop_reason"] = _anthropic_stop(reply)
    if reply.usage is not None:
        out["usage"] = {"input_tokens": reply.usage[0], "output_tokens": reply.usage[1]}
    return out


def _anthropic_deltas(part: Part, reply: Reply) -> list[tuple[Json, str, Kind | None]]:
    match part:
        case Text():
            return [
                ({"type": "text_delta", "text": p}, p, "text") for p in pieces(part.text, reply)
            ]
        case Thinking():
            out: list[tuple[Json, str, Kind | None]] = [
                ({"type": "thinking_delta", "thinking": p}, p, "thinking")
                for p in pieces(part.text, reply)
            ]
            if part.signature is not None:
                out.append(({"type": "signature_delta", "signature": part.signature}, "", None))
            return out
        case ToolCall():
            return [
                ({"type": "input_json_delta", "partial_json": p}, p, "args")
                for p in pieces(part.arguments, reply)
            ]


def _anthropic_frames(reply: Reply, number: int, body: Json) -> list[Frame]:
    message = _anthropic_message(reply, number, _model(body))
    out = [
        _event("message_start", {"type": "message_start", "message": message}),
        _event("ping", {"type": "ping"}),
    ]
    for n, part in enumerate(reply.parts):
        at: Json = {"index": _at(reply, n)}
        empty: Json = _anthropic_block(part)
        empty |= {key: "" for key in ("text", "thinking", "signature") if key in empty}
        empty |= {"input": {}} if isinstance(part, ToolCall) else {}
        start: Json = {"type": "content_block_start", **at, "content_block": empty}
        out.append(_event("content_block_start", start))
        for delta, text, kind in _anthropic_deltas(part, reply):
            value: Json = {"type": "content_block_delta", **at, "delta": delta}
            out.append(_event("content_block_delta", value, text, kind))
        out.append(_event("content_block_stop", {"type": "content_block_stop", **at}))
    end: Json = {
        "type": "message_delta",
        "delta": {"stop_reason": _anthropic_stop(reply), "stop_sequence": None},
    }
    if reply.usage is not None:
        end["usage"] = {"output_tokens": reply.usage[1]}
    out.append(_event("message_delta", end))
    out.append(_event("message_stop", {"type": "message_stop"}))
    return out
