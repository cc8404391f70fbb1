"""Promise: whatever is started comes to an end that is told, however badly it starts, and no start
does any harm to another."""

import asyncio
import os
from pathlib import Path
from typing import Final

import pytest

from pullcord.runtime.processes.warden_client import Processes
from tests.tools import zoo
from tests.tools.cages import bring, held_by
from tests.tools.census import alive, below, living, until
from tests.tools.zoo import LIFE_S, LIVING

pytestmark = pytest.mark.asyncio(loop_scope="module")
FINE: Final = b'{"result":"fine"}'
HANGS: Final = f"import time; print('here', flush=True); time.sleep({LIFE_S})"
HANGS_THE_SECOND_TIME: Final = f"""
import os, time
if "PULLCORD_CALL" not in os.environ: time.sleep({LIFE_S})
"""
STARTS_A_THREAD: Final = f"""
import threading, time
threading.Thread(target=time.sleep, args=({LIFE_S},), daemon=True).start()
"""
STARTS_A_PROCESS: Final = f"""
import subprocess
subprocess.Popen(["sh", "-c", "sleep {LIFE_S}; :", "DEN"], cwd="DEN")
"""
STARTS_A_DAEMON: Final = f"""
import os, time
if os.fork() == 0:
    os.chdir("DEN")
    os.setsid()
    if os.fork() == 0:
        time.sleep({LIFE_S})
    os._exit(0)
os.wait()
"""


@pytest.mark.parametrize(
    "text",
    ["raise ValueError('no')", "import no_such_module", "this is no Python", "raise SystemExit(3)"],
)
async def test_a_module_that_cannot_be_imported_began_nothing(
    held: Processes, text: str, den: Path, tmp_path: Path
) -> None:
    for number in range(2):
        animal = await bring(held, module(tmp_path, text), den / str(number))
        ended = await animal.end()
        assert (ended.status, ended.left) == (0, 0)
        assert b'"began": false' in ended.answer


async def test_a_module_that_is_not_there_began_nothing(held: Processes, den: Path) -> None:
    nowhere = {"module": "no_such", "file": "/no/such.py", "name": "tool"}
    assert b'"began": false' in (await (await bring(held, nowhere, den)).end()).answer


async def test_a_command_that_is_not_there_began_nothing(held: Processes, den: Path) -> None:
    ended = await (await bring(held, ["/no/such/command"], den)).end()
    assert ended.status == 127
    assert b'"began": false' in ended.answer


async def test_an_import_that_ends_the_process_ends_only_its_call(
    held: Processes, den: Path, tmp_path: Path
) -> None:
    animal = await bring(held, module(tmp_path, "import os; os._exit(7)"), den / "0")
    assert ((await animal.end()).status, animal.process.ended.result().answer) == (7, b"")
    await works(held, den / "1")


async def test_an_import_that_hangs_can_be_stopped(
    held: Processes, den: Path, tmp_path: Path
) -> None:
    animal = await bring(held, module(tmp_path, HANGS), den / "0")
    await animal.until(lambda: b"here" in animal.said)
    await works(held, den / "1")
    animal.process.stop(60)
    assert (await animal.end()).rung == "terminated"
    assert not living(animal.den)


async def test_an_import_that_hangs_the_second_time_hangs_nobody_else(
    fence: str, den: Path, tmp_path: Path
) -> None:
    async with held_by(fence) as processes:
        for number in range(3):
            animal = await bring(
                processes, module(tmp_path, HANGS_THE_SECOND_TIME), den / str(number)
            )
            assert (await animal.end()).answer == FINE
        await works(processes, den / "other")


async def test_a_module_that_starts_a_thread_works_each_time(
    held: Processes, den: Path, tmp_path: Path
) -> None:
    for number in range(3):
        animal = await bring(held, module(tmp_path, STARTS_A_THREAD), den / str(number))
        assert (await animal.end()).answer == FINE


@pytest.mark.parametrize("text", [STARTS_A_PROCESS, STARTS_A_DAEMON], ids=["process", "daemon"])
async def test_what_an_import_has_started_ends_with_its_call(
    fence: str, text: str, den: Path, tmp_path: Path
) -> None:
    place = module(tmp_path, text.replace("DEN", str(den)))
    den.mkdir()
    others = below(os.getpid())
    async with held_by(fence) as processes:
        for number in range(3):
            ended = await (await bring(processes, place, den / str(number))).end()
            assert ended.answer == FINE
        await works(processes, den / "other")
        household = below(os.getpid()) - others
    assert not living(str(den))
    assert not alive(household)


async def test_fifty_calls_at_once_all_end(held: Processes, den: Path) -> None:
    animals = await asyncio.gather(
        *(bring(held, zoo.answers, den / f"function-{number}") for number in range(50)),
        *(bring(held, ["echo", str(number)], den / f"command-{number}") for number in range(50)),
    )
    ends = [await animal.end() for animal in animals]
    assert [end.answer for end in ends] == [FINE] * 50 + [b""] * 50
    assert [end.status for end in ends] == [0] * 100
    assert [int(animal.said) for animal in animals[50:]] == list(range(50))


async def test_many_calls_with_a_large_environment_all_end(fence: str, den: Path) -> None:
    env = {f"LARGE_{number}": "x" * 1000 for number in range(60)}
    async with held_by(fence) as processes:
        animals = [await bring(processes, zoo.answers, den / str(n), env=env) for n in range(30)]
        assert [(await animal.end()).answer for animal in animals] == [FINE] * 30


@pytest.mark.parametrize("size", [150_000, 200_000, 400_000, 2_000_000])
async def test_an_order_may_be_too_large_but_harms_nobody(fence: str, size: int, den: Path) -> None:
    words = ["x" * 50_000] * (size // 50_000)
    async with held_by(fence) as processes:
        other = await bring(processes, LIVING["sleeps"], den / "other")
        await other.here()
        ended = await (await bring(processes, ["echo", *words], den / "large")).end()
        assert ended.status == 0 if ended.began else ended.why
        assert not other.process.ended.done()
        other.process.stop(60)
        assert (await other.end()).rung == "terminated"


async def test_an_argument_may_be_large(held: Processes, den: Path) -> None:
    animal = await bring(held, zoo.measures, den, text="x" * 10_000_000)
    assert (await animal.end()).answer == b'{"result":10000000}'


async def test_two_wardens_do_not_know_each_other(fence: str, den: Path) -> None:
    async with held_by(fence) as one:
        mine = await bring(one, LIVING["has_a_daemon"], den / "one")
        async with held_by(fence) as two:
            theirs = await bring(two, LIVING["has_a_daemon"], den / "two")
            await asyncio.gather(mine.here(), theirs.here())
        assert not living(theirs.den)
        assert not mine.process.ended.done()
        mine.process.hurry()
        assert (await mine.end()).rung == "killed"


async def test_a_runtime_can_be_let_go_of_while_its_warden_starts(fence: str, den: Path) -> None:
    others = below(os.getpid())
    processes = Processes(fence=fence)
    start = asyncio.create_task(bring(processes, LIVING["sleeps"], den))
    assert await until(lambda: bool(below(os.getpid()) - others))
    await processes.aclose()
    (result,) = await asyncio.gather(start, return_exceptions=True)
    assert isinstance(result, Exception)
    assert not living(str(den))


async def test_nothing_of_a_call_is_left_with_the_warden(fence: str, den: Path) -> None:
    async with held_by(fence) as processes:
        await works(processes, den / "first")
        before = below(os.getpid())
        for number, (beast, _) in enumerate(zoo.ENDING.values()):
            await (await bring(processes, beast, den / str(number))).end()
        assert await until(lambda: below(os.getpid()) <= before)


# --- helpers ---


def module(place: Path, text: str) -> dict[str, str]:
    """Where a tool is, in a module that does this when it is imported."""
    name = f"module_{abs(hash((str(place), text)))}"
    file = place / f"{name}.py"
    file.write_text(f"{text}\ndef tool(den):\n    return 'fine'\n")
    return {"module": name, "file": str(file), "name": "tool"}


async def works(processes: Processes, den: Path) -> None:
    assert (await (await bring(processes, zoo.answers, den)).end()).answer == FINE
