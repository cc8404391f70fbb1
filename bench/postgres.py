"""The store in PostgreSQL: a step's two records against two bare commits on the same server, and
how soon a control is heard of by whoever listens."""

import asyncio
import os
import threading
import time
from itertools import count
from pathlib import Path

import psycopg
from tests.postgres.server import Server, serving

from bench.figures import Figure, p50
from bench.runs import against_bare, born
from pullcord.core.commands import Pause, Resume
from pullcord.journal.journal import Journal

PAIRS = 500
CONTROLS = 200


async def measure(folder: Path) -> list[Figure]:
    os.environ["PULLCORD_STATE"] = str(folder / "state")
    with serving() as server:
        return [await _a_step(server), *await _a_control(server)]


async def _a_step(server: Server) -> Figure:
    with server.connect() as bare:
        bare.execute("CREATE TABLE r (pos BIGSERIAL PRIMARY KEY, run INT, seq INT, payload BYTEA)")
        bare.execute("CREATE UNIQUE INDEX i ON r (run, seq)")
        async with Journal.open(server.url()) as journal:
            await born(journal, "r1")
            numbers = count()
            ours, theirs = await against_bare(journal, lambda: _commit(bare, next(numbers)), PAIRS)
    over = f"p50 of {PAIRS:,} pairs; bare pair {p50(theirs) * 1000:.2f} ms"
    ratio = p50(ours) / p50(theirs)
    return Figure("intent + outcome ÷ two bare PostgreSQL commits", ratio, 2, "×", over)


def _commit(bare: "psycopg.Connection[tuple[object, ...]]", seq: int) -> None:
    bare.execute("BEGIN")
    bare.execute("INSERT INTO r (run, seq, payload) VALUES (1, %s, %s)", (seq, bytes(260)))
    bare.execute("COMMIT")


async def _a_control(server: Server) -> list[Figure]:
    """From when it is asked for until somebody with a connection of their own hears of it."""
    url, late = server.url(), list[float]()
    async with Journal.open(url) as theirs, Journal.open(url) as mine:
        heard = threading.Event()
        stop = theirs.changes.watch(lambda _: heard.set())
        await born(mine, "r1")
        for number in range(CONTROLS):
            heard.clear()
            command = Resume(by="ana") if number % 2 else Pause(by="ana")
            began = time.perf_counter()
            asked = asyncio.create_task(mine.command("r1", command))
            await asyncio.to_thread(heard.wait)
            late.append((time.perf_counter() - began) * 1000)
            await asked
        stop()
    late.sort()
    over = f"{CONTROLS} controls; the same process, two connections"
    return [
        Figure("control asked → durable and heard by NOTIFY, p50", p50(late), 5, "ms", over),
        Figure("… p99", late[int(len(late) * 0.99)], 20, "ms", over),
    ]
