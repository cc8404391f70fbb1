"""Nothing keeps anybody from stopping a run over HTTP: code that holds the agents' event loop does
not, and no answer is kept back until there is more to send."""

import asyncio
import http.client
import json
import socket
import threading
from pathlib import Path

import pytest

import pullcord
from pullcord.core.states import RunState
from pullcord.journal.facets.kill_switch import KillSwitch
from pullcord.server import switch_handlers
from pullcord.server.credentials import Keeper
from pullcord.server.standalone import Standalone, listen
from tests.server.running_server import running_server


async def test_a_stop_is_acknowledged_while_the_loop_is_held(tmp_path: Path) -> None:
    is_held, may_go, answers = threading.Event(), threading.Event(), list[dict[str, str]]()

    async def rude(ctx: pullcord.Context) -> None:
        async def hold() -> None:
            is_held.set()
            assert may_go.wait(60)  # in the event loop, on purpose

        await ctx.step("hold", hold)

    listening = listen("127.0.0.1", 0)
    port: int = listening.getsockname()[1]
    keeper = Keeper(tmp_path / "grants", name="ana", cookie="c")
    _, token = keeper.give(kind="token", name="ana", right="control", lasts_s=600)

    def press() -> None:
        assert is_held.wait(60)
        try:
            line = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
            head = {"Authorization": f"Bearer {token}", "X-Pullcord": "1"}
            line.request(
                "POST", "/runs/r1/cancel", "{}", head | {"Content-Type": "application/json"}
            )
            answers.append(json.loads(line.getresponse().read()))
            line.request("GET", "/runs/r1", headers=head)
            answers.append(json.loads(line.getresponse().read())["panel"])
            line.close()
        finally:
            may_go.set()

    pressing = threading.Thread(target=press)
    pressing.start()
    async with pullcord.open(tmp_path / "runs.db", agents={"rude": rude}) as runtime:
        server = Standalone(runtime, listening, keeper=keeper, hosts=[f"127.0.0.1:{port}"])
        await server.start()
        run = await runtime.start("rude", run_id="r1")
        await run.wait_for(RunState.CANCELLED)
        await server.stop()
    pressing.join()
    ack, panel = answers
    assert (ack["verdict"], ack["state"]) == ("applied", "cancelling")
    assert (panel["label"], panel["doing"]) == ("Cancelling", "stopping hold")


async def test_no_answer_waits_for_more_to_send() -> None:
    """Nagle's algorithm holds the body of an answer back until its head is acknowledged, which the
    other side puts off for 40 ms."""
    is_prompt = asyncio.get_running_loop().create_future()

    def connected(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = writer.get_extra_info("socket")
        is_prompt.set_result(line.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))
        writer.close()

    listening = listen("127.0.0.1", 0)
    async with await asyncio.start_server(connected, sock=listening):
        _, writer = await asyncio.open_connection(*listening.getsockname())
        assert await is_prompt
        writer.close()


async def test_what_was_stopped_is_told_also_if_the_store_says_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A database server may take a connection and then stand still."""
    never = asyncio.Event()

    async def says_nothing(_: KillSwitch, *, within_s: float = 0.0) -> list[str]:
        await never.wait()
        return []

    monkeypatch.setattr(KillSwitch, "hold", says_nothing)
    monkeypatch.setattr(switch_handlers, "_RECORDED_S", 0.1)
    async with running_server(tmp_path) as there:
        said = (await there.post("/kill-switch/engage", {"reason": "now"})).json
        never.set()
    assert [one["reason"] for one in said["engaged"]] == ["now"]
    assert said["recorded"] is False
    assert "has said nothing for 0.1 s" in said["why_not_recorded"]
