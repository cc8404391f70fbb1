"""Body, head, readers, connections, what is kept for who reads nothing: each has its bound."""

import asyncio
import gc
import socket
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from pullcord import Context, RunState
from pullcord.server.bounds import Bounds
from tests.server.http import Reader, answer_of, request_bytes
from tests.server.running_server import BOUND_S, RunningServer, running_server
from tests.storage.campaign import FULL

MIB: Final = 1024 * 1024
STALLED: Final = 500 if FULL else 60


async def asks(ctx: Context, given: Any) -> Any:
    return await ctx.ask("Which one?")


async def writes(ctx: Context, pages: int) -> None:
    for number in range(pages):
        await ctx.step(f"page {number}", page)
    await ctx.ask("More?")


async def page() -> str:
    return "x" * 20_000


def resident_bytes() -> int:
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    [found] = [line for line in lines if line.startswith("VmRSS:")]
    return int(found.split()[1]) * 1024


@asynccontextmanager
async def silent(
    there: RunningServer, target: str, count: int
) -> AsyncGenerator[list[socket.socket]]:
    """So many who ask for it and never read a byte."""
    loop = asyncio.get_running_loop()
    lines = request_bytes("GET", target, there.headers().items())
    made: list[socket.socket] = []
    try:
        for _ in range(count):
            one = socket.socket()
            made.append(one)
            one.setblocking(False)
            one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            await loop.sock_connect(one, ("127.0.0.1", there.port))
            await loop.sock_sendall(one, lines)
        yield made
    finally:
        for one in made:
            one.close()


@pytest.mark.campaign
@pytest.mark.timeout(300)
async def test_readers_that_never_read_hold_up_nobody_and_are_cut_off(tmp_path: Path) -> None:
    """Four megabytes wait for each of them; what is kept for one is a small part of that."""
    bounds = Bounds(stall_s=2)
    async with (
        asyncio.timeout(300 if FULL else BOUND_S),
        running_server(tmp_path, bounds=bounds, writes=writes) as there,
    ):
        run = await there.start("writes", input=200)
        await run.wait_for(RunState.WAITING)
        other = await there.start("writes", input=1)
        await other.wait_for(RunState.WAITING)
        await there.is_well()
        before = resident_bytes()
        async with silent(there, f"/runs/{run.id}/events", STALLED):
            for number in range(30):
                said = {"instruction": f"number {number}"}
                assert (await there.post(f"/runs/{other.id}/redirect", said)).status == 200
            grown = resident_bytes() - before
            assert grown < 20 * MIB + STALLED * 400 * 1024, f"{grown / MIB:.0f} MiB"
            while there.connections() > 10:  # those who ask whether it is well have some, too
                await there.is_well()
        print(f"{STALLED} readers that read nothing: {grown / MIB:.1f} MiB")


async def test_a_body_of_a_gigabyte_is_not_kept(tmp_path: Path) -> None:
    async with asyncio.timeout(BOUND_S), running_server(tmp_path, asks=asks) as there:
        run = await there.start("asks")
        headers = there.headers() | {
            "Content-Type": "application/json",
            "X-Pullcord": "1",
        }
        before = resident_bytes()
        for more in ({"Content-Length": str(1024 * MIB)}, {"Transfer-Encoding": "chunked"}):
            lines = request_bytes("POST", f"/runs/{run.id}/pause", (headers | more).items())
            reader, writer = await asyncio.open_connection("127.0.0.1", there.port)
            writer.write(lines)
            sending = asyncio.create_task(pour(writer))
            assert (await answer_of(reader)).status in (413, 0)
            sending.cancel()
            writer.transport.abort()
        assert resident_bytes() - before < 30 * MIB
        await there.is_well()


async def pour(writer: asyncio.StreamWriter) -> None:
    chunk = b"100000\r\n" + b" " * MIB + b"\r\n"
    try:
        for _ in range(1024):
            writer.write(chunk)
            await writer.drain()
    except ConnectionError:
        pass  # nobody listens any more


async def test_more_readers_than_there_may_be_are_told_so(tmp_path: Path) -> None:
    bounds = Bounds(readers=5, readers_of_a_run=3)
    async with (
        asyncio.timeout(BOUND_S),
        running_server(tmp_path, bounds=bounds, asks=asks) as there,
    ):
        run, other = await there.start("asks"), await there.start("asks")
        targets = [f"/runs/{run.id}/events"] * 3 + [f"/runs/{other.id}/events"] * 2
        readers = [await opened(there, target) for target in targets]
        for target in (f"/runs/{run.id}/events", f"/runs/{other.id}/events", "/events"):
            answer = await there.get(target)
            assert (answer.status, answer.json["code"]) == (429, "too_many_readers")
            assert answer.header("retry-after")
        assert (await there.post(f"/runs/{run.id}/pause")).status == 200
        for reader in readers:
            reader.close()
        while (await there.get(f"/runs/{run.id}/events")).status == 429:
            pass  # their places are free as soon as it is known that they have left


async def opened(there: RunningServer, target: str) -> Reader:
    return await Reader.open(there.port, request_bytes("GET", target, there.headers().items()))


async def test_readers_that_come_and_go_leave_nothing_behind(tmp_path: Path) -> None:
    bounds = Bounds(readers=4)
    async with (
        asyncio.timeout(BOUND_S),
        running_server(tmp_path, bounds=bounds, asks=asks) as there,
    ):
        run = await there.start("asks")
        for target in (f"/runs/{run.id}/events", "/events", f"/events?run={run.id}"):
            for _ in range(40):
                while (answer := await there.get(target)).status == 429:
                    pass  # the ones before are being let go
                assert answer.status == 200
        for _ in range(40):
            assert (await there.get("/events?run=nowhere")).status in (404, 429)
            assert (await there.get(f"/events?run={run.id}&after=99")).status in (400, 429)
        while (await there.get("/events")).status == 429:
            pass


async def test_connections_that_ask_nothing_give_way(tmp_path: Path) -> None:
    """Idle ones cannot keep anybody from pressing a button, however many there are."""
    bounds = Bounds(connections=30, head_s=60)
    async with (
        asyncio.timeout(BOUND_S),
        running_server(tmp_path, bounds=bounds, asks=asks) as there,
    ):
        run = await there.start("asks")
        target = f"/runs/{run.id}/events"
        async with silent_sockets(there, 100), there.reading(target) as reader:
            await reader.until("panel")
            async with silent_sockets(there, 100):
                assert (await there.post(f"/runs/{run.id}/cancel")).status == 200
                while there.connections() > bounds.connections:
                    await there.is_well()
                await reader.until("panel", state="cancelled")


@asynccontextmanager
async def silent_sockets(there: RunningServer, count: int) -> AsyncGenerator[None]:
    made = [socket.create_connection(("127.0.0.1", there.port)) for _ in range(count)]
    try:
        yield
    finally:
        for one in made:
            one.close()


async def test_a_page_of_runs_or_records_has_a_bound(tmp_path: Path) -> None:
    bounds = Bounds(page=3, records=2)
    async with (
        asyncio.timeout(BOUND_S),
        running_server(tmp_path, bounds=bounds, asks=asks) as there,
    ):
        runs = [await there.start("asks") for _ in range(5)]
        for run in runs:
            await run.wait_for(RunState.WAITING)
        assert (await there.get("/runs?limit=4")).status == 400
        first = (await there.get("/runs?limit=3")).json["runs"]
        rest = (await there.get(f"/runs?limit=3&before={first[-1]['run']}")).json["runs"]
        assert [panel["run"] for panel in first + rest] == [run.id for run in reversed(runs)]
        records = (await there.get(f"/runs/{runs[0].id}/records")).json["records"]
        assert [record["seq"] for record in records] == [1, 2]
        more = (await there.get(f"/runs/{runs[0].id}/records?after=2")).json["records"]
        assert more[0]["seq"] == 3


async def test_a_server_can_be_stopped_as_soon_as_it_was_started(tmp_path: Path) -> None:
    for _ in range(3):
        async with asyncio.timeout(BOUND_S), running_server(tmp_path, asks=asks):
            pass
