"""Stores the SDK's items in a conversation, and closes turns that were cut."""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias

import msgspec
from agents.items import ItemHelpers, ModelResponse
from agents.usage import Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputItem
from pydantic import TypeAdapter

from pullcord.adapters import Dialect, Fate, Json, PastRequest, PastRun, load

Item: TypeAlias = dict[str, Any]
"""One item of a conversation, in the JSON of the Responses API, also for chat completions."""

OUTPUT: Final[TypeAdapter[list[Any]]] = TypeAdapter(list[ResponseOutputItem])
_UNKNOWN: Final = Fate(outcome="unknown", words="nobody knows whether it happened.")


class ItemDialect(Dialect[Item]):
    """The dialect of the SDK: it stores items as the runner sends them."""

    def dump(self, messages: Sequence[Item], /) -> bytes:
        return msgspec.json.encode(messages)

    def load(self, stored: bytes, /) -> list[Item]:
        return msgspec.json.decode(stored, type=list[Item])

    def answer(self, stored: Json, /) -> list[Item]:
        return items_of(stored)

    def prompt(self, given: Any, /) -> list[Item]:
        match given:
            case None:
                return []
            case str():
                return [user(given)]
            case {"prompt": prompt}:
                return self.prompt(prompt)
            case list() if all(isinstance(one, str) or _is_item(one) for one in given):  # pyright: ignore[reportUnknownVariableType]
                return [user(one) if isinstance(one, str) else one for one in given]  # pyright: ignore[reportUnknownVariableType]
            case _:
                return [user(msgspec.json.encode(given).decode())]

    def spoken(self, text: str, /, *, was_cut: bool) -> list[Item]:
        return [{"role": "assistant", "content": text}]

    def closed(self, past: PastRun, last: PastRequest | None, remark: str, /) -> list[Item]:
        answer = last.answer if last is not None else None
        calls = (
            [one for one in items_of(answer) if one["type"] == "function_call"] if answer else []
        )
        told: list[Item] = []
        for call in calls:
            assert last is not None
            fate = past.fate(past.step_id("", *call_parts(last.key, call["call_id"])))
            told.append(output_of(call, fate))
        return [*told, *([user(remark)] if remark else [])]

    def mended(self, messages: Sequence[Item], /) -> list[Item]:
        """Return the items with one result for each call, behind the calls of its answer."""
        outputs = {one["call_id"]: one for one in reversed(messages) if _is(one, "call_output")}
        kept: list[Item] = []
        open_calls: dict[str, Item] = {}
        known: set[str] = set()

        def close() -> None:
            for name, call in open_calls.items():
                kept.append(outputs.get(name) or output_of(call, _UNKNOWN))
            known.update(open_calls)
            open_calls.clear()

        for number, item in enumerate(messages):
            if _is(item, "call"):
                name = item["call_id"]
                if name not in known | open_calls.keys() and _is_object(item["arguments"]):
                    open_calls[name] = item
                    kept.append(item)
            elif item.get("type") == "reasoning" and not _leads_on(messages[number + 1 :]):
                continue  # providers refuse reasoning without a result
            else:
                close()
                kept += [] if _is(item, "call_output") else [item]
        close()
        return kept


DIALECT: Final = ItemDialect()


def user(text: str) -> Item:
    return {"role": "user", "content": text}


def with_readable_calls(items: Sequence[Item]) -> list[Item]:
    """Return the items. A call whose arguments are no JSON object has none in them.

    Providers refuse such a call. Its result says what was wrong.
    """
    return [
        {**one, "arguments": "{}"} if _is(one, "call") and not _is_object(one["arguments"]) else one
        for one in items
    ]


def items_of(stored: Json) -> list[Item]:
    """Return a stored answer as the items that the runner makes of it."""
    output = OUTPUT.validate_python(load(stored)["output"])
    answer: Any = ModelResponse(output=output, usage=Usage(), response_id=None)
    return answer.to_input_items()


def call_parts(request: str, call_id: str) -> tuple[object, ...]:
    """Return the parts that identify a call of this answer: see `AgentRun.step_id`."""
    return ("call", int(request), call_id)


def output_of(call: Item, fate: Fate) -> Item:
    """Return a call's result, or the reason for none, as the runner writes it."""
    given = load(fate.result) if fate.result is not None else fate.text
    made: Any = ItemHelpers.tool_call_output_item(ResponseFunctionToolCall(**call), given)
    return made


def _is(item: Item, kind: str) -> bool:
    return item.get("type") == f"function_{kind}"


def _is_item(one: Any) -> bool:
    return isinstance(one, dict) and ("role" in one or "type" in one)


def _leads_on(after: Sequence[Item]) -> bool:
    """Return whether the next item belongs to the same answer."""
    following = after[0] if after else {}
    kind = following.get("type")
    return kind in ("function_call", "reasoning") or following.get("role") == "assistant"


def _is_object(arguments: str) -> bool:
    try:
        return not arguments or isinstance(msgspec.json.decode(arguments), dict)
    except msgspec.DecodeError:
        return False
