"""Tools that write in a book what they do and what they take back, where any process can read it.

The book is a file that is only ever appended to: `do NAME KEY`, `undo NAME KEY`. It outlives
whoever wrote in it, so that what was really done is known to the letter.
"""

import fcntl
import os
import time
from pathlib import Path
from typing import Any, Final

import pullcord
from pullcord import Call, Retry, ToolContext

QUICK: Final = Retry(attempts=3, wait_s=0.001)


def write(book: str, *words: object) -> None:
    page = os.open(book, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(page, (" ".join(map(str, words)) + "\n").encode())
    finally:
        os.close(page)


def read(book: str | Path) -> list[list[str]]:
    """All lines, each as its words."""
    path = Path(book)
    return [line.split() for line in path.read_text().splitlines()] if path.exists() else []


def did(book: str | Path) -> list[str]:
    """What was done and undone, by name: `do a`, `undo a`."""
    return [f"{what} {name}" for what, name, *_ in read(book)]


def _fails(call: Call) -> None:
    """Raise as long as this call was undone no more often than it says that that fails."""
    lines = read(call.args["book"])
    times = sum(line[:3] == ["undo", call.args["name"], call.idempotency_key] for line in lines)
    if times <= call.args.get("fails", 0):
        raise ConnectionError(f"refused {times}")


# --- in the loop ---


async def discard(call: Call) -> None:
    write(call.args["book"], "undo", call.args["name"], call.idempotency_key)
    _fails(call)


@pullcord.tool(undo=discard, undo_retry=QUICK)
async def draft(ctx: ToolContext, book: str, name: str, fails: int = 0) -> dict[str, Any]:
    """Made at once, and discarded at the `fails + 1`-th attempt."""
    write(book, "do", name, ctx.idempotency_key)
    return {"draft": name, "fails": fails}


@pullcord.tool(effect="once")
async def revoke(call: Call) -> None:
    """An undo that must not happen twice."""
    write(call.args["book"], "undo", call.args["name"], call.idempotency_key)
    _fails(call)


@pullcord.tool(undo=revoke, undo_retry=QUICK)
async def grant(ctx: ToolContext, book: str, name: str, fails: int = 0) -> dict[str, Any]:
    write(book, "do", name, ctx.idempotency_key)
    return {"grant": name, "fails": fails}


# --- in processes ---


def let_go(ctx: ToolContext, call: Call) -> None:
    write(call.args["book"], "undo", call.args["name"], call.idempotency_key, os.getpid())
    write(call.args["book"], "as", call.args["name"], ctx.idempotency_key, ctx.attempt)
    _fails(call)


@pullcord.tool(undo=let_go, undo_retry=QUICK)
def hold(ctx: ToolContext, book: str, name: str, fails: int = 0) -> dict[str, Any]:
    write(book, "do", name, ctx.idempotency_key, os.getpid())
    return {"hold": name, "fails": fails}


@pullcord.tool(effect="once")
def take_back(call: Call) -> None:
    """An undo in a process that must not happen twice."""
    write(call.args["book"], "undo", call.args["name"], call.idempotency_key)
    _fails(call)


@pullcord.tool(undo=take_back)
def lend(ctx: ToolContext, book: str, name: str, fails: int = 0) -> int:
    write(book, "do", name, ctx.idempotency_key)
    return fails


def hang(call: Call) -> None:
    book = call.args["book"]
    write(book, "undo", call.args["name"], call.idempotency_key, os.getpid())
    with open(f"{book}.alive", "w") as alive:
        try:
            fcntl.flock(alive, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            write(book, "beside", call.args["name"])
        time.sleep(3600)


@pullcord.tool(undo=hang, undo_retry=Retry(attempts=2, wait_s=0.001), undo_timeout_s=1)
async def lock(ctx: ToolContext, book: str, name: str) -> str:
    """What it locks cannot be unlocked: that hangs."""
    write(book, "do", name, ctx.idempotency_key)
    return name


# --- of others: they declare nothing themselves ---


async def foreign(book: str, name: str) -> str:
    write(book, "do", name, "-")
    return name
