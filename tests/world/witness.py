"""The witness: a process of its own that sees every effect, and when. It knows nothing of Pullcord.

It takes reports on a socket in the file system, adds the moment at which it saw each (by
CLOCK_BOOTTIME), and appends them to a file. It also is the model's provider, so that what a model
is asked and has said is seen from outside too.
"""

import asyncio
import json
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.world import provider
from tests.world.effects import now

ROOT: Final = Path(__file__).parents[2]


class Effect(NamedTuple):
    """One report. `at`: when it was sent; `seen`: when the witness had it."""

    what: str  # begin, tick, end, undo
    kind: str  # of tool
    token: str
    call: str
    pid: int
    actor: str  # name:pid of the runtime's process
    run: str
    step: str
    attempt: int
    at: float
    seen: float


class Witness:
    """A witness that this process has started. Read what it has seen at any time."""

    def __init__(self, folder: Path) -> None:
        self.socket, self._log = str(folder / "w.sock"), folder / "seen.jsonl"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.world.witness", self.socket, str(self._log)],
            stdout=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        assert self._process.stdout
        self.provider = self._process.stdout.readline().strip()  # its URL
        assert self.provider, "the witness did not come up"

    def seen(self) -> list[Effect]:
        if not self._log.exists():
            return []
        lines = self._log.read_text().splitlines(keepends=True)
        return [Effect(**json.loads(line)) for line in lines if line.endswith("\n")]

    def close(self) -> None:
        with self._process as process:
            process.kill()


async def watch(path: str, log: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(said: dict[str, Any]) -> None:
        os.write(file, json.dumps({**said, "seen": now()}).encode() + b"\n")

    ears = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    ears.bind(path)
    ears.setblocking(False)

    def hear() -> None:
        while True:
            try:
                said = ears.recv(65536)
            except BlockingIOError:
                return
            note(json.loads(said))

    asyncio.get_running_loop().add_reader(ears, hear)
    print(await provider.serve(note), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(watch(*sys.argv[1:3]))
