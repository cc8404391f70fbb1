"""A model that says what it is told to, as slowly as a clock that the test holds in its hand.

A script is a list of answers; each answer is a list of `Say`, `Think`, `Call`, `Delay` and `Fail`,
or just a text. The n-th request to the model gets the n-th answer. Every request is kept.
"""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

from pydantic_ai import RunContext
from pydantic_ai import messages as m
from pydantic_ai.models import Model, ModelRequestParameters, StreamedResponse
from pydantic_ai.settings import ModelSettings
from pydantic_ai.usage import RequestUsage

from pullcord.runtime.alarms import Alarms, LoopAlarms


@dataclass(frozen=True)
class Say:
    """Say this, in pieces of so many characters."""

    text: str
    chunk: int = 8


@dataclass(frozen=True)
class Think:
    """Think this, before saying anything."""

    text: str
    chunk: int = 8
    signature: str | None = "signed"


@dataclass(frozen=True)
class Call:
    """Call a tool. The arguments are streamed in pieces, too."""

    tool: str
    args: dict[str, Any] = field(default_factory=dict[str, Any])
    id: str = ""
    chunk: int = 8


@dataclass(frozen=True)
class Delay:
    """Say nothing for a while; `None`: until somebody cuts it."""

    seconds: float | None = None


@dataclass(frozen=True)
class Fail:
    """Raise this instead of going on."""

    error: Exception


Piece: TypeAlias = Say | Think | Call | Delay | Fail
Answer: TypeAlias = str | Sequence[Piece]
Script: TypeAlias = Iterable[Answer] | Callable[[list[m.ModelMessage]], Answer]


class ScriptedModel(Model):
    """A model for tests and examples. Give it a script, or a function of the messages.

    `requests` are the messages of every request it was sent and `offered` the tools that came with
    each (unless `keep=False`); `stalled` is
    set when it has come to a delay. With a `ManualClock` as `alarms` its delays are in your hand.
    `chunk_s` is how long it takes over each piece of a text, and `reads` how many tokens it says
    that a request has.
    """

    def __init__(
        self,
        script: Script,
        *,
        alarms: Alarms | None = None,
        name: str = "scripted",
        keep: bool = True,
        chunk_s: float = 0.0,
        reads: Callable[[list[m.ModelMessage]], int] = lambda _: 10,
    ) -> None:
        super().__init__()
        self._keep, self._chunk_s, self._reads = keep, chunk_s, reads
        self._asked = 0
        self._script = script if callable(script) else list(script)
        self._alarms = alarms or LoopAlarms()
        self._name = name
        self.requests: list[list[m.ModelMessage]] = []
        self.offered: list[list[str]] = []  # the tools that came with each of them
        self.stalled = asyncio.Event()  # it has come to a delay

    @property
    def model_name(self) -> str:
        return self._name

    @property
    def system(self) -> str:
        return "scripted"

    @property
    def base_url(self) -> str | None:
        return None

    async def request(
        self,
        messages: list[m.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> m.ModelResponse:
        async with self.request_stream(
            messages, model_settings, model_request_parameters
        ) as stream:
            async for _ in stream:
                pass
            return stream.get()

    @asynccontextmanager
    async def request_stream(
        self,
        messages: list[m.ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
        run_context: RunContext[Any] | None = None,
    ) -> AsyncGenerator[StreamedResponse]:
        self._asked += 1
        if self._keep:
            self.requests.append(list(messages))
            tools = model_request_parameters
            names = [*tools.function_tools, *tools.output_tools]
            self.offered.append([tool.name for tool in names])
        number = self._asked
        yield _Stream(
            model_request_parameters,
            _name=self._name,
            _pieces=self._answer(number, messages),
            _number=number,
            _read=self._reads(messages),
            _wait=self._stall,
            _breathe=self._breathe,
        )

    def _answer(self, number: int, messages: list[m.ModelMessage]) -> Sequence[Piece]:
        if callable(self._script):
            said = self._script(messages)
        elif number <= len(self._script):
            said = self._script[number - 1]
        else:
            raise AssertionError(f"the script has no answer to request {number}")
        return [Say(said)] if isinstance(said, str) else said

    async def _stall(self, seconds: float | None) -> None:
        self.stalled.set()
        await self._wait(seconds)

    async def _breathe(self) -> None:
        await (self._wait(self._chunk_s) if self._chunk_s else asyncio.sleep(0))

    async def _wait(self, seconds: float | None) -> None:
        over = asyncio.Event()
        off = self._alarms.after(seconds, over.set) if seconds is not None else None
        try:
            await over.wait()
        finally:
            if off:
                off()


@dataclass
class _Stream(StreamedResponse):
    _name: str
    _pieces: Sequence[Piece]
    _number: int
    _read: int
    _wait: Callable[[float | None], Any]
    _breathe: Callable[[], Any]
    _said: int = 0

    async def _get_event_iterator(self) -> AsyncIterator[m.ModelResponseStreamEvent]:
        parts = self._parts_manager
        self._usage = RequestUsage(input_tokens=self._read)
        for index, piece in enumerate(self._pieces):
            match piece:
                case Delay():
                    await self._wait(piece.seconds)
                case Fail():
                    raise piece.error
                case Call():
                    made = f"call-{self._number}-{index}"
                    for event in self._calls(index, piece, piece.id or made):
                        yield event
                        await asyncio.sleep(0)
                case Say() | Think():
                    for chunk in _chunks(piece.text, piece.chunk):
                        self._said += len(chunk)
                        if isinstance(piece, Say):
                            events = parts.handle_text_delta(vendor_part_id=index, content=chunk)
                        else:
                            events = parts.handle_thinking_delta(
                                vendor_part_id=index, content=chunk
                            )
                        for event in events:
                            yield event
                        await self._breathe()
                    if isinstance(piece, Think) and piece.signature:
                        for event in parts.handle_thinking_delta(
                            vendor_part_id=index, signature=piece.signature
                        ):
                            yield event
        written = -(-self._said // 4) or 1
        self._usage = RequestUsage(input_tokens=self._read, output_tokens=written)

    def _calls(self, index: int, call: Call, made: str) -> Any:
        raw = m.ToolCallPart(call.tool, call.args).args_as_json_str()
        for n, chunk in enumerate(_chunks(raw, call.chunk)):
            self._said += len(chunk)
            event = self._parts_manager.handle_tool_call_delta(
                vendor_part_id=index,
                tool_name=call.tool if n == 0 else None,
                args=chunk,
                tool_call_id=made if n == 0 else None,
            )
            if event is not None:
                yield event

    @property
    def model_name(self) -> str:
        return self._name

    @property
    def provider_name(self) -> str | None:
        return "scripted"

    @property
    def provider_url(self) -> str | None:
        return None

    @property
    def timestamp(self) -> datetime:
        return datetime.now(UTC)


def _chunks(text: str, size: int) -> Iterable[str]:
    return (text[start : start + size] for start in range(0, len(text), size))
