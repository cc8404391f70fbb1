"""A line to the tests' server that can go silent: what is on it waits, and nobody hangs up."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from urllib.parse import quote

from tests.postgres.server import Server

_BYTES: int = 64 * 1024


class Line:
    """Passes on what it hears, as long as `is_up` is set."""

    def __init__(self, server: Server, folder: Path) -> None:
        self._real, self._folder = str(server.socket / ".s.PGSQL.5432"), folder
        self._server = server
        self.is_up = asyncio.Event()
        self.is_up.set()

    def url(self, schema: str) -> str:
        """The server's, through this line."""
        real = self._server.url(schema)
        return real.replace(
            quote(str(self._server.socket), safe=""), quote(str(self._folder), safe="")
        )

    async def connected(
        self, near_in: asyncio.StreamReader, near_out: asyncio.StreamWriter
    ) -> None:
        far_in, far_out = await asyncio.open_unix_connection(self._real)
        await asyncio.gather(self._pass_on(near_in, far_out), self._pass_on(far_in, near_out))

    async def _pass_on(self, heard: asyncio.StreamReader, said: asyncio.StreamWriter) -> None:
        with suppress(ConnectionError):
            while data := await heard.read(_BYTES):
                await self.is_up.wait()
                said.write(data)
                await said.drain()
        said.close()


@asynccontextmanager
async def a_line(server: Server, folder: Path) -> AsyncGenerator[Line]:
    folder.mkdir()
    line = Line(server, folder)
    listening = await asyncio.start_unix_server(line.connected, str(folder / ".s.PGSQL.5432"))
    try:
        yield line
    finally:
        line.is_up.set()
        listening.close()
