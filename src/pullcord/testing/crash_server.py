"""The process that forks one child per crash point. Single-threaded, so that it may fork.

Not imported: `crash_points` starts it with `python -m`.
"""

import asyncio
import importlib
import os
import sys

import msgspec

from pullcord.journal.journal import Journal
from pullcord.journal.sqlite.backend import SqliteStore
from pullcord.testing.crashing import CrashingStore, Life, Point, Scenario

_LIVED = "lived to the end: "


def _serve(target: str) -> None:
    module, _, function = target.partition(":")
    sys.path.insert(0, os.getcwd())
    scenario: Scenario = getattr(importlib.import_module(module), function)
    for line in sys.stdin.buffer:
        life = _live_and_die(scenario, msgspec.json.decode(line, type=Point))
        sys.stdout.buffer.write(msgspec.json.encode(life) + b"\n")
        sys.stdout.buffer.flush()


def _live_and_die(scenario: Scenario, point: Point) -> Life:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        os._exit(_live(scenario, point, writing))
    os.close(writing)
    with open(reading, "rb") as pipe:
        told = [line.decode() for line in pipe.read().splitlines()]
    _, status = os.waitpid(child, 0)
    if os.WIFSIGNALED(status):
        return Life(True, told, 0)
    if code := os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"the scenario failed by itself at {point} with exit status {code}")
    return Life(False, told[:-1], int(told[-1].removeprefix(_LIVED)))


def _live(scenario: Scenario, point: Point, writing: int) -> int:
    def witness(text: str) -> None:
        os.write(writing, text.encode() + b"\n")

    async def main() -> None:
        store = CrashingStore(SqliteStore(point.path), at=point.at, when=point.when)
        async with Journal(store) as journal:
            await scenario(journal, witness)
        witness(f"{_LIVED}{store.writes}")

    try:
        asyncio.run(main())
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return 1
    return 0


if __name__ == "__main__":
    _serve(sys.argv[1])
