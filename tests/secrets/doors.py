"""Tools that say what they were really called with: to a file that no journal knows of."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import pullcord
from pullcord import Call


def _received(path: str, what: str, value: Any) -> None:
    with open(path, "a", encoding="utf-8") as file:
        file.write(json.dumps([what, value]) + "\n")


def in_process(path: str, given: Any) -> Any:
    """Puts out what it was given, in pieces, and returns it."""
    _received(path, "process", given)
    text = json.dumps(given)
    for stream in (sys.stdout, sys.stderr):
        for start in range(0, len(text), 1000):
            stream.write(text[start : start + 1000])
            stream.flush()
    os.write(1, str(given).encode())
    return {"echo": given, "as text": text}


def fails_in_process(path: str, given: Any) -> None:
    _received(path, "fails", given)
    raise ValueError(f"cannot use {given}")


@pullcord.tool(run_in="thread")
def in_thread(path: str, given: Any) -> Any:
    _received(path, "thread", given)
    return given


@pullcord.tool
async def in_loop(path: str, given: Any) -> Any:
    _received(path, "loop", given)
    return given


async def take_back(call: Call) -> None:
    _received(call.args["path"], "undo", [call.args["given"], call.result])


async def was_it(call: Call) -> Any:
    _received(call.args["path"], "probe", call.args["given"])
    return call.happened(call.args["given"])


async def is_valid(call: Call) -> bool:
    _received(call.args["path"], "still_valid", call.args["given"])
    return True


@pullcord.tool(undo=take_back)
async def undoable(path: str, given: Any) -> Any:
    _received(path, "undoable", given)
    return {"made": given}


@pullcord.tool(approve="always", still_valid=is_valid)
async def approved(path: str, given: Any) -> Any:
    _received(path, "approved", given)
    return given


@pullcord.tool(probe=was_it)
async def probed(path: str, given: Any) -> Any:
    """Is cut off before it can say anything: whoever carries it out is killed."""
    _received(path, "probed", given)
    os.kill(os.getpid(), 9)


def received(path: Any) -> dict[str, list[Any]]:
    """What tools were called with, by where they were."""
    found: dict[str, list[Any]] = {}
    for line in Path(path).read_text(encoding="utf-8").splitlines():
        what, value = json.loads(line)
        found.setdefault(what, []).append(value)
    return found


def was_called(path: str, what: str) -> bool:
    return Path(path).exists() and what in received(path)
