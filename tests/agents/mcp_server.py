"""A server of tools in a process of its own."""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from fastmcp.client.transports import StdioTransport
from pydantic_ai.mcp import MCPToolset

SLOW = Path(__file__).parent / "mcp_servers" / "slow.py"


class Server:
    """The server of a test, as far as it has written down what it heard and did."""

    def __init__(self, folder: Path) -> None:
        self.log = folder / "server.log"

    def toolset(self) -> MCPToolset[Any]:
        argv = [str(SLOW), str(self.log)]
        transport = StdioTransport(sys.executable, argv, keep_alive=False)
        return MCPToolset(transport, id="slow", init_timeout=60)

    def lines(self) -> list[dict[str, Any]]:
        text = self.log.read_text() if self.log.exists() else ""
        return [json.loads(line) for line in text.splitlines(keepends=True) if line[-1] == "\n"]

    def said(self, key: str) -> list[Any]:
        return [line[key] for line in self.lines() if key in line]

    def heard(self, method: str) -> list[dict[str, Any]]:
        return [heard for heard in self.said("heard") if heard.get("method") == method]

    def calls(self) -> dict[str, Any]:
        """The ids of the calls, by what they were about."""
        return {
            call["params"]["arguments"]["what"]: call["id"] for call in self.heard("tools/call")
        }

    def cancelled(self) -> list[Any]:
        """The ids of the requests that it was told to stop."""
        return [note["params"]["requestId"] for note in self.heard("notifications/cancelled")]

    async def until(self, key: str, value: Any) -> None:
        while value not in self.said(key):  # noqa: ASYNC110 (another process writes it)
            await asyncio.sleep(0.005)

    async def until_cancelled(self, count: int = 1) -> None:
        while len(self.cancelled()) < count:  # noqa: ASYNC110
            await asyncio.sleep(0.005)

    def enough(self) -> None:
        self.log.with_suffix(".enough").touch()

    def pids(self) -> list[int]:
        return self.said("pid")
