"""Makes every model request of the SDK's runner a step of the run."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from typing import Any, Final, cast

import httpx2
import openai
from agents import Tool
from agents.items import ModelResponse, TResponseStreamEvent
from agents.models.interface import Model
from agents.usage import Usage

from pullcord.adapters import (
    AgentRun,
    Conversation,
    InstructionArrived,
    Json,
    Meter,
    ModelAnswer,
    Request,
    TextKind,
    Wait,
    dump,
    load,
    patience,
    watch_client,
)
from pullcord.agents.openai_agents.dialect import OUTPUT, Item, user, with_readable_calls
from pullcord.agents.openai_agents.refusing import refuse_what_came_later
from pullcord.errors import OutOfLimits

_PASSES: Final = (ConnectionError, TimeoutError, openai.APIConnectionError, httpx2.TransportError)
_KINDS: Final[dict[str, TextKind]] = {
    "response.output_text.delta": "text",
    "response.refusal.delta": "text",
    "response.reasoning_text.delta": "thinking",
    "response.reasoning_summary_text.delta": "thinking",
    "response.function_call_arguments.delta": "call",
}


class Watched(Model):
    """A model whose every request passes the doors of a run.

    supervised: the only tools that may be offered to the model.
    timeout_s: how long one attempt may take (`ModelSettings.timeout`).
    """

    def __init__(
        self,
        inner: Model,
        run: AgentRun,
        talk: Conversation[Item],
        *,
        supervised: Sequence[Tool] = (),
        timeout_s: float | None = None,
        wraps_up: bool = False,
    ) -> None:
        self._inner, self._run, self._talk, self._supervised = inner, run, talk, supervised
        self._timeout_s, self._wraps_up = timeout_s, wraps_up
        self._before = 0  # tokens that the previous request read and wrote

    async def get_response(
        self,
        system_instructions: str | None,
        input: str | list[Any],
        model_settings: Any,
        tools: list[Any],
        output_schema: Any,
        handoffs: list[Any],
        tracing: Any,
        **more: Any,
    ) -> ModelResponse:
        refuse_what_came_later(self._supervised, tools, handoffs)
        for client in _clients(self._inner):
            watch_client(client)
        talk, secrets = self._talk, self._run.secrets
        given = [user(input)] if isinstance(input, str) else with_readable_calls(input)
        items: list[Any] = load(secrets.seal_json(dump(given), screen=True))
        said = secrets.seal(system_instructions) if system_instructions else system_instructions

        async def attempt(answer: ModelAnswer) -> Json:
            asked = (said, items, model_settings, tools, output_schema, handoffs, tracing)
            stream = self._inner.stream_response(*asked, **more)
            async with asyncio.timeout(self._timeout_s):
                return await _heard(answer, stream, meter)

        known = list(talk.known)
        args = talk.next_request(items)
        meter = Meter.of(self._before, args, self._run.price)
        request = Request(
            key=talk.key,
            model=str(getattr(self._inner, "model", "unknown")),
            args=args,
            attempt=attempt,
            patience=_patience,
            parts=_parts,
            delivers=talk.delivers,
            reserve=meter.reserve(model_settings.max_tokens),
            wraps_up=self._wraps_up,
        )
        try:
            stored = await self._run.ask_model(request)
        except (InstructionArrived, OutOfLimits):
            if not self._run.has_asked(talk.key):
                talk.was_never_sent(known)
            raise
        return self._answered(stored)

    def _answered(self, stored: Json) -> ModelResponse:
        found = load(stored)
        read, written = found["usage"] or (0, 0)
        self._before = read + written
        answer = ModelResponse(
            output=OUTPUT.validate_python(found["output"]),
            usage=Usage(
                requests=1, input_tokens=read, output_tokens=written, total_tokens=read + written
            ),
            response_id=found["id"],
        )
        self._talk.known += cast("list[Any]", answer.to_input_items())
        return answer

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[TResponseStreamEvent]:
        raise NotImplementedError("a run shows what comes itself, so it only calls Runner.run")


async def _heard(answer: ModelAnswer, stream: Any, meter: Meter) -> Json:
    """Show the answer as it comes, and return the whole answer as the journal stores it."""
    done, chars = None, 0
    answer.costs(meter.so_far())
    async with aclosing(cast("AsyncGenerator[Any]", stream)) as events:
        async for event in events:
            answer.goes_on()
            if kind := _KINDS.get(event.type):
                answer.says(event.output_index, event.delta, kind)
                chars += len(event.delta)
                answer.costs(meter.so_far(chars=chars))
            elif event.type == "response.completed":
                done = event.response
    answer.goes_on()
    if done is None:
        raise ConnectionError("the stream ended before the answer was complete")
    usage = (done.usage.input_tokens, done.usage.output_tokens) if done.usage else None
    answer.costs(meter.spent(*usage) if usage else meter.so_far(chars=chars))
    output = [one.model_dump(mode="json", exclude_unset=True) for one in done.output]
    return dump({"id": done.id, "output": output, "usage": usage})


def _parts(stored: Json) -> list[tuple[int, TextKind, str]]:
    found: list[tuple[int, TextKind, str]] = []
    for index, item in enumerate(load(stored)["output"]):
        if item["type"] == "message":
            texts = [part.get("text") or part.get("refusal") or "" for part in item["content"]]
            found.append((index, "text", "".join(texts)))
        elif item["type"] == "reasoning":
            parts = [*item.get("summary", ()), *(item.get("content") or ())]
            found.append((index, "thinking", "".join(part["text"] for part in parts)))
        elif item["type"] == "function_call":
            found.append((index, "call", item["arguments"]))
    return found


def _patience(error: BaseException, failures: int) -> Wait | None:
    """Return the wait after a failed request. None: give up."""
    response = getattr(error, "response", None)
    if getattr(error, "code", None) == "insufficient_quota":
        return None
    return patience(
        failures,
        model="the model",
        status=getattr(error, "status_code", None),
        headers=getattr(response, "headers", None),
        passes=isinstance(error, _PASSES),
    )


def _clients(model: Model) -> Iterator[Any]:
    """Yield the HTTP clients below a model: the provider's SDK, and the client below that."""
    for name in ("_client", "client"):
        client: Any = getattr(model, name, None)
        yield from (one for one in (client, getattr(client, "_client", None)) if one is not None)
