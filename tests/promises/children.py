"""Starting and talking to a child process, with every wait bounded."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager

from tests import nursery


class Child:
    def __init__(self, process: "subprocess.Popen[str]") -> None:
        assert process.stdin
        assert process.stdout
        self._process, self._stdin, self._stdout = process, process.stdin, process.stdout

    async def says(self) -> str:
        async with asyncio.timeout(60):
            line = await asyncio.to_thread(self._stdout.readline)
        assert line, "the child ended without a word; see its error output"
        return line.strip()

    async def tell(self, text: str) -> None:
        self._stdin.write(f"{text}\n")
        self._stdin.flush()

    def signal(self, number: int) -> None:
        self._process.send_signal(number)

    async def kill(self) -> None:
        """As `kill -9` does."""
        self._process.kill()
        await asyncio.to_thread(self._process.wait)

    async def end(self) -> None:
        self._stdin.close()
        await asyncio.to_thread(self._process.wait, 60)


def _start(module: str, *args: str, stdin: int, stdout: int) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", module, *args]
    return subprocess.Popen(command, stdin=stdin, stdout=stdout, text=True)


@asynccontextmanager
async def child(module: str, *args: str, is_own: bool = False) -> AsyncGenerator[Child]:
    """Run `python -m module args`, killed at the latest when the block ends.

    `is_own`: a process of ours, not of the nursery. The kernel tells only a parent of a stop.
    """
    start = _start if is_own else nursery.start
    process = await asyncio.to_thread(
        start, module, *args, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with process:
        try:
            yield (running := Child(process))
            await running.end()
        finally:
            process.kill()
