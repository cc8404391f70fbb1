"""The messages of Pydantic AI, as a conversation stores them and closes a turn that was cut."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from pydantic_ai import ModelRetry
from pydantic_ai import messages as m
from pydantic_ai.exceptions import ApprovalRequired, CallDeferred, ToolFailed

from pullcord.adapters import Dialect, Fate, Json, PastRequest, PastRun, load
from pullcord.agents.pydantic_ai.messages import (
    MESSAGES,
    Messages,
    mended,
    response_of,
    return_of,
)
from pullcord.agents.pydantic_ai.outcomes import said_in


class PydanticDialect(Dialect[m.ModelMessage]):
    """Stores messages in Pydantic AI's own JSON."""

    def dump(self, messages: Sequence[m.ModelMessage], /) -> bytes:
        return MESSAGES.dump_json(list(messages))

    def load(self, stored: bytes, /) -> Messages:
        return MESSAGES.validate_json(stored)

    def answer(self, stored: Json, /) -> Messages:
        return [response_of(stored)]

    def prompt(self, given: Any, /) -> Messages:
        return [m.ModelRequest([m.UserPromptPart(as_prompt(given))])]

    def spoken(self, text: str, /, *, was_cut: bool) -> Messages:
        state: Literal["interrupted", "complete"] = "interrupted" if was_cut else "complete"
        return [m.ModelResponse([m.TextPart(text)], state=state)]

    def closed(self, past: PastRun, last: PastRequest | None, remark: str, /) -> Messages:
        fates: list[m.ModelRequestPart] = []
        more: list[m.ModelRequestPart] = []
        answer = last.answer if last is not None else None
        if last is not None and answer is not None:
            for call in response_of(answer).tool_calls:
                fate = _fate(past, last.key, call)
                fates.append(_told(call, fate))
                more += _also_said(fate)
        parts = [*fates, *more, *([m.UserPromptPart(remark)] if remark else [])]
        return [m.ModelRequest(parts)] if parts else []

    def mended(self, messages: Sequence[m.ModelMessage], /) -> Messages:
        return mended(messages)


DIALECT = PydanticDialect()


def spawn_key(request: str, call_id: str) -> str:
    """Return the key of the run that a call of this answer starts."""
    return f"{request}-{call_id}"


def call_parts(request: str, call_id: str, *, approved: bool = False) -> tuple[object, ...]:
    """Return what a call of this answer is known by: see `AgentRun.step_id`."""
    return ("call", int(request), call_id, *(["approved"] if approved else []))


def outside_parts(request: str, call_id: str) -> tuple[object, ...]:
    """The same for the question to somebody outside who carries the call out."""
    return ("external", int(request), call_id)


def _fate(past: PastRun, request: str, call: m.ToolCallPart) -> Fate:
    ids = [
        past.step_id("", *call_parts(request, call.tool_call_id, approved=approved))
        for approved in (True, False)
    ]
    question = past.step_id(call.tool_name, *outside_parts(request, call.tool_call_id))
    spawned = spawn_key(request, call.tool_call_id)
    fate = past.fate(*ids, question=question, spawned=spawned)
    if isinstance(said_in(fate.raised), ApprovalRequired | CallDeferred):
        return past.fate_elsewhere(question=question, spawned=spawned)
    return fate


def _told(call: m.ToolCallPart, fate: Fate) -> m.ToolReturnPart:
    """The result of a call, as the model is told it: one of five truths, or what it gave."""
    if fate.result is not None:
        return returned(call, fate.result)
    said = said_in(fate.raised)
    text = said.message if isinstance(said, ModelRetry | ToolFailed) else fate.text
    outcome: Any = "failed" if fate.is_error else "interrupted"
    if fate.outcome == "denied":
        outcome = "denied"
    return m.ToolReturnPart(call.tool_name, text, call.tool_call_id, outcome=outcome)


def returned(call: m.ToolCallPart, stored: Json) -> m.ToolReturnPart:
    """What a finished call gave, from what was stored of it."""
    given = return_of(load(stored))
    if not isinstance(given, m.ToolReturn):
        return m.ToolReturnPart(call.tool_name, given, call.tool_call_id)
    content: Any = given.return_value  # pyright: ignore[reportUnknownMemberType]
    return m.ToolReturnPart(call.tool_name, content, call.tool_call_id, metadata=given.metadata)


def _also_said(fate: Fate) -> list[m.ModelRequestPart]:
    """What a finished call has for the model beside its result."""
    given = return_of(load(fate.result)) if fate.result is not None else None
    if isinstance(given, m.ToolReturn) and given.content:
        return [m.UserPromptPart(given.content)]
    return []


def as_prompt(given: Any) -> Any:
    """What a run was given, as a prompt: text, or a list of texts; else its JSON."""
    match given:
        case str():
            return given
        case {"prompt": prompt}:
            return as_prompt(prompt)
        case list() if all(isinstance(item, str) for item in given):  # pyright: ignore[reportUnknownVariableType]
            return given  # pyright: ignore[reportUnknownVariableType]
        case None:
            return ""
        case _:
            return msgspec.json.encode(given).decode()
