"""The test equipment, tried with bare pydantic-ai agents in the three dialects."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Iterator
from typing import cast

import pytest
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelHTTPError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    ThinkingPart,
    ToolCallPart,
    UserPromptPart,
)
from pydantic_ai.models import Model, ModelRequestParameters
from pydantic_ai.settings import ModelSettings

from tests.agents.provider.dialect_models import model_for
from tests.agents.provider.dialects import DIALECTS, Dialect
from tests.agents.provider.fake import FakeProvider
from tests.agents.provider.never_accepts import NeverAccepts
from tests.agents.provider.real import ENDLESS, RealServer
from tests.agents.provider.reply import (
    Ending,
    Reply,
    Text,
    Thinking,
    ToolCall,
    call,
    html_page,
    rate_limited,
    say,
    server_error,
)
from tests.agents.provider.seen import Seen
from tests.storage.campaign import FULL

WIDE = "Grüße, 世界 — 🚂 fährt ab"

pytestmark = pytest.mark.campaign
each_dialect = pytest.mark.parametrize("dialect", DIALECTS if FULL else DIALECTS[:1])
each_way = pytest.mark.parametrize("stream", [True, False] if FULL else [True])


@pytest.fixture
def provider() -> Iterator[FakeProvider]:
    with FakeProvider() as one:
        yield one


async def ask(
    model: Model,
    *,
    stream: bool,
    prompt: str | None = "go",
    agent: Agent[object, str] | None = None,
    history: list[ModelMessage] | None = None,
    settings: ModelSettings | None = None,
) -> tuple[str, list[ModelMessage]]:
    """One run of a bare agent, streaming or not; its output and all its messages."""
    agent = agent or Agent()
    if not stream:
        settings = settings or ModelSettings(max_tokens=2000)  # or Anthropic's would stream
        done = await agent.run(
            prompt, model=model, message_history=history, model_settings=settings
        )
        return done.output, done.all_messages()
    async with agent.iter(
        prompt, model=model, message_history=history, model_settings=settings
    ) as run:
        async for node in run:
            if Agent.is_model_request_node(node):
                async with node.stream(run.ctx) as events:
                    async for _ in events:
                        pass
    assert run.result is not None
    return run.result.output, run.result.all_messages()


@each_dialect
@each_way
async def test_text(provider: FakeProvider, dialect: Dialect, stream: bool) -> None:
    provider.script = [say(WIDE, chunk_chars=3)]
    async with model_for(dialect, provider.url(dialect)) as model:
        output, _ = await ask(model, stream=stream)
    assert output == WIDE
    seen = await provider.async_wait_closed(0)
    assert (seen.dialect, seen.streaming, seen.finished) == (dialect, stream, True)
    assert seen.sent_text == WIDE
    assert seen.raw.startswith(b"POST ")
    assert b"".join(write.data for write in seen.writes).startswith(b"HTTP/1.1 200")
    assert not provider.violations
    assert not provider.open_connections()


@each_dialect
@each_way
async def test_wide_characters_cut_in_two(
    provider: FakeProvider, dialect: Dialect, stream: bool
) -> None:
    provider.script = [say(WIDE, chunk_chars=5, cut_utf8=True)]
    async with model_for(dialect, provider.url(dialect)) as model:
        output, _ = await ask(model, stream=stream)
    assert output == WIDE
    with pytest.raises(UnicodeDecodeError):
        [write.data.decode() for write in provider.seen[0].writes]


@each_dialect
@each_way
async def test_thinking_goes_there_and_back(
    provider: FakeProvider, dialect: Dialect, stream: bool
) -> None:
    provider.script = [Reply(parts=(Thinking(text="hm, let me see"), Text(text="so"))), say("on")]
    async with model_for(dialect, provider.url(dialect)) as model:
        _, history = await ask(model, stream=stream)
        output, _ = await ask(model, stream=stream, history=history)
    thoughts = [p for m in history for p in m.parts if isinstance(p, ThinkingPart)]
    assert [one.content for one in thoughts] == ["hm, let me see"]
    if dialect != "chat":
        assert thoughts[0].signature == "sig-0001"
        assert b"sig-0001" in provider.seen[1].raw
    assert output == "on"
    assert not provider.violations


@each_dialect
@each_way
async def test_tool_round_trip(provider: FakeProvider, dialect: Dialect, stream: bool) -> None:
    provider.script = [
        Reply(
            parts=(
                Text(text="I look."),
                ToolCall(name="weather", args={"city": "Oslo"}),
                ToolCall(name="weather", args={"city": "Bergen"}),
            )
        ),
        say("It rains."),
    ]
    asked: list[str] = []
    agent = Agent()

    @agent.tool_plain
    def weather(city: str) -> str:  # pyright: ignore[reportUnusedFunction]
        asked.append(city)
        return f"rain in {city}"

    async with model_for(dialect, provider.url(dialect)) as model:
        output, _ = await ask(model, stream=stream, agent=agent)
    assert output == "It rains."
    assert sorted(asked) == ["Bergen", "Oslo"]
    assert b"rain in Bergen" in provider.seen[1].raw
    assert provider.seen[0].connection is provider.seen[1].connection, "kept alive and used again"
    assert not provider.violations


@each_dialect
async def test_broken_arguments_and_an_unknown_tool(
    provider: FakeProvider, dialect: Dialect
) -> None:
    provider.script = [call("known", '{"a": '), call("unknown"), say("never mind")]
    agent = Agent(retries=3)

    @agent.tool_plain
    def known(a: int = 0) -> str:  # pyright: ignore[reportUnusedFunction]
        return str(a)

    async with model_for(dialect, provider.url(dialect)) as model:
        output, _ = await ask(model, stream=True, agent=agent)
    assert output == "never mind"
    assert len(provider.seen) == 3


@each_dialect
async def test_a_dangling_call_is_refused(provider: FakeProvider, dialect: Dialect) -> None:
    history: list[ModelMessage] = [
        ModelRequest(parts=[UserPromptPart("go")]),
        ModelResponse(parts=[ToolCallPart("weather", {"city": "Oslo"}, "call_1")]),
        ModelRequest(parts=[UserPromptPart("well?")]),
    ]
    async with model_for(dialect, provider.url(dialect)) as model:
        # Straight to the model: an agent repairs such a history before it is sent.
        with pytest.raises(ModelHTTPError) as refused:
            await model.request(history, None, ModelRequestParameters())
    assert refused.value.status_code == 400
    assert "call_1" in str(refused.value.body)
    assert [one.index for one in provider.violations] == [0]


@each_dialect
@pytest.mark.parametrize("where", ["headers", "start", "middle", "inside", "slow"])
async def test_a_cancel_is_seen(provider: FakeProvider, dialect: Dialect, where: str) -> None:
    text = WIDE * 40
    provider.script = [
        {
            "headers": say(text, stall_before_headers=True),
            "start": say(text, stall_after=0),
            "middle": say(text, stall_after=5),
            "inside": say(text, stall_after=3, stall_inside=True),
            "slow": say(text, chunk_delay_s=0.02),
        }[where]
    ]
    async with model_for(dialect, provider.url(dialect)) as model:
        task = asyncio.create_task(ask(model, stream=True))
        if where == "slow":
            await provider.async_wait_chunks(0, 3)
        else:
            await provider.async_wait_stalled(0)
        cancelled_at = time.monotonic()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        seen = await provider.async_wait_closed(0)
    assert seen.closed_at is not None
    assert 0 <= seen.closed_at - cancelled_at < 1
    assert (seen.closed_by, seen.cut_short) == ("peer", True)
    assert len(seen.sent_text) < len(text)
    assert all(chunk.at <= seen.closed_at for chunk in seen.chunks)


async def test_a_close_is_seen_while_the_clients_loop_is_blocked(provider: FakeProvider) -> None:
    """The observer's thread is its own: it needs nothing from the loop under test."""
    provider.script = [say("x" * 100, stall_after=2)]
    _, writer = await asyncio.open_connection("127.0.0.1", int(provider.base_url.split(":")[-1]))
    body = b'{"stream": true, "messages": [{"role": "user", "content": "go"}]}'
    head = f"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n".encode()
    writer.write(head + body)
    provider.wait_stalled(0)  # blocks this loop, on purpose
    raw = cast(socket.socket, writer.get_extra_info("socket"))
    raw.shutdown(socket.SHUT_RDWR)
    seen = provider.wait_closed(0)  # … and still
    assert seen.cut_short
    assert len(seen.chunks) == 2
    writer.close()


@each_dialect
async def test_a_held_reply_goes_on(provider: FakeProvider, dialect: Dialect) -> None:
    provider.script = [say(WIDE, stall_after=2)]
    async with model_for(dialect, provider.url(dialect)) as model:
        task = asyncio.create_task(ask(model, stream=True))
        seen = await provider.async_wait_stalled(0)
        assert len(seen.chunks) == 2
        provider.release()
        assert (await task)[0] == WIDE


async def test_who_does_not_read_is_felt() -> None:
    """Written means that the kernel took it: a client that stops reading stops the counting."""
    with FakeProvider(send_buffer=4096) as provider:
        provider.script = [say("x" * 4_000_000, chunk_chars=4000)]
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", int(provider.base_url.split(":")[-1]), limit=1024
        )
        body = b'{"stream": true, "messages": [{"role": "user", "content": "go"}]}'
        writer.write(
            f"POST /v1/chat/completions HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n".encode()
            + body
        )
        await reader.readexactly(100)
        await provider.async_wait_chunks(0, 1)
        with pytest.raises(TimeoutError):
            await provider.async_wait_finished(0, timeout_s=0.5)
        assert len(provider.seen[0].chunks) < 1000
        writer.transport.abort()
        assert (await provider.async_wait_closed(0)).cut_short


@each_dialect
@each_way
@pytest.mark.parametrize("ending", ["cut", "clean_cut", "reset", "error"])
async def test_a_reply_that_breaks_off(
    provider: FakeProvider, dialect: Dialect, stream: bool, ending: Ending
) -> None:
    """What the client makes of it is its own affair; here: it ends, and we know who ended it."""
    provider.script = [say(WIDE, ending=ending, cut_after=2 if stream else None)]
    async with model_for(dialect, provider.url(dialect)) as model:
        try:
            await ask(model, stream=stream)
        except Exception:
            pass
    seen = await provider.async_wait_closed(0)
    assert len(seen.chunks) == (2 if stream else 0)
    if ending in ("cut", "reset") or not stream:
        assert (seen.closed_by, seen.finished) == ("us", False)


@each_dialect
async def test_trouble(provider: FakeProvider, dialect: Dialect) -> None:
    provider.script = [rate_limited(3), server_error(), html_page()]
    async with model_for(dialect, provider.url(dialect)) as model:
        for status in (429, 500):
            with pytest.raises(ModelHTTPError) as met:
                await ask(model, stream=True)
            assert met.value.status_code == status
        with pytest.raises(Exception, match=r".") as odd:
            await ask(model, stream=False)
        assert not isinstance(odd.value, TimeoutError)
    assert b"retry-after: 3" in provider.seen[0].writes[0].data


@each_dialect
@each_way
async def test_usage_left_out_and_indices_repeated(
    provider: FakeProvider, dialect: Dialect, stream: bool
) -> None:
    if (
        dialect != "anthropic"
    ):  # there usage is part of the message; what a client does is its affair
        provider.script = [say("hi", usage=None)]
        async with model_for(dialect, provider.url(dialect)) as model:
            assert (await ask(model, stream=stream))[0] == "hi"
    calls = tuple(ToolCall(name="final", args={"n": n}) for n in (1, 2))
    provider.script = [Reply(parts=calls, duplicate_indices=True), say("done")]
    async with model_for(dialect, provider.url(dialect)) as model:
        try:
            await ask(model, stream=stream)
        except Exception:
            pass
    assert not provider.script_errors


async def test_script_as_a_function_and_a_delay_before_the_answer(provider: FakeProvider) -> None:
    def answer(seen: Seen) -> Reply:
        return say(f"number {seen.index}")

    provider.script = answer
    provider.accept_delay_s = 0.2
    async with model_for("chat", provider.url("chat")) as model:
        assert (await ask(model, stream=False))[0] == "number 0"
        assert (await ask(model, stream=True))[0] == "number 1"
    first = provider.seen[0]
    assert first.request_at - first.opened_at >= 0.2


async def test_a_connect_that_hangs() -> None:
    with NeverAccepts() as url:
        async with model_for("chat", f"{url}/v1") as model:
            task = asyncio.create_task(ask(model, stream=True))
            done, _ = await asyncio.wait([task], timeout=0.3)
            assert not done
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task


@each_dialect
async def test_we_hang_up(provider: FakeProvider, dialect: Dialect) -> None:
    provider.script = [say(WIDE, stall_after=2)]
    async with model_for(dialect, provider.url(dialect)) as model:
        task = asyncio.create_task(ask(model, stream=True))
        await provider.async_wait_stalled(0)
        assert len(provider.open_connections()) == 1
        provider.hang_up(reset=True)
        seen = await provider.async_wait_closed(0)
        await asyncio.wait([task])
    assert (seen.closed_by, seen.connection.closed_how, seen.cut_short) == ("us", "reset", False)
    task.exception()


async def test_leaving_with_a_reply_held() -> None:
    """A test that fails half-way must not hang in the provider's exit."""
    with FakeProvider() as provider:
        provider.script = [say(WIDE, stall_after=1)]
        async with model_for("chat", provider.url("chat")) as model:
            task = asyncio.create_task(ask(model, stream=True))
            await provider.async_wait_stalled(0)
            left_at = time.monotonic()
            await asyncio.to_thread(provider.__exit__, None, None, None)
            assert time.monotonic() - left_at < 5
            await asyncio.wait([task])
            task.exception()
        assert provider.seen[0].closed_by == "us"
        provider.__exit__(None, None, None)


def test_a_script_that_raises_is_the_tests_error() -> None:
    def wrong(seen: Seen) -> Reply:
        raise LookupError(seen.dialect)

    async def use() -> None:
        with FakeProvider() as provider:
            provider.script = wrong
            async with model_for("chat", provider.url("chat")) as model:
                with pytest.raises(ModelHTTPError):
                    await ask(model, stream=True)

    with pytest.raises(LookupError):
        asyncio.run(use())


# The real server


@pytest.fixture(scope="module")
def server() -> Iterator[RealServer]:
    with RealServer() as one:
        yield one


@each_dialect
@each_way
async def test_real_reply(server: RealServer, dialect: Dialect, stream: bool) -> None:
    async with model_for(dialect, server.url(dialect)) as model:
        settings = ModelSettings(max_tokens=30)
        output, _ = await ask(model, stream=stream, settings=settings)
    assert output.split()
    await server.async_wait_idle()


@each_dialect
@each_way
async def test_real_cancel_frees_the_slot(
    server: RealServer, dialect: Dialect, stream: bool
) -> None:
    async with model_for(dialect, server.url(dialect), timeout_s=20) as model:
        settings = cast(ModelSettings, ENDLESS)
        task = asyncio.create_task(ask(model, stream=stream, settings=settings))
        await server.async_wait_busy()
        await asyncio.wait([task], timeout=0.5)
        assert not task.done(), "it would go on for ever"
        assert server.slots_busy() == 1
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        took_s = await server.async_wait_idle()
    assert took_s < (1 if stream else 4), "without a stream the server looks once a second"
