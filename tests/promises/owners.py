"""Owners that live in a process of their own, told what to do through standard input."""

import asyncio
import os
import socket
import sys
import threading
import time

from pullcord.core.events import Created, Event, Spent, StepStarted
from pullcord.journal.clock import SystemClock
from pullcord.journal.journal import Journal
from pullcord.journal.rules.ledger import Append, Claim, Ledger
from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.journal.store import Transaction
from pullcord.runtime.control_thread import ControlThread


def say(text: str) -> None:
    os.write(1, text.encode() + b"\n")


def hear() -> str:
    """Read a line without any event loop: whoever calls this in one has blocked it."""
    line = b""
    while not line.endswith(b"\n"):
        piece = os.read(0, 1)
        if not piece:
            sys.exit(0)
        line += piece
    return line.decode().strip()


async def claimed(journal: Journal, run_id: str) -> Claim:
    created = Created(agent="churn", thread=run_id)
    await journal.append(Append(run_id=run_id, events=[created], expected_seq=0))
    claim = await journal.acquire(run_id, owner="child", ttl_s=1000)
    assert claim is not None
    return claim


async def blocked(path: str, port: str) -> None:
    """Open a connection for a step, register its cutter, and block the event loop."""
    stream = socket.create_connection(("127.0.0.1", int(port)))
    async with Journal.open(path) as journal:
        control = ControlThread(journal)
        await claimed(journal, "r1")
        started = StepStarted(step="a", name="stream")
        await journal.append(Append(run_id="r1", events=[started], expected_seq=2, epoch=1))
        heard: list[str] = []

        def cut(event: object) -> None:
            heard.append(type(event).__name__)
            stream.shutdown(socket.SHUT_RDWR)

        with control.cutting("r1", cut, after_seq=3):
            say("blocked")
            hear()
            say(" ".join(heard))
        control.close()
    stream.close()


async def busy(path: str, run_id: str) -> None:
    """Commit without a break, straight on the store and as if on a slow disk, until told to stop.

    The lock is free for some microseconds between two commits that take milliseconds: whoever
    merely tries now and then will hardly ever meet that moment.
    """
    store, ledger = SqliteStore(path), Ledger(SystemClock())

    def append(events: list[Event], seq: int, epoch: int | None) -> None:
        change = Append(run_id=run_id, events=events, expected_seq=seq, epoch=epoch)

        def slowly(tx: Transaction) -> None:
            ledger.append(tx, change)
            time.sleep(0.004)

        store.write(slowly)

    append([Created(agent="churn", thread=run_id)], 0, None)
    store.write(lambda tx: ledger.acquire(tx, run_id, owner="child", ttl_s=1000))
    stopping = threading.Thread(target=hear)
    stopping.start()
    say("busy")
    seq = 2
    while stopping.is_alive():
        append([Spent(tokens_in=seq)], seq, 1)
        seq += 1
    store.close()
    say("done")


if __name__ == "__main__":
    asyncio.run(globals()[sys.argv[1]](*sys.argv[2:]))
