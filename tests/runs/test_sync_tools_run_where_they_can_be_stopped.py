"""A sync tool runs in a process if another process can find it and make what it needs. One in a
thread is stopped where it has opted in; else it is named, before the press and after."""

import asyncio
import logging
import os
import socket
from collections.abc import Callable
from typing import Any

import pytest

import pullcord
from pullcord import AgentConfig, Context, Interrupted, Timing
from pullcord.core.conditions import Used
from pullcord.core.show.panel import panel
from pullcord.errors import InvalidInput
from pullcord.runtime.tools.lost_memory import changed_globals, warn_of_lost_memory
from tests.runs import shipped_tools
from tests.runs.observed_runs import runtime_with

PATIENT = Timing(stop_grace_s=30)


def calls(tool: Callable[..., Any]) -> Any:
    async def agent(ctx: Context) -> Any:
        return await ctx.tool(tool)

    return agent


async def test_what_its_agent_needs_is_made_again_where_it_runs() -> None:
    agent = AgentConfig(calls(shipped_tools.looks_at_desk), deps=shipped_tools.make_desk)
    async with runtime_with(agent=agent) as runtime:
        assert await (await runtime.start("agent")).result() is True


async def test_an_async_tool_may_have_a_process_of_its_own() -> None:
    async with runtime_with(agent=calls(shipped_tools.waits_elsewhere)) as runtime:
        assert await (await runtime.start("agent")).result() != os.getpid()


async def test_a_busy_thread_that_has_opted_in_is_stopped() -> None:
    loop, begun, heard = asyncio.get_running_loop(), asyncio.Event(), list[str]()

    @pullcord.tool(run_in="thread", on_stop="raise")
    def spins() -> None:
        try:
            loop.call_soon_threadsafe(begun.set)
            while True:
                pass
        except Interrupted:
            heard.append("told")
            raise

    async with runtime_with(agent=calls(spins), timing=PATIENT) as runtime:
        run = await runtime.start("agent")
        await begun.wait()
        await run.cancel(by="ana")
        receipt = await run.receipt()
    assert (receipt.interrupted, receipt.attention) == (("spins",), ())
    assert heard == ["told"]


async def test_a_socket_that_it_has_opened_is_shut_and_no_other() -> None:
    loop, begun = asyncio.get_running_loop(), asyncio.Event()
    listener = socket.create_server(("127.0.0.1", 0))
    pooled = socket.create_connection(listener.getsockname())
    far, _ = listener.accept()

    @pullcord.tool(run_in="thread", on_stop="raise")
    def listens() -> bytes:
        pooled.send(b"hello")
        with socket.create_connection(listener.getsockname()) as mine:
            loop.call_soon_threadsafe(begun.set)
            if not (said := mine.recv(1)):
                raise ConnectionError("nobody is there any more")
            return said

    with listener, pooled, far:
        async with runtime_with(agent=calls(listens), timing=PATIENT) as runtime:
            run = await runtime.start("agent")
            await begun.wait()
            await run.cancel(by="ana")
            receipt = await run.receipt()
        assert (receipt.interrupted, receipt.attention) == (("listens",), ())
        far.send(b"still there")
        assert pooled.recv(20) == b"still there"


async def test_one_that_has_not_opted_in_is_named_before_the_press_and_after() -> None:
    loop, begun = asyncio.get_running_loop(), asyncio.Event()
    listener = socket.create_server(("127.0.0.1", 0))

    @pullcord.tool(run_in="thread", stop_grace_s=0)
    def listens() -> bytes:
        with socket.create_connection(listener.getsockname()) as mine:
            loop.call_soon_threadsafe(begun.set)
            return mine.recv(1)

    with listener:
        async with runtime_with(agent=calls(listens)) as runtime:
            run = await runtime.start("agent")
            await begun.wait()
            shown = panel(await run.snapshot(), Used(), now_ms=0, wall_ms=0, driven=True)
            [button] = [one for one in shown.buttons if one.verb == "cancel"]
            assert button.says.endswith("cannot stop listens")
            await run.cancel(by="ana")
            receipt = await run.receipt()
            assert receipt.still_running == ("listens",)
            listener.accept()[0].close()


def test_nothing_is_raised_in_what_is_stopped_otherwise() -> None:
    async def looks() -> None: ...

    with pytest.raises(InvalidInput, match="nothing is raised"):
        pullcord.tool(on_stop="raise")(looks)


def test_a_tool_that_changes_memory_of_ours_from_elsewhere_is_told_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    assert changed_globals(shipped_tools.mails) == ["outbox", "sent"]
    assert changed_globals(shipped_tools.reads) == []
    with caplog.at_level(logging.WARNING, "pullcord.runtime"):
        warn_of_lost_memory("mails", shipped_tools.mails)
        warn_of_lost_memory("mails", shipped_tools.mails)
        warn_of_lost_memory("reads", shipped_tools.reads)
    [said] = caplog.messages
    assert "'mails' seems to change outbox, sent" in said
