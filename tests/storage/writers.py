"""Stories that write to a journal, in this process or as a child that reports what it was told.

As a program (`python -m tests.storage.writers PATH`) it makes ten commits, in one run, and says
each acknowledgement and each failure in a line, written past every buffer. A failed commit is
tried again, or with `--frail` the process dies of the first one, leaving the file as it is.
"""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import Final, TypeVar

from pullcord.core.commands import Cancel, Pause, Redirect
from pullcord.core.events import (
    ChildBorn,
    Claimed,
    Created,
    Event,
    Redirected,
    Spent,
    StepFinished,
    StepStarted,
    TextEnded,
)
from pullcord.core.values import dump
from pullcord.errors import StorageFailed
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Lease, Order

T = TypeVar("T")
LARGE: Final = dump("x" * 20_000)
"""A value that is kept out of line: over INLINE_MAX_BYTES."""
TRIES: Final = 3


async def claimed(journal: Journal, run_id: str) -> Lease:
    claim = await journal.acquire(run_id, owner="me", ttl_s=600)
    assert claim
    return claim.lease


# --- a story with something of everything -----------------------------------------------------

TOGETHER: Final = ((("parent", 6), ("child", 1)), (("parent", 8), ("child", 2)))
"""Records of two runs that one transaction wrote."""


async def something_of_everything(journal: Journal, told: Callable[[], Awaitable[None]]) -> None:
    """Several runs, controls, live text, a large value. Calls `told` after each commit."""

    async def append(run_id: str, seq: int, *events: Event) -> None:
        await journal.append(
            Append(run_id=run_id, events=events, expected_seq=seq, epoch=seq and 1)
        )
        await told()

    await append("parent", 0, Created(agent="a", thread="t", input=dump({"task": "look"})))
    lease = await claimed(journal, "parent")
    await told()
    await append("parent", 2, StepStarted(step="s1", name="read", args=LARGE))
    for offset, text in ((0, "I have "), (7, "read it")):
        await journal.live_text.say(lease, "p1", text, offset=offset)
        await told()
    await append("parent", 3, StepFinished(step="s1", result=dump([1, 2, 3])))
    await append("parent", 4, TextEnded(part="p1", text="I have read it."))
    await _two_runs_at_once(journal, told)
    await append("other", 0, Created(agent="b", thread="t"))
    await journal.command("other", Cancel(by="ann", reason="not now", key="k2"))
    await told()


async def _two_runs_at_once(journal: Journal, told: Callable[[], Awaitable[None]]) -> None:
    born = ChildBorn(child="child")
    child = Created(agent="a", thread="t", parent="parent")
    await journal.append(
        Append(run_id="parent", events=[born], expected_seq=5, epoch=1),
        Append(run_id="child", events=[child], expected_seq=0),
    )
    await told()
    await journal.command("parent", Redirect(by="ann", instruction="shorter", key="k1"))
    await told()
    await journal.append(
        Order("parent", Pause(by="ann", reason="lunch")),
        Order("child", Cancel(by="ann", reason="lunch")),
    )
    await told()


# --- ten commits, each one record -------------------------------------------------------------

RUN: Final = "r1"
COMMITS: Final = 10
_TOLD: Final = Redirect(by="ann", instruction="shorter", key="k1")


def planned(seq: int) -> Event:
    """The event that record `seq` of the ten must hold."""
    match seq:
        case 1:
            return Created(agent="a", thread="t")
        case 2:
            return Claimed(owner="me", epoch=1)
        case 4:
            return StepStarted(step="s1", name="read", args=LARGE)
        case 7:
            return Redirected(by="ann", instruction="shorter", key="k1")
        case _:
            return Spent(tokens_in=seq)


async def commit(journal: Journal, seq: int) -> None:
    """Make record `seq` of the ten."""
    if seq == 2:
        await claimed(journal, RUN)
    elif seq == 7:
        assert (await journal.command(RUN, _TOLD)).verdict == "applied"
    else:
        epoch = 1 if seq > 1 else None
        events = [planned(seq)]
        await journal.append(Append(run_id=RUN, events=events, expected_seq=seq - 1, epoch=epoch))


def say(line: str) -> None:
    os.write(1, line.encode() + b"\n")


async def tried(attempt: Callable[[], Awaitable[T]]) -> T:
    """Carry out `attempt`, again if the storage failed, and say every failure."""
    for _ in range(TRIES - 1):
        try:
            return await attempt()
        except StorageFailed as error:
            say(f"failed {error}")
    return await attempt()


async def _dying(attempt: Callable[[], Awaitable[T]]) -> T:
    try:
        return await attempt()
    except StorageFailed as error:
        say(f"failed {error}")
        os._exit(0)


async def _ten_commits(path: str, *, frail: bool) -> None:
    async def opened() -> Journal:
        return Journal.open(path)

    say(f"pid {os.getpid()}")
    journal = await tried(opened)
    say("opened")
    for seq in range(1, COMMITS + 1):
        await (_dying if frail else tried)(lambda seq=seq: commit(journal, seq))
        say(f"acked {seq}")
    await journal.aclose()
    say("closed")


if __name__ == "__main__":
    asyncio.run(_ten_commits(sys.argv[1], frail="--frail" in sys.argv))
