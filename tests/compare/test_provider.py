"""The provider that judges the frameworks must itself be right: about histories and hang-ups."""

import asyncio
import json
import time
from typing import Any

import pytest
from compare.provider import Message, Provider, fault, plan

USER: Message = {"role": "user", "content": "TWO TOOLS a b"}
CALLS: Message = {"role": "assistant", "tool_calls": [{"id": "1"}, {"id": "2"}]}
NEXT: Message = {"role": "user", "content": "and now?"}


def result(call: str) -> Message:
    return {"role": "tool", "tool_call_id": call, "content": "x"}


@pytest.mark.parametrize(
    "history",
    [
        [USER],
        [USER, CALLS, result("1"), result("2")],
        [USER, CALLS, result("2"), result("1"), NEXT],
        [USER, NEXT],
        [USER, {"role": "assistant", "content": "hm", "tool_calls": None}, NEXT],
    ],
)
def test_what_the_real_api_takes_is_taken(history: list[Message]) -> None:
    assert fault(history) == ""


@pytest.mark.parametrize(
    "history",
    [
        [USER, CALLS],
        [USER, CALLS, NEXT],
        [USER, CALLS, result("1")],
        [USER, CALLS, result("1"), NEXT, result("2")],
        [USER, CALLS, result("1"), result("1"), result("2")],
        [USER, CALLS, result("1"), result("2"), result("2")],
        [USER, result("1")],
        [],
    ],
)
def test_a_call_without_exactly_one_result_is_refused(history: list[Message]) -> None:
    assert fault(history) != ""


def test_tools_are_called_once_and_then_answered() -> None:
    assert plan([USER]).tools == ["a", "b"]
    assert plan([USER, CALLS, result("1"), result("2")]).words == ["ok"]
    then: Message = {"role": "user", "content": "TOOL a THEN b"}
    one: Message = {"role": "assistant", "tool_calls": [{"id": "1"}]}
    assert plan([then]).tools == ["a"]
    assert plan([then, one, result("1")]).tools == ["b"]


async def test_a_client_that_hangs_up_is_noticed_and_sent_nothing_more() -> None:
    provider = Provider()
    server = await asyncio.start_server(provider.serve, "127.0.0.1", 0)
    async with server:
        address = server.sockets[0].getsockname()
        body = json.dumps({"messages": [{"role": "user", "content": "LONG"}], "stream": True})
        reader, writer = await asyncio.open_connection(*address)
        head = f"POST /me/v1/chat/completions HTTP/1.1\r\ncontent-length: {len(body)}\r\n\r\n"
        writer.write((head + body).encode())
        await reader.readuntil(b"word2")
        hung_up_at = time.monotonic()
        writer.close()
        seen: Any = provider.log["me"][0]
        async with asyncio.timeout(5):
            while seen.disconnected_at is None:  # noqa: ASYNC110 - a server has no event for it
                await asyncio.sleep(0.001)
    assert hung_up_at <= seen.disconnected_at
    assert len(seen.chunks_at) < 20
    assert seen.ended_at is None
