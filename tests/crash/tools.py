"""Runs with tools that a process is killed in.

Each tool tells the world outside, a file that outlives everybody, that it is carried out, before
it does anything else, and holds a lock for as long as it lives: who did what, with which key, and
whether anything of it is left, is known to the letter.
"""

import asyncio
import fcntl
import os
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any, Final, NamedTuple

from pullcord import Call, Context, RunHandle, RunState, Runtime, Timing, ToolContext
from pullcord.journal.journal import Journal
from pullcord.runtime.policy import Tool
from pullcord.testing.crashing import Scenario, Witness
from tests.declaring import declared_as

BOUND_S: Final = 60
PROBES: Final = ("knows", "unsure", "")


class Line(NamedTuple):
    """Something that happened outside: `begun` or `done`, which tool, with which key."""

    what: str
    tool: str
    key: str


def tell(path: str, what: str, tool: str, key: str) -> None:
    world = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(world, f"{what} {tool} {key}\n".encode())
    os.close(world)


def told(path: str) -> list[Line]:
    if not os.path.exists(path):
        return []
    with open(path) as world:
        return [Line(*line.split()) for line in world.read().splitlines()]


class Alive:
    """As long as one of these is there, nobody has the world to himself."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        self._lock = os.open(f"{self._path}.alive", os.O_RDWR | os.O_CREAT)
        fcntl.flock(self._lock, fcntl.LOCK_SH)

    def __exit__(self, *_: object) -> None:
        os.close(self._lock)


def somebody_is_alive(path: str) -> bool:
    lock = os.open(f"{path}.alive", os.O_RDWR | os.O_CREAT)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(lock)
    return False


# --- the tools ----------------------------------------------------------------------------------


def _blocking(ctx: ToolContext, path: str, name: str) -> str:
    with Alive(path):
        tell(path, "begun", name, ctx.idempotency_key)
        for line in range(2):  # shown as they come: writes while it is under way
            print(name, line, flush=True)
            time.sleep(0.02)
        tell(path, "done", name, ctx.idempotency_key)
        return name


async def _cooperative(ctx: ToolContext, path: str, name: str) -> str:
    with Alive(path):
        tell(path, "begun", name, ctx.idempotency_key)
        await asyncio.sleep(0.02)  # others write meanwhile
        tell(path, "done", name, ctx.idempotency_key)
        return name


def in_process(ctx: ToolContext, path: str, name: str) -> str:
    return _blocking(ctx, path, name)


async def in_loop(ctx: ToolContext, path: str, name: str) -> str:
    return await _cooperative(ctx, path, name)


def knows(call: Call) -> Any:
    """Whoever has begun counts as having done it: then nobody may do it again."""
    begun = [line for line in told(call.args["path"]) if line.key == call.idempotency_key]
    return call.happened("probed") if begun else False


async def unsure(_call: Call) -> None:
    return None


_PROBE: Final = {"knows": knows, "unsure": unsure, "": None}


def declared(place: str, effect: str, probe: str) -> Tool[..., Any]:
    function: Any = in_process if place == "process" else in_loop
    return declared_as(effect=effect, probe=_PROBE[probe], stop_grace_s=0.5)(function)


# --- the agents ---------------------------------------------------------------------------------


def names_of(effect: str) -> list[str]:
    return [f"{effect}-{probe or 'asks'}" for probe in PROBES]


async def caller(ctx: Context, given: Any) -> list[Any]:
    """Call a tool of each kind of probe; say something in between, and meanwhile."""
    results: list[Any] = []
    for probe, name in zip(PROBES, names_of(given["effect"]), strict=True):
        tool = declared(given["place"], given["effect"], probe)

        async def call(tool: Tool[..., Any] = tool, name: str = name) -> Any:
            return await ctx.branch(name).tool(tool, given["path"], name)

        async def talk() -> None:
            for _ in range(2):
                await ctx.branch("talk").say("Meanwhile.")

        result, _ = await asyncio.gather(call(), talk())
        results.append(result)
    return results


AGENTS: Final = {"caller": caller}


@asynccontextmanager
async def begun(
    journal: Journal, witness: Witness, place: str, effect: str, **timing: Any
) -> AsyncGenerator[tuple[Runtime, RunHandle, str]]:
    world = os.path.join(tempfile.mkdtemp(prefix="world-"), "told")
    witness(f"world {world}")
    how = Timing(lease_s=600, stop_grace_s=0.5, quiet_s=0.005, **timing)
    async with asyncio.timeout(BOUND_S), Runtime(journal, agents=AGENTS, timing=how) as runtime:
        given = {"path": world, "place": place, "effect": effect}
        run = await runtime.start("caller", given, run_id="r1")
        witness("ack start r1 1")
        yield runtime, run, world


async def is_under_way(run: RunHandle, world: str) -> None:
    """Wait until the second tool has begun: only the world can tell."""
    while len([line for line in told(world) if line.what == "begun"]) < 2:  # noqa: ASYNC110
        await asyncio.sleep(0.002)


# --- the scenarios ------------------------------------------------------------------------------


def _to_the_end(place: str, effect: str) -> Scenario:
    async def scenario(journal: Journal, witness: Witness) -> None:
        async with begun(journal, witness, place, effect) as (_, run, _world):
            await run.result()

    return scenario


def _paused(place: str, effect: str) -> Scenario:
    """Frozen in the middle of the second tool, and resumed; or it has finished by then."""

    async def scenario(journal: Journal, witness: Witness) -> None:
        async with begun(journal, witness, place, effect) as (_, run, world):
            await is_under_way(run, world)
            ack = await run.pause(by="ana")
            witness(f"ack pause r1 {ack.seq}")
            await run.wait_for(RunState.PAUSED)
            ack = await run.resume(by="ana")
            witness(f"ack resume r1 {ack.seq}")
            await run.result()

    return scenario


def _cancelled(place: str, effect: str) -> Scenario:
    async def scenario(journal: Journal, witness: Witness) -> None:
        async with begun(journal, witness, place, effect) as (_, run, world):
            await is_under_way(run, world)
            ack = await run.cancel(by="ana")
            witness(f"ack cancel r1 {ack.seq}")
            await run.wait_for(RunState.CANCELLED)

    return scenario


def _shut_down(place: str, effect: str) -> Scenario:
    """Without grace: what is under way is cut."""

    async def scenario(journal: Journal, witness: Witness) -> None:
        async with begun(journal, witness, place, effect, shutdown_grace_s=0) as (_, run, world):
            await is_under_way(run, world)

    return scenario


_HOW: Final = {
    "to_the_end": _to_the_end,
    "paused": _paused,
    "cancelled": _cancelled,
    "shut_down": _shut_down,
}
_WHAT: Final = [
    *((place, effect, "to_the_end") for place in ("process", "loop")
      for effect in ("once", "idempotent", "none")),
    ("process", "once", "paused"),
    ("process", "once", "cancelled"),
    ("loop", "once", "cancelled"),
    ("process", "once", "shut_down"),
    ("process", "idempotent", "shut_down"),
]  # fmt: skip
SCENARIOS: Final[dict[str, Scenario]] = {
    f"{place}_{effect}_{how}": _HOW[how](place, effect) for place, effect, how in _WHAT
}
globals().update(SCENARIOS)  # where whoever plays them finds them
