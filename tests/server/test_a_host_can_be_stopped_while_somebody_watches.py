"""Mounted in an app and served by uvicorn as it comes: a stream that is open keeps nobody from
stopping the process, and a reader without a credential is told how to come by one there."""

import asyncio
import signal
import socket
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from tests.server.http import exchange, request_bytes

HOST = Path(__file__).parent / "hosted.py"
BOUND_S = 60


@asynccontextmanager
async def hosted(tmp_path: Path) -> AsyncGenerator[tuple[asyncio.subprocess.Process, int]]:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",  # `http` is another module in that folder
        str(HOST),
        str(tmp_path / "s.db"),
        str(port),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(BOUND_S):
            while process.returncode is None:
                try:
                    _, writer = await asyncio.open_connection("127.0.0.1", port)
                    writer.close()
                    break
                except ConnectionError:
                    await asyncio.sleep(0.05)  # it says nowhere that it listens
            yield process, port
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def stream(port: int, path: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    headers = [("Host", f"127.0.0.1:{port}"), ("User", "ana")]
    writer.write(request_bytes("GET", path, headers))
    await reader.readuntil(b"retry: 500")
    return reader, writer


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_stream_ends_when_the_process_is_asked_to(
    number: signal.Signals, tmp_path: Path
) -> None:
    async with hosted(tmp_path) as (process, port):
        paths = ("/agents/runs/r1/events", "/agents/events", "/agents/events")
        *tabs, (_, leaving) = [await stream(port, path) for path in paths]
        leaving.close()  # a tab that was closed before takes nobody's signal away
        process.send_signal(number)
        began = asyncio.get_running_loop().time()
        for reader, writer in tabs:
            assert b'event: bye\ndata: {"why":"shutdown"}' in await reader.read()
            writer.close()
        _, err = await process.communicate()
        took = asyncio.get_running_loop().time() - began
    assert took < 8, err.decode()
    assert b"Traceback" not in err


async def test_who_has_no_right_is_told_about_the_app_and_not_about_a_link(tmp_path: Path) -> None:
    async with hosted(tmp_path) as (_, port):
        headers = [("Host", f"127.0.0.1:{port}"), ("Connection", "close")]
        answer = await exchange(port, request_bytes("GET", "/agents/runs", headers))
    assert answer.status == 401
    assert "authorize" in answer.json["detail"]
    assert "pullcord serve" not in answer.json["detail"]
