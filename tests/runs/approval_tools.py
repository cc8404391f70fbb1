"""Tools for the tests of approvals that another process must be able to find."""

import os
from pathlib import Path

import pullcord


def _note(path: str, line: str) -> None:
    kept = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(kept, line.encode() + b"\n")
    os.close(kept)


def noted(path: Path) -> list[str]:
    """What was really done, a line each."""
    return path.read_text().splitlines() if path.exists() else []


@pullcord.tool(approve="always")
def note(path: str, line: str) -> str:
    """In a process of its own."""
    _note(path, line)
    return line


@pullcord.tool(approve="always", run_in="thread")
def note_in_thread(path: str, line: str) -> str:
    _note(path, line)
    return line


@pullcord.tool(approve="always")
async def note_in_loop(path: str, line: str) -> str:
    _note(path, line)
    return line


@pullcord.tool(approve="always", command=True)
def note_by_command(path: str, line: str) -> list[str]:
    return ["sh", "-c", 'echo "$1" >> "$2"', "sh", line, path]


def hold(path: str) -> None:
    """Say who it is, and do not end by itself."""
    _note(path, str(os.getpid()))
    while True:
        os.read(os.pipe()[0], 1)
