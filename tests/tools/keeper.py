"""A runtime in a process of its own, with the whole zoo running, to be killed.

`python -m tests.tools.keeper FENCE WHO`, with the home of the zoo and the path of a store on its
input, so that it bears no mark of a den. It says who is here, one line each, and then `all`. On
`freeze` it freezes all of them, on `stop` it stops them and says how they ended. `bare`: it gives
up all that makes it special.
"""

import asyncio
import ctypes
import json
import os
import sys
from pathlib import Path
from typing import Final

from pullcord.runtime.processes.warden_client import Processes
from tests.tools.cages import Animal, beasts, bring, grace_for

BOUND_S: Final = 60
_PR_CAPBSET_DROP: Final = 24
_CAPABILITIES: Final = 64


async def keep(fence: str, home: Path, store: str) -> None:
    processes = Processes(fence=fence, store=store)
    zoo: dict[str, Animal] = {}
    async with asyncio.timeout(BOUND_S):
        for is_busy in (False, True):  # these leave little of the machine to the others
            chosen = {name: beast for name, beast in beasts().items() if beast.is_busy == is_busy}
            new = {n: await bring(processes, beast, home / n) for n, beast in chosen.items()}
            assert processes.kind == fence
            await asyncio.gather(*(introduce(name, animal) for name, animal in new.items()))
            zoo |= new
    say("all")
    while order := (await asyncio.to_thread(sys.stdin.readline)).strip():
        async with asyncio.timeout(BOUND_S):
            say(json.dumps(await obey(order, zoo)))
    await processes.aclose()


async def introduce(name: str, animal: Animal) -> None:
    await animal.here()
    say(name)


async def obey(order: str, zoo: dict[str, Animal]) -> dict[str, str]:
    for name, animal in zoo.items():
        if order == "freeze":
            animal.process.freeze()
        else:
            animal.process.stop(grace_for(beasts()[name]))
    if order == "freeze":
        await asyncio.gather(*(animal.frozen() for animal in zoo.values()))
        return {}
    ends = await asyncio.gather(*(animal.end() for animal in zoo.values()))
    return {name: end.rung for name, end in zip(zoo, ends, strict=True)}


def say(text: str) -> None:
    print(text, flush=True)


def become_bare() -> None:
    """Give up everything that a superuser may. It takes effect with the next program."""
    for number in range(_CAPABILITIES):
        ctypes.CDLL(None).prctl(_PR_CAPBSET_DROP, number, 0, 0, 0)
    os.execv(sys.executable, [sys.executable, "-m", "tests.tools.keeper", sys.argv[1], ""])


if __name__ == "__main__":
    if sys.argv[2] == "bare":
        become_bare()
    home, store = json.loads(sys.stdin.readline())
    asyncio.run(keep(sys.argv[1], Path(home), store))
