"""What the real APIs refuse in a history, so that a broken one is met here and not in production.

Each function returns the complaints, worded as the API words them; none means accepted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Sequence
from typing import cast

from tests.agents.provider.dialects import Dialect, Json

_ANTHROPIC_ID = re.compile(r"[a-zA-Z0-9_-]+")


def complaints(
    dialect: Dialect, body: Json, *, stored_calls: Collection[str] | None = None
) -> list[str]:
    """Everything that is wrong with the history in a request body.

    `stored_calls`: for Responses, the open calls of the response that `previous_response_id`
    names; None when there is no such response.
    """
    if dialect == "responses":
        return _responses(body, stored_calls)
    check: Callable[[Json], list[str]] = _chat if dialect == "chat" else _anthropic
    return check(body)


def _dicts(value: object) -> list[Json]:
    """The JSON objects of a list; anything else is an empty list."""
    if not isinstance(value, list):
        return []
    return [cast(Json, one) for one in cast(list[object], value) if isinstance(one, dict)]


def _json_problem(text: object) -> str | None:
    if not isinstance(text, str):
        return "arguments are not a string"
    try:
        json.loads(text)
    except ValueError as e:
        return f"arguments are not valid JSON ({e})"
    return None


def _repeated(ids: Sequence[str]) -> list[str]:
    return sorted({one for one in ids if ids.count(one) > 1})


# Chat Completions


def _chat(body: Json) -> list[str]:
    messages = _dicts(body.get("messages"))
    if not messages:
        return ["messages: must be a non-empty list"]
    out: list[str] = []
    owed: list[str] = []  # calls of the last assistant message that have no result yet
    for n, message in enumerate(messages):
        role = message.get("role")
        if role == "tool":
            given = str(message.get("tool_call_id"))
            if given in owed:
                owed.remove(given)
            else:
                out.append(
                    f"messages.[{n}]: tool result for {given!r} does not follow an assistant"
                    " message with that tool_call, or is a second one"
                )
            continue
        out += _chat_unpaid(n, owed)
        owed = []
        if role == "assistant":
            owed = _chat_calls(n, message, out)
        elif role not in ("system", "developer", "user"):
            out.append(f"messages.[{n}]: unknown role {role!r}")
        elif message.get("content") in (None, []):
            out.append(f"messages.[{n}].content: must not be empty")
    return out + _chat_unpaid(len(messages), owed)


def _chat_unpaid(n: int, owed: list[str]) -> list[str]:
    if not owed:
        return []
    return [
        "An assistant message with 'tool_calls' must be followed by tool messages responding to"
        f" each 'tool_call_id'. Before messages.[{n}] these had no response: {', '.join(owed)}"
    ]


def _chat_calls(n: int, message: Json, out: list[str]) -> list[str]:
    """The call ids of an assistant message; what is wrong with it is added to `out`."""
    calls = _dicts(message.get("tool_calls"))
    if "tool_calls" in message and message["tool_calls"] is not None and not calls:
        out.append(f"messages.[{n}].tool_calls: [] is too short")
    if not calls and message.get("content") in (None, []) and not message.get("refusal"):
        out.append(f"messages.[{n}].content: required when there are no tool_calls")
    ids = [str(one.get("id")) for one in calls]
    out += [f"messages.[{n}]: duplicate tool_call id {one!r}" for one in _repeated(ids)]
    for one in calls:
        function = cast(Json, one.get("function") or {})
        if not function.get("name"):
            out.append(f"messages.[{n}]: tool_call {one.get('id')!r} has no function name")
        if problem := _json_problem(function.get("arguments")):
            out.append(f"messages.[{n}]: tool_call {one.get('id')!r}: {problem}")
    return list(dict.fromkeys(ids))


# Responses


def _responses(body: Json, stored_calls: Collection[str] | None) -> list[str]:
    given = body.get("input")
    previous = body.get("previous_response_id")
    out: list[str] = []
    if previous and stored_calls is None:
        out.append(f"Previous response with id '{previous}' not found.")
    if isinstance(given, str) and given and not stored_calls:
        return out
    items = _dicts(given)
    if not items:
        return [*out, "input: must not be empty"]
    open_calls = list(stored_calls or ())
    answered: set[str] = set()
    for n, item in enumerate(items):
        kind = item.get("type", "message")
        if kind == "function_call":
            _responses_call(n, item, open_calls, out)
        elif kind == "function_call_output":
            _responses_output(n, item, open_calls, answered, out)
        elif kind == "reasoning":
            out += _responses_reasoning(n, item, items)
        elif kind == "message" and item.get("content") in (None, []):
            out.append(f"input[{n}].content: must not be empty")
    out += [f"No tool output found for function call {one}." for one in open_calls]
    return out


def _responses_call(n: int, item: Json, open_calls: list[str], out: list[str]) -> None:
    call_id = str(item.get("call_id"))
    if call_id in open_calls:
        out.append(f"input[{n}]: duplicate call_id {call_id!r}")
    else:
        open_calls.append(call_id)
    if problem := _json_problem(item.get("arguments")):
        out.append(f"input[{n}]: function call {call_id!r}: {problem}")


def _responses_output(
    n: int, item: Json, open_calls: list[str], answered: set[str], out: list[str]
) -> None:
    call_id = str(item.get("call_id"))
    if call_id in open_calls:
        open_calls.remove(call_id)
        answered.add(call_id)
    elif call_id in answered:
        out.append(f"input[{n}]: second output for function call {call_id}.")
    else:
        out.append(f"No tool call found for function call output with call_id {call_id}.")


def _responses_reasoning(n: int, item: Json, items: list[Json]) -> list[str]:
    """A reasoning item may not stand alone: what it led to must come right after it."""
    after = items[n + 1] if n + 1 < len(items) else None
    kind = after.get("type", "message") if after else None
    ours = kind in ("reasoning", "function_call") or (
        kind == "message" and after is not None and after.get("role") == "assistant"
    )
    if ours or kind not in (None, "message", "function_call_output"):
        return []
    return [
        f"Item '{item.get('id')}' of type 'reasoning' was provided without its required following"
        " item."
    ]


# Anthropic Messages


def _anthropic(body: Json) -> list[str]:
    out: list[str] = []
    if not isinstance(body.get("max_tokens"), int):
        out.append("max_tokens: Field required")
    for block in _dicts(body.get("system")):
        out += _anthropic_text("system", block)
    messages = _dicts(body.get("messages"))
    if not messages:
        return [*out, "messages: at least one message is required"]
    if messages[0].get("role") != "user":
        out.append("messages: first message must use the 'user' role")
    for n, message in enumerate(messages):
        out += _anthropic_shape(n, message, last=n == len(messages) - 1)
    turns = _anthropic_turns(messages)
    for n, (role, blocks) in enumerate(turns):
        before = turns[n - 1][1] if n and role == "user" else []
        out += _anthropic_results(n, role, blocks, before)
    if turns[-1][0] == "assistant":
        out += _anthropic_unpaid(len(turns), _ids(turns[-1][1], "tool_use", "id"), [])
    return out


def _blocks(message: Json) -> list[Json]:
    content = message.get("content")
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    return _dicts(content)


def _ids(blocks: list[Json], kind: str, key: str) -> list[str]:
    return [str(block.get(key)) for block in blocks if block.get("type") == kind]


def _anthropic_turns(messages: list[Json]) -> list[tuple[object, list[Json]]]:
    """Messages as the API sees them: neighbours of one role are one turn."""
    turns: list[tuple[object, list[Json]]] = []
    for message in messages:
        if turns and turns[-1][0] == message.get("role"):
            turns[-1][1].extend(_blocks(message))
        else:
            turns.append((message.get("role"), list(_blocks(message))))
    return turns


def _anthropic_text(where: str, block: Json) -> list[str]:
    if block.get("type") != "text":
        return []
    text = block.get("text")
    if not isinstance(text, str) or not text:
        return [f"{where}: text content blocks must be non-empty"]
    if not text.strip():
        return [f"{where}: text content blocks must contain non-whitespace text"]
    return []


def _anthropic_shape(n: int, message: Json, *, last: bool) -> list[str]:
    """What can be said about one message alone."""
    role, blocks, where = message.get("role"), _blocks(message), f"messages.{n}"
    if role not in ("user", "assistant"):
        return [f"{where}: unexpected role {role!r}"]
    if not blocks:
        if last and role == "assistant":
            return []
        return [f"{where}: all messages must have non-empty content"]
    out: list[str] = []
    for at, block in enumerate(blocks):
        out += _anthropic_block(f"{where}.content.{at}", block)
    if role == "assistant":
        end = blocks[-1]
        if end.get("type") in ("thinking", "redacted_thinking"):
            out.append(f"{where}: the final block in an assistant message cannot be `thinking`")
        text = end.get("text")
        if last and isinstance(text, str) and text != text.rstrip():
            out.append("messages: final assistant content cannot end with trailing whitespace")
    return out


def _anthropic_block(where: str, block: Json) -> list[str]:
    match block.get("type"):
        case "text":
            return _anthropic_text(where, block)
        case "thinking" if not block.get("signature"):
            return [f"{where}.thinking.signature: Field required"]
        case "tool_use":
            out: list[str] = []
            if not isinstance(block.get("input"), dict):
                out.append(f"{where}.tool_use.input: Input should be a valid dictionary")
            if not _ANTHROPIC_ID.fullmatch(str(block.get("id"))):
                out.append(f"{where}.tool_use.id: String should match '^[a-zA-Z0-9_-]+$'")
            return out
        case "tool_result":
            inner = _dicts(block.get("content"))
            return [line for one in inner for line in _anthropic_text(f"{where}.tool_result", one)]
        case _:
            return []


def _anthropic_results(n: int, role: object, blocks: list[Json], before: list[Json]) -> list[str]:
    """Calls and results of one turn against the turn before it."""
    out: list[str] = []
    repeated = _repeated(_ids(blocks, "tool_use", "id"))
    out += [f"messages.{n}: `tool_use` ids must be unique: {one}" for one in repeated]
    if role != "user":
        return out
    calls = _ids(before, "tool_use", "id")
    results = _ids(blocks, "tool_result", "tool_use_id")
    out += [
        f"messages.{n}: unexpected `tool_use_id` found in `tool_result` blocks: {one}"
        for one in results
        if one not in calls
    ]
    out += [
        f"messages.{n}: each tool_use must have a single result. Found multiple `tool_result`"
        f" blocks with id: {one}"
        for one in _repeated(results)
    ]
    kinds = [block.get("type") == "tool_result" for block in blocks]
    if kinds != sorted(kinds, reverse=True):
        out.append(f"messages.{n}: `tool_result` blocks must come first in the content")
    return out + _anthropic_unpaid(n, calls, results)


def _anthropic_unpaid(n: int, calls: list[str], results: list[str]) -> list[str]:
    missing = [one for one in calls if one not in results]
    if not missing:
        return []
    return [
        f"messages.{n}: `tool_use` ids were found without `tool_result` blocks immediately after:"
        f" {', '.join(missing)}"
    ]
