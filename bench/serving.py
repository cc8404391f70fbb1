"""The server: how soon a control is answered among readers who take nothing, and what they cost."""

import asyncio
import json
import socket
import sys
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pullcord
from bench.figures import Figure, p50, p99
from pullcord import Context, RunState
from pullcord.server.credentials import Keeper
from pullcord.server.standalone import Standalone, listen

CONTROLS = 300
STALLED = 500
IDLE = 2_000
PAGES = 200


async def measure(folder: Path) -> list[Figure]:
    async with _server(folder / "stalled") as it:
        bare = p50(it.said["bare_ms"])
        alone = await it.controls()
        over = f"{CONTROLS} redirects over HTTP; the journal alone takes {bare:.1f} ms"
        figures = [
            Figure("control over HTTP, p50, to the journal's", p50(alone) / bare, 5, "×", over)
        ]
        before = it.resident()
        async with it.readers(it.said["long"], STALLED):
            coming = await it.controls()
            await it.settled()
            among = await it.controls()
            held = (it.resident() - before) / STALLED
            left_s = await it.stop()
        over = f"{CONTROLS} redirects; alone {p99(alone):.0f} ms"
        what = f"control over HTTP, p99, among {STALLED} readers that take nothing"
        figures.append(Figure(what, p99(among), 100, "ms", over))
        figures.append(Figure("… while they come", p99(coming), 250, "ms", over))
        over = f"{STALLED} readers, each with {PAGES * 20_000 / 1e6:.0f} MB to read"
        figures.append(
            Figure("memory held for a reader that takes nothing", held / 1024, 400, "KiB", over)
        )
        figures.append(
            Figure("stop of the server with readers that take nothing", left_s, 3, "s", over)
        )
    async with _server(folder / "idle") as it:
        before = it.resident()
        async with it.readers(it.said["short"], IDLE) as readers:
            await asyncio.gather(*(_taken(reader, b"event: panel") for reader in readers))
            each = (it.resident() - before) / IDLE
            began = time.monotonic()
            await it.post("cancel", {})
            told = await asyncio.gather(*(_taken(r, b'"type":"cancelled"') for r in readers))
            told_s = time.monotonic() - began
            left_s = await it.stop()
        over = f"{IDLE:,} readers of one run"
        figures.append(Figure("resident memory per idle reader", each / 1024, 64, "KiB", over))
        figures.append(
            Figure("readers that were told of a cancel", sum(told), IDLE, "readers", over, True)
        )
        figures.append(Figure("… until the last of them was", told_s, 5, "s", over))
        figures.append(
            Figure("stop of the server with all of them connected", left_s, 3, "s", over)
        )
    return figures


class _It:
    """A server in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process, said: dict[str, Any]) -> None:
        self._process, self.said = process, said

    def resident(self) -> int:
        lines = Path(f"/proc/{self._process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmRSS:"))

    async def settled(self) -> None:
        """Wait until it does nothing any more."""
        before = -100
        while (now := self._ticks()) - before >= 5:
            before = now
            await asyncio.sleep(0.5)

    def _ticks(self) -> int:
        words = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(words[11]) + int(words[12])

    async def controls(self) -> list[float]:
        """How long each of many took, in milliseconds."""
        samples: list[float] = []
        for number in range(CONTROLS):
            began = time.monotonic()
            await self.post("redirect", {"instruction": str(number)})
            samples.append((time.monotonic() - began) * 1000)
        return samples

    async def post(self, verb: str, said: dict[str, Any]) -> None:
        body = json.dumps(said).encode()
        path = f"/runs/{self.said['short']}/{verb}"
        lines = ["Content-Type: application/json", "X-Pullcord: 1", f"Content-Length: {len(body)}"]
        reader, writer = await asyncio.open_connection("127.0.0.1", self.said["port"])
        writer.write(self._head("POST", path, *lines) + body)
        assert b" 200 " in await reader.readline()
        writer.close()

    @asynccontextmanager
    async def readers(self, run: str, count: int) -> AsyncGenerator[list[asyncio.StreamReader]]:
        """So many who ask for a run's events, and take no more than fits on the way to them."""
        made: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]] = []
        for _ in range(count):
            line = socket.socket()
            line.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            line.setblocking(False)
            await asyncio.get_running_loop().sock_connect(line, ("127.0.0.1", self.said["port"]))
            made.append(await asyncio.open_connection(sock=line, limit=8 * 1024))
            made[-1][1].write(self._head("GET", f"/runs/{run}/events"))
        try:
            yield [reader for reader, _ in made]
        finally:
            for _, writer in made:
                writer.transport.abort()

    def _head(self, method: str, path: str, *lines: str) -> bytes:
        name = f"Host: 127.0.0.1:{self.said['port']}"
        known = f"Authorization: Bearer {self.said['token']}"
        return "\r\n".join([f"{method} {path} HTTP/1.1", name, known, *lines, "", ""]).encode()

    async def stop(self) -> float:
        """How long the server took to stop, in seconds."""
        assert self._process.stdin
        assert self._process.stdout
        self._process.stdin.close()
        return float(await self._process.stdout.readline())


async def _taken(reader: asyncio.StreamReader, what: bytes) -> bool:
    """Whether it was told that."""
    while line := await reader.readline():
        if what in line:
            return True
    return False


@asynccontextmanager
async def _server(folder: Path) -> AsyncGenerator[_It]:
    folder.mkdir()
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "bench.serving", str(folder),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, limit=1024 * 1024,
    )  # fmt: skip
    assert process.stdin
    assert process.stdout
    yield _It(process, json.loads(await process.stdout.readline()))
    process.stdin.close()
    await process.wait()


# --- the other process ----------------------------------------------------------------------------


async def writes(ctx: Context, pages: int) -> None:
    for number in range(pages):
        await ctx.step(f"page {number}", _page)
    await ctx.ask("More?")


async def _page() -> str:
    return "x" * 20_000


async def serve(folder: Path) -> None:
    """Serve two runs until stdin is closed. Say where, and then how long it took to stop."""
    stop = asyncio.Event()
    asyncio.get_running_loop().add_reader(0, stop.set)
    keeper = Keeper(folder / "grants.json", name="bench", cookie="bench")
    async with pullcord.open(folder / "store.db", agents={"writes": writes}) as runtime:
        long, short, other = [await runtime.start("writes", n) for n in (PAGES, 0, 0)]
        for run in (long, short, other):
            await run.wait_for(RunState.WAITING)
        bare: list[float] = []
        for number in range(CONTROLS):
            began = time.monotonic()
            await other.redirect(str(number), by="bench")
            bare.append((time.monotonic() - began) * 1000)
        line = listen("127.0.0.1", 0)
        port = line.getsockname()[1]
        server = Standalone(runtime, line, keeper=keeper, hosts=[f"127.0.0.1:{port}"])
        await server.start()
        _, token = keeper.give(kind="token", name="bench", right="admin", lasts_s=3600)
        _say({"port": port, "token": token, "long": long.id, "short": short.id, "bare_ms": bare})
        await stop.wait()
        began = time.monotonic()
        await server.stop()
        _say(time.monotonic() - began)


def _say(what: object) -> None:
    print(json.dumps(what), flush=True)


def _main(words: Sequence[str]) -> None:
    asyncio.run(serve(Path(words[0])))


if __name__ == "__main__":
    _main(sys.argv[1:])
