"""A runtime in a process of its own, with agents of every kind. Its starts leave marks.

`python -m tests.switch.owner_process STORE killable|embedded AGENT=COUNT...`: starts so many runs
of each agent, says `ready` when all of them work, and goes on until somebody ends it. Each call of
a step or tool first writes when it began (CLOCK_MONOTONIC, which all processes share) to a file.
"""

import asyncio
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Final

import pullcord
from pullcord import Context, Timing, tool
from tests.tools.zoo import LIVING

LIFE_S: Final = 40
FENCE: Final = "PC_FENCE"
TICKS: Final = "while :; do echo x > work; sleep 0.02; done"
MARKS: Final = "PC_MARKS"  # (a name of our own: tools do not see those that begin with PULLCORD)


def mark(what: str) -> None:
    """One line, whole, whoever writes beside us."""
    file = os.open(os.environ[MARKS], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, f"{what} {time.monotonic_ns()}\n".encode())
    os.close(file)


def _begun(what: str) -> int:
    path = Path(os.environ[MARKS])
    return path.read_text().count(f"{what} ") if path.exists() else 0


async def beat(number: int) -> int:
    mark("beat")
    await asyncio.sleep(0)
    return number


async def beats(ctx: Context) -> None:
    """As many starts as there can be."""
    for number in range(1_000_000):
        await ctx.step("beat", beat, number)


async def sleep() -> None:
    mark("sleeps")
    await asyncio.sleep(LIFE_S)


async def sleeps(ctx: Context) -> None:
    await ctx.step("sleep", sleep)


async def wanders(_ctx: Context) -> None:
    """Code of the agent's own, at no door."""
    mark("wanders")
    await asyncio.Event().wait()


async def hold_the_loop() -> None:
    mark("blocks")
    time.sleep(LIFE_S)  # noqa: ASYNC251 (that is the point)


async def blocks(ctx: Context) -> None:
    await ctx.step("hold the loop", hold_the_loop)


async def ignore() -> None:
    mark("ignores")
    until = time.monotonic() + LIFE_S
    while time.monotonic() < until:
        try:
            await asyncio.sleep(LIFE_S)
        except asyncio.CancelledError:
            pass


async def ignores(ctx: Context) -> None:
    await ctx.step("ignore", ignore)


@tool(run_in="thread")
def wait_in_thread() -> None:
    mark("threads")
    threading.Event().wait(LIFE_S)


async def threads(ctx: Context) -> None:
    await ctx.tool(wait_in_thread)


@tool()
def works(den: str) -> None:
    mark("works")
    Path(den).mkdir(parents=True, exist_ok=True)
    os.chdir(den)
    for number in range(LIFE_S * 100):
        Path("work").write_text(str(number))
        time.sleep(0.01)


@tool()
def carries(den: str) -> None:
    """So much that it takes its time to die."""
    Path(den).mkdir(parents=True, exist_ok=True)
    os.chdir(den)
    weight = b"x" * (300 << 20)
    mark("carries")
    time.sleep(LIFE_S)
    del weight


@tool()
def leaves_a_command(den: str) -> None:
    """A command in the background, in a session of its own."""
    _move_in(den)
    subprocess.Popen(["sh", "-c", TICKS], start_new_session=True, stdin=subprocess.DEVNULL)
    mark("leaves")
    time.sleep(LIFE_S)


@tool()
def leaves_a_copy(den: str) -> None:
    """A copy of the process itself, which has never become another program."""
    _move_in(den)
    if os.fork() == 0:
        os.setsid()
        for number in range(LIFE_S * 100):
            Path("work").write_text(str(number))
            time.sleep(0.01)
        os._exit(0)
    mark("leaves")
    time.sleep(LIFE_S)


def _move_in(den: str) -> None:
    Path(den).mkdir(parents=True, exist_ok=True)
    os.chdir(den)


@tool()
def is_a_beast(den: str, name: str) -> None:
    """One of the zoo, in its den."""
    mark("beast")
    Path(den).mkdir(parents=True, exist_ok=True)
    os.chdir(den)
    what = LIVING[name].what
    if callable(what):
        what(den)
    else:
        os.execvp(what[0], [*what, den])


async def tools(ctx: Context, den: str) -> None:
    await ctx.tool(works, den)


async def commands(ctx: Context, den: str) -> None:
    await ctx.tool(leaves_a_command, den)


async def copies(ctx: Context, den: str) -> None:
    await ctx.tool(leaves_a_copy, den)


async def carriers(ctx: Context, den: str) -> None:
    await ctx.tool(carries, den)


async def zoo(ctx: Context, given: list[str]) -> None:
    await ctx.tool(is_a_beast, *given)


def _works_in(den: str) -> None:
    os.chdir(den)
    for number in range(LIFE_S * 100):
        Path("work").write_text(str(number))
        time.sleep(0.01)


async def start_children(den: str) -> None:
    """Four processes: a command, one that it is not the parent of any more, a copy of this process,
    and a worker of a pool that is at work."""
    Path(den).mkdir(parents=True, exist_ok=True)
    await asyncio.create_subprocess_exec("sh", "-c", TICKS, cwd=den)
    shell = await asyncio.create_subprocess_shell(f"({TICKS}) & :", cwd=den)
    await shell.wait()
    fork = multiprocessing.get_context("fork")
    fork.Process(target=_works_in, args=(den,)).start()
    pool = ProcessPoolExecutor(1, fork)
    work = asyncio.get_running_loop().run_in_executor(pool, _works_in, den)
    mark("children")
    await work


async def children(ctx: Context, den: str) -> None:
    await ctx.step("start children", start_children, den)


async def waits(ctx: Context) -> None:
    await ctx.ask("May I?")


AGENTS: Final = {
    "beats": beats,
    "sleeps": sleeps,
    "wanders": wanders,
    "blocks": blocks,
    "ignores": ignores,
    "threads": threads,
    "tools": tools,
    "carriers": carriers,
    "commands": commands,
    "copies": copies,
    "children": children,
    "zoo": zoo,
    "waits": waits,
}


async def _tools_have_begun(count: int) -> None:
    """While somebody holds the loop, nobody else comes to begin."""
    while _begun("works") < count:  # noqa: ASYNC110 (other processes bring it about)
        await asyncio.sleep(0.01)


async def keep(store: str, kind: str, wanted: dict[str, int]) -> None:
    timing = Timing(
        killable=kind == "killable",
        blocked_after_s=0,
        stop_grace_s=5,
        fence=os.environ.get(FENCE, "auto"),
    )
    den = Path(os.environ[MARKS]).parent / "den"
    async with pullcord.open(store, agents=AGENTS, timing=timing) as runtime:
        for agent, count in wanted.items():
            if agent == "blocks":
                await _tools_have_begun(wanted.get("tools", 0))
            for number in range(count):
                given: object = None
                if agent in ("tools", "carriers", "commands", "copies", "children"):
                    given = str(den / f"{agent}-{number}")
                if agent == "zoo":
                    name = sorted(LIVING)[number % len(LIVING)]
                    given = [str(den / f"{number}-{name}"), name]
                await runtime.start(agent, given, run_id=f"{agent}-{number}")
        print("ready", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    store, kind, *words = sys.argv[1:]
    counted = {name: int(count) for name, _, count in (word.partition("=") for word in words)}
    asyncio.run(keep(store, kind, counted))
