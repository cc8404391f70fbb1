"""The strict rules: each history that a real API refuses is refused, each good one passes."""

from __future__ import annotations

import pytest

from tests.agents.provider.dialects import Dialect, Json
from tests.agents.provider.rules import complaints

USER: Json = {"role": "user", "content": "go"}


def chat_calls(*ids: str, arguments: str = "{}") -> Json:
    function: Json = {"name": "f", "arguments": arguments}
    calls = [{"id": one, "type": "function", "function": function} for one in ids]
    return {"role": "assistant", "content": None, "tool_calls": calls}


def chat_result(call_id: str) -> Json:
    return {"role": "tool", "tool_call_id": call_id, "content": ""}


def use(*ids: str) -> Json:
    blocks: list[Json] = [{"type": "tool_use", "id": one, "name": "f", "input": {}} for one in ids]
    return {"role": "assistant", "content": blocks}


def results(*ids: str, first: str | None = None, then: str | None = None) -> Json:
    blocks: list[Json] = [
        {"type": "tool_result", "tool_use_id": one, "content": "ok"} for one in ids
    ]
    before = [] if first is None else [text(first)]
    after = [] if then is None else [text(then)]
    return {"role": "user", "content": [*before, *blocks, *after]}


def says(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def text(words: str) -> Json:
    return {"type": "text", "text": words}


def thinks(signature: str = "s") -> Json:
    return {"type": "thinking", "thinking": "hm", "signature": signature}


def function_call(call_id: str, arguments: str = "{}") -> Json:
    return {"type": "function_call", "call_id": call_id, "name": "f", "arguments": arguments}


def output(call_id: str) -> Json:
    return {"type": "function_call_output", "call_id": call_id, "output": ""}


REASONING: Json = {"type": "reasoning", "id": "rs_1", "summary": []}

GOOD: list[tuple[str, Dialect, list[Json]]] = [
    ("plain", "chat", [USER]),
    ("two calls", "chat", [USER, chat_calls("a", "b"), chat_result("b"), chat_result("a"), USER]),
    ("id used again later", "chat", [USER, *2 * [chat_calls("a"), chat_result("a")]]),
    ("empty answer", "chat", [USER, {"role": "assistant", "content": ""}, USER]),
    ("plain", "anthropic", [USER]),
    ("two users in a row", "anthropic", [USER, USER]),
    ("two calls", "anthropic", [USER, use("a", "b"), results("b", "a", then="and?")]),
    ("results in two messages", "anthropic", [USER, use("a", "b"), results("a"), results("b")]),
    ("calls in two messages", "anthropic", [USER, use("a"), use("b"), results("a", "b")]),
    ("signed thinking", "anthropic", [USER, says(thinks(), text("so")), USER]),
    ("trailing space, not last", "anthropic", [USER, says(text("so ")), USER]),
    ("plain", "responses", [USER]),
    (
        "two calls",
        "responses",
        [USER, function_call("a"), function_call("b"), output("b"), output("a")],
    ),
    ("reasoning", "responses", [USER, REASONING, function_call("a"), output("a")]),
]

BAD: list[tuple[str, Dialect, list[Json]]] = [
    ("nothing", "chat", []),
    ("dangling at the end", "chat", [USER, chat_calls("a")]),
    ("dangling before a user", "chat", [USER, chat_calls("a"), USER]),
    ("half answered", "chat", [USER, chat_calls("a", "b"), chat_result("a"), USER]),
    ("answered too late", "chat", [USER, chat_calls("a"), USER, chat_result("a")]),
    ("answered twice", "chat", [USER, chat_calls("a"), chat_result("a"), chat_result("a")]),
    ("orphan", "chat", [USER, chat_result("a")]),
    ("same id twice", "chat", [USER, chat_calls("a", "a"), chat_result("a"), chat_result("a")]),
    ("broken JSON", "chat", [USER, chat_calls("a", arguments='{"x": '), chat_result("a")]),
    ("no arguments", "chat", [USER, chat_calls("a", arguments=""), chat_result("a")]),
    ("empty call list", "chat", [USER, chat_calls()]),
    ("says nothing", "chat", [USER, {"role": "assistant", "content": None}]),
    ("user says nothing", "chat", [{"role": "user", "content": []}]),
    ("nothing", "anthropic", []),
    ("assistant first", "anthropic", [says(text("hi")), USER]),
    ("dangling at the end", "anthropic", [USER, use("a")]),
    ("dangling before a user", "anthropic", [USER, use("a"), USER]),
    ("half answered", "anthropic", [USER, use("a", "b"), results("a")]),
    ("text before the result", "anthropic", [USER, use("a"), results("a", first="wait")]),
    ("answered twice", "anthropic", [USER, use("a"), results("a", "a")]),
    ("orphan", "anthropic", [USER, says(text("hi")), results("a")]),
    ("orphan at the start", "anthropic", [results("a")]),
    ("answered a turn late", "anthropic", [USER, use("a"), USER, says(text("x")), results("a")]),
    ("same id twice", "anthropic", [USER, use("a", "a"), results("a")]),
    ("odd id", "anthropic", [USER, use("a|b"), results("a|b")]),
    ("empty text", "anthropic", [USER, says(text(""), text("x")), USER]),
    ("only white space", "anthropic", [USER, says(text(" \n")), USER]),
    ("empty string", "anthropic", [{"role": "user", "content": ""}]),
    ("empty message", "anthropic", [USER, says(), USER]),
    ("unsigned thinking", "anthropic", [USER, says(thinks(""), text("so")), USER]),
    ("ends in thinking", "anthropic", [USER, says(text("so"), thinks()), USER]),
    ("only thinking", "anthropic", [USER, says(thinks()), USER]),
    ("trailing space at the end", "anthropic", [USER, says(text("so "))]),
    (
        "input is no object",
        "anthropic",
        [
            USER,
            says({"type": "tool_use", "id": "a", "name": "f", "input": '{"x": '}),
            results("a"),
        ],
    ),
    ("system role inside", "anthropic", [{"role": "system", "content": "x"}, USER]),
    ("nothing", "responses", []),
    ("dangling", "responses", [USER, function_call("a"), USER]),
    ("orphan", "responses", [USER, output("a")]),
    ("output before the call", "responses", [USER, output("a"), function_call("a")]),
    ("answered twice", "responses", [USER, function_call("a"), output("a"), output("a")]),
    ("same id twice", "responses", [USER, function_call("a"), function_call("a"), output("a")]),
    ("broken JSON", "responses", [USER, function_call("a", '{"x"'), output("a")]),
    ("reasoning alone", "responses", [USER, REASONING, USER]),
    ("reasoning at the end", "responses", [USER, REASONING]),
]


def request(dialect: Dialect, history: list[Json]) -> Json:
    key = "input" if dialect == "responses" else "messages"
    return {key: history, "max_tokens": 100}


@pytest.mark.parametrize(
    ("dialect", "history"), [(d, h) for _, d, h in GOOD], ids=[f"{d}: {n}" for n, d, _ in GOOD]
)
def test_good(dialect: Dialect, history: list[Json]) -> None:
    assert complaints(dialect, request(dialect, history)) == []


@pytest.mark.parametrize(
    ("dialect", "history"), [(d, h) for _, d, h in BAD], ids=[f"{d}: {n}" for n, d, _ in BAD]
)
def test_bad(dialect: Dialect, history: list[Json]) -> None:
    assert complaints(dialect, request(dialect, history))


def test_calls_of_a_stored_response() -> None:
    body: Json = {"previous_response_id": "resp_1", "input": [output("a")]}
    assert complaints("responses", body, stored_calls=["a"]) == []
    assert complaints("responses", body, stored_calls=["a", "b"])
    assert complaints("responses", body, stored_calls=[])
    assert complaints("responses", body, stored_calls=None)


def test_max_tokens_is_required_by_anthropic() -> None:
    assert complaints("anthropic", {"messages": [USER]}) == ["max_tokens: Field required"]
