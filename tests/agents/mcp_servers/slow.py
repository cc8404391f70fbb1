"""An MCP server over stdio that is slow, and writes down every word it hears. Run as a program."""

import io
import json
import os
import sys
from pathlib import Path

import anyio
from mcp.server import MCPServer
from mcp.server.stdio import stdio_server

LOG = Path(sys.argv[1])
server = MCPServer("slow")


def log(**what: object) -> None:
    with LOG.open("a") as file:
        file.write(json.dumps(what) + "\n")


class Ears(io.TextIOWrapper):
    """Standard input, written down line by line before anybody reads it."""

    def readline(self, size: int = -1, /) -> str:  # pyright: ignore[reportIncompatibleMethodOverride]
        line = super().readline(size)
        if line.strip():
            log(heard=json.loads(line))
        return line

    def __next__(self) -> str:
        if not (line := self.readline()):
            raise StopIteration
        return line


@server.tool()
async def heedful(what: str) -> str:
    """Work for long, and stop when told to."""
    log(begun=what)
    try:
        await anyio.sleep(60)
    except anyio.get_cancelled_exc_class():
        log(stopped=what)
        raise
    return what


@server.tool()
async def stubborn(what: str) -> str:
    """Work for long, whatever anybody says, until a file says that it is enough."""
    log(begun=what)
    with anyio.CancelScope(shield=True):
        parent = os.getppid()
        while not LOG.with_suffix(".enough").exists() and os.getppid() == parent:  # noqa: ASYNC110
            await anyio.sleep(0.01)
        log(done=what)
    return what


@server.tool()
async def quick(what: str) -> str:
    """Answer at once."""
    log(begun=what)
    return f"quick {what}"


@server.tool()
async def broken(what: str) -> str:
    """Fail."""
    raise ValueError(f"no {what}")


async def main() -> None:
    log(pid=os.getpid())
    ears = anyio.wrap_file(Ears(sys.stdin.buffer, encoding="utf-8"))
    async with stdio_server(stdin=ears) as (reads, writes):
        low = server._lowlevel_server  # pyright: ignore[reportPrivateUsage]
        await low.run(reads, writes, low.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
