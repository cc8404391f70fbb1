"""The door to the model: every attempt at a request is a step of the run."""

from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, Final

from pydantic_ai import RunContext
from pydantic_ai import messages as m
from pydantic_ai.exceptions import (
    ModelAPIError,
    ModelConnectionError,
    ModelHTTPError,
    ModelQuotaExceededError,
    ModelRateLimitError,
    ModelServerError,
    ModelUnavailableError,
)
from pydantic_ai.models import (
    CompletedStreamedResponse,
    Model,
    ModelRequestParameters,
    StreamedResponse,
)
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_core import to_json

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
    patience,
    watch_client,
)
from pullcord.agents.pydantic_ai.messages import (
    response_of,
    sealed_messages,
    sealed_response,
    stored_response,
)
from pullcord.agents.pydantic_ai.prices import price_of, spent_on, tokens_before
from pullcord.errors import OutOfLimits

_PASSES: Final = (  # also said inside a stream that had begun well, where there is no status
    ModelConnectionError,
    ModelRateLimitError,
    ModelServerError,
    ModelUnavailableError,
)
GO_ON: Final = (
    "[Your answer above was cut off there. Go on with it from exactly that place: write only what "
    "follows, and nothing of it again.]"
)
_NEVER_SAY_THE_END: Final = frozenset({"snowflake"})


class WatchedModel(WrapperModel):
    """A model whose every request passes the doors of a run."""

    def __init__(
        self,
        wrapped: Model,
        run: AgentRun,
        talk: Conversation[m.ModelMessage],
        history: Callable[[], list[m.ModelMessage]],
        *,
        continues: bool | None = None,
        wraps_up: bool = False,
    ) -> None:
        super().__init__(wrapped)
        self._run, self._talk, self._history = run, talk, history
        self._continues, self._wraps_up = continues, wraps_up
        self._price = run.price or price_of(wrapped)

    async def request(
        self,
        messages: list[m.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> m.ModelResponse:
        for client in _clients(self.wrapped):
            watch_client(client)
        secrets = self._run.secrets
        messages = sealed_messages(messages, secrets)
        model_request_parameters = secrets.seal_value(model_request_parameters, screen=True)
        made: list[m.ModelResponse] = []

        async def attempt(answer: ModelAnswer) -> Json:
            so_far = answer.before if self._goes_on(answer) else ""
            sent = [*messages, *_cut_at(so_far, asks=not self._continues)] if so_far else messages
            stream = self._attempt(answer, sent, model_settings, model_request_parameters, meter)
            response = await stream
            response = _after(so_far, response) if so_far else response
            response = sealed_response(response, secrets)
            answer.costs(spent_on(response, meter))
            made[:] = [response]
            return stored_response(response)

        talk = self._talk
        known = list(talk.known)
        args = talk.next_request(sealed_messages(self._history(), secrets))
        meter = Meter.of(tokens_before(messages), args, self._price)
        request = Request(
            key=talk.key,
            model=self.wrapped.model_name,
            args=args,
            attempt=attempt,
            patience=_patience,
            parts=lambda stored: _texts(response_of(stored)),
            delivers=talk.delivers,
            reserve=meter.reserve((model_settings or {}).get("max_tokens")),
            wraps_up=self._wraps_up,
            continues=self._continues is not False,
        )
        try:
            stored = await self._run.ask_model(request)
        except (InstructionArrived, OutOfLimits):
            if not self._run.has_asked(talk.key):
                talk.was_never_sent(known)
            raise
        response = made[0] if made else response_of(stored)
        talk.known.append(response)
        return response

    def _goes_on(self, answer: ModelAnswer) -> bool:
        """Whether what was shown is gone on with: of an answer that was cut, not of one that its
        provider broke off, unless it is one that goes on by itself."""
        return bool(self._continues) or (self._continues is None and answer.was_cut)

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[m.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        """Whoever listens to the events of Pydantic AI hears them when the answer is durable; as
        it comes, it is shown by the run."""
        response = await self.request(messages, model_settings, model_request_parameters)
        yield CompletedStreamedResponse(
            response, model_request_parameters=model_request_parameters, replay_events=True
        )

    async def _attempt(
        self,
        answer: ModelAnswer,
        messages: list[m.ModelMessage],
        settings: ModelSettings | None,
        parameters: ModelRequestParameters,
        meter: Meter,
    ) -> m.ModelResponse:
        answer.costs(meter.so_far())
        if not _streams(self.wrapped):
            response = await self.wrapped.request(messages, settings, parameters)
            for index, kind, text in _texts(response):
                answer.says(index, text, kind)
            return response
        chars = 0
        async with self.wrapped.request_stream(messages, settings, parameters) as stream:
            async for event in stream:
                chars += _tell(answer, event)
                read, written = stream.usage.input_tokens, stream.usage.output_tokens
                answer.costs(meter.so_far(read, written, chars))
            answer.goes_on()
            response = stream.get()
        if response.state in ("incomplete", "interrupted") or not _has_ended(stream):
            why = "the stream ended before the answer was complete"
            raise ModelConnectionError(self.wrapped.model_name, why)
        return response


def _patience(error: BaseException, failures: int) -> Wait | None:
    """What to do about a request that failed: providers' own clients do not wait, we do."""
    if not isinstance(error, ModelAPIError) or isinstance(error, ModelQuotaExceededError):
        return None
    return patience(
        failures,
        model=error.model_name,
        status=error.status_code if isinstance(error, ModelHTTPError) else None,
        headers=getattr(error, "headers", None),
        asked_s=error.retry_after or 0.0,
        passes=isinstance(error, _PASSES),
    )


def _clients(model: Model) -> Iterator[Any]:
    """The HTTP clients below a model, however many wrappers are around it."""
    inner: list[Any] = [*getattr(model, "models", ())]
    if isinstance(model, WrapperModel):
        inner.append(model.wrapped)
    for other in inner:
        yield from _clients(other)
    provider: Any = getattr(model, "provider", None)
    for holder in (provider, model):
        client: Any = getattr(holder, "client", None)
        yield from (one for one in (client, getattr(client, "_client", None)) if one is not None)


def _has_ended(stream: StreamedResponse) -> bool:
    """Whether the provider has said that this is all. Pydantic AI takes the end of the connection
    for that word, and half an answer, or half a call, for a whole one."""
    is_theirs = type(stream).__module__.startswith("pydantic_ai.models.")
    if not is_theirs or not stream.provider_url or stream.provider_name in _NEVER_SAY_THE_END:
        return True
    said = (stream.provider_details or {}).get("finish_reason")
    is_made_up = getattr(stream, "_has_finish_reason", True) is False and (
        stream.finish_reason != "content_filter"
    )
    return bool(said) or (stream.finish_reason is not None and not is_made_up)


def _tell(answer: ModelAnswer, event: m.ModelResponseStreamEvent) -> int:
    """Tell what came, and return how many characters of it the model has written."""
    answer.goes_on()
    match event:
        case m.PartStartEvent(index=index, part=m.TextPart(content=text)):
            answer.says(index, text)
        case m.PartStartEvent(index=index, part=m.ThinkingPart(content=text)):
            answer.says(index, text, "thinking")
        case m.PartDeltaEvent(index=index, delta=m.TextPartDelta(content_delta=text)):
            answer.says(index, text)
        case m.PartDeltaEvent(index=index, delta=m.ThinkingPartDelta(content_delta=str(text))):
            answer.says(index, text, "thinking")
        case m.PartStartEvent(index=index, part=m.BaseToolCallPart(args=str(text))):
            answer.says(index, text, "call")
            return 0
        case m.PartDeltaEvent(index=index, delta=m.ToolCallPartDelta(args_delta=str(text))):
            answer.says(index, text, "call")
        case _:
            return 0
    return len(text)


def _texts(response: m.ModelResponse) -> list[tuple[int, TextKind, str]]:
    found: list[tuple[int, TextKind, str]] = []
    for index, part in enumerate(response.parts):
        if isinstance(part, m.TextPart):
            found.append((index, "text", part.content))
        elif isinstance(part, m.ThinkingPart):
            found.append((index, "thinking", part.content))
        elif isinstance(part, m.BaseToolCallPart):
            found.append((index, "call", part.args_as_json_str()))
        elif isinstance(part, m.BaseToolReturnPart):
            found.append((index, "call", to_json(part.content, fallback=repr).decode()))
    return found


def _cut_at(so_far: str, *, asks: bool) -> list[m.ModelMessage]:
    """What was shown of an answer that was cut, for the model to go on from; with `asks`, in words:
    most providers would begin a new answer behind it."""
    said: list[m.ModelMessage] = [m.ModelResponse([m.TextPart(so_far)])]
    return [*said, m.ModelRequest([m.UserPromptPart(GO_ON)])] if asks else said


def _after(so_far: str, response: m.ModelResponse) -> m.ModelResponse:
    """The whole answer, of which the provider has only sent what was missing."""
    parts = list(response.parts)
    first = next((n for n, part in enumerate(parts) if isinstance(part, m.TextPart)), None)
    if first is None:
        parts.insert(0, m.TextPart(so_far))
    else:
        part = parts[first]
        assert isinstance(part, m.TextPart)
        if part.content.startswith(so_far):
            return response  # it has begun anew all the same
        parts[first] = m.TextPart(so_far + part.content)
    response.parts = parts
    return response


def _streams(model: Model) -> bool:
    if type(model).request_stream is Model.request_stream:
        return False
    if isinstance(model, WrapperModel):
        return _streams(model.wrapped)
    return bool(getattr(model, "stream_function", True))  # a FunctionModel may have none
