"""Holding the animals of the zoo: started, listened to, and waited for by what they say."""

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

from pullcord.runtime.processes.warden_client import (
    Process,
    Processes,
    ToolEnd,
    address_of,
    encoded,
)
from tests.tools.zoo import LIVING, NOBODY, Beast

FENCES: Final = ("cgroup+namespace", "cgroup", "namespace", "sweep")
BOUND_S: Final = 120
KEPT_BYTES: Final = 1024 * 1024
_CAP_SETUID: Final = 7


class Animal:
    """One tool that was started: its process, and what it has said."""

    process: Process

    def __init__(self, den: Path, says: bytes = b"") -> None:
        den.mkdir(parents=True)
        self.den = str(den)
        self.said = bytearray()  # the beginning of it
        self.bytes = 0  # of all of it
        self.lines = 0
        self._says = says
        self._changed = asyncio.Event()

    async def here(self) -> None:
        await self.until(lambda: self._says in self.said)

    async def frozen(self) -> None:
        await self.until(lambda: self.process.is_frozen)

    async def end(self) -> ToolEnd:
        async with asyncio.timeout(BOUND_S):
            return await asyncio.shield(self.process.ended)

    async def begun(self) -> None:
        """Wait for the first word about it: that it begins, or that it does not."""
        async with asyncio.timeout(BOUND_S):
            await self._changed.wait()

    async def until(self, holds: Callable[[], bool]) -> None:
        async with asyncio.timeout(BOUND_S):
            while not holds():
                self._changed.clear()
                assert not self.process.ended.done(), (self.process.ended, self.said)
                await self._changed.wait()

    def news(self) -> None:
        self._changed.set()

    def hear(self, data: bytes) -> None:
        self.bytes += len(data)
        self.lines += data.count(b"\n")
        if len(self.said) < KEPT_BYTES:
            self.said += data
        self._changed.set()


@asynccontextmanager
async def held_by(fence: str, *, store: str = "") -> AsyncGenerator[Processes]:
    """Processes of one's own, on this fence."""
    processes = Processes(fence=fence, store=store)
    try:
        yield processes
    finally:
        async with asyncio.timeout(BOUND_S):
            await processes.aclose()


async def bring(
    processes: Processes,
    what: Beast | Callable[..., object] | list[str] | dict[str, str],
    den: Path,
    *,
    env: Mapping[str, str] | None = None,
    **args: Any,
) -> Animal:
    """Start a tool in a den of its own. A function is given the den, and these arguments."""
    beast = what if isinstance(what, Beast) else None
    tool = beast.what if beast else what
    animal = Animal(den, beast.says if beast else b"")
    given = encoded({"args": {"den": animal.den, **args}})
    if isinstance(tool, tuple):
        order: dict[str, Any] = {"argv": [*tool, animal.den]}
    elif isinstance(tool, list):
        order = {"argv": tool}
    else:
        order = {"function": tool if isinstance(tool, dict) else address_of(tool)}
    animal.process = await processes.start(
        order,
        given,
        out=animal.hear,
        err=animal.hear,
        news=animal.news,
        began=lambda _: True,
        env=env,
        cwd=animal.den,
    )
    return animal


def beasts() -> dict[str, Beast]:
    """Those that can be had by this user."""
    return {name: beast for name, beast in LIVING.items() if may_all() or not beast.needs_root}


def may_all() -> bool:
    """Whether this is a superuser who has not given anything up."""
    with open("/proc/self/status") as file:
        held = next(int(line.split()[1], 16) for line in file if line.startswith("CapEff:"))
    return os.geteuid() == 0 and bool(held & 1 << _CAP_SETUID)


def grace_for(beast: Beast) -> float:
    """Short, for those that need a kill; for the others it must never matter."""
    return 0.05 if beast.rung == "killed" else 60


class Keeper:
    """A runtime in a process of its own (keeper.py)."""

    def __init__(self, process: asyncio.subprocess.Process, given: list[str]) -> None:
        assert process.stdin
        assert process.stdout
        self.pid, self._process = process.pid, process
        self._stdin, self._stdout = process.stdin, process.stdout
        self._tell(json.dumps(given))

    async def says(self) -> str:
        async with asyncio.timeout(60):
            line = await self._stdout.readline()
        assert line, "the keeper ended without a word; see its error output"
        return line.decode().strip()

    async def has(self, number: int) -> None:
        """Wait until it has so many animals, or all of them."""
        for _ in range(number):
            if await self.says() == "all":
                break

    async def obeys(self, order: str) -> dict[str, str]:
        self._tell(order)
        return json.loads(await self.says())

    def _tell(self, text: str) -> None:
        self._stdin.write(text.encode() + b"\n")

    async def is_killed(self) -> None:
        self._process.kill()
        await self._process.wait()

    async def ends(self) -> None:
        self._stdin.close()
        async with asyncio.timeout(60):
            await self._process.wait()


@asynccontextmanager
async def keeper(
    fence: str, home: Path, *, store: str = "", who: str = "", interpreter: str = sys.executable
) -> AsyncGenerator[Keeper]:
    """A keeper with the whole zoo at home here, killed at the latest when the block ends.

    `who`: it is `nobody`, or root without anything that makes it special (`bare`).
    """
    other: dict[str, Any] = {}
    if who == "nobody" and may_all():
        other = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    process = await asyncio.create_subprocess_exec(
        interpreter, "-m", "tests.tools.keeper", fence, who,
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": ":".join(sys.path)}, **other,
    )  # fmt: skip
    try:
        yield Keeper(process, [str(home), store])
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
