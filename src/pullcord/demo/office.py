"""Where the demo's agents work: how fast, and the folder in which what they do can be seen."""

import asyncio
import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

FILES: Final = "PULLCORD_DEMO_FILES"
"""The environment variable that names the folder. An undo may be carried out by a process that
never called the tool: it finds the folder here too."""


@dataclass(frozen=True)
class Office:
    """What an agent finds as `ctx.deps`. `pace`: 1 is as fast as one can read, 0 at full speed."""

    pace: float = 1.0

    async def takes(self, seconds: float) -> None:
        """Let something take its time."""
        await asyncio.sleep(seconds * self.pace)


def folder() -> Path:
    return Path(os.environ.get(FILES, "pullcord-demo"))


def put(name: str, text: str) -> str:
    """Write a file, and return its name. The same one again is the same file."""
    path = folder() / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return name


def discard(name: str) -> None:
    """Remove a file. It does not mind if there is none."""
    (folder() / name).unlink(missing_ok=True)


def add_line(name: str, **said: str) -> None:
    """Add a line to a file. Nothing takes it back."""
    folder().mkdir(parents=True, exist_ok=True)
    with (folder() / name).open("a", encoding="utf-8") as file:
        file.write(json.dumps(said, ensure_ascii=False) + "\n")


def lines(name: str) -> list[dict[str, str]]:
    """What was added to a file, in order."""
    path = folder() / name
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def named(kind: str, key: str, suffix: str) -> str:
    """A name that belongs to one call, whoever asks for it and however often."""
    return f"{kind}-{hashlib.sha256(key.encode()).hexdigest()[:8]}.{suffix}"
