"""Starting and talking to a child process, with every wait bounded."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager


class Child:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        assert process.stdin
        assert process.stdout
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout

    async def says(self) -> str:
        async with asyncio.timeout(60):
            line = await self._stdout.readline()
        assert line, "the child ended without a word; see its error output"
        return line.decode().strip()

    async def tell(self, text: str) -> None:
        self._stdin.write(text.encode() + b"\n")
        await self._stdin.drain()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def kill(self) -> None:
        """As `kill -9` does."""
        self._process.kill()
        await self._process.wait()

    async def end(self) -> None:
        self._stdin.close()
        async with asyncio.timeout(60):
            await self._process.wait()


@asynccontextmanager
async def child(module: str, *args: str) -> AsyncGenerator[Child]:
    """Run `python -m module args`, killed at the latest when the block ends."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *args,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
    )  # fmt: skip
    try:
        yield (running := Child(process))
        await running.end()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
