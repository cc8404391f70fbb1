"""Promise: no tool outlives the runtime that started it, or the switch that stops everything.

Whoever is killed in between (the runtime, its warden, whoever stands between that and the tool),
and whatever the runtime is doing at that moment: nobody is left, and nothing is lying around.
"""

import asyncio
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Final

import pytest

from pullcord.runtime.processes.warden_client import Processes
from tests.conftest import FULL
from tests.storage.campaign import fresh_seed
from tests.tools import zoo
from tests.tools.cages import BOUND_S, Animal, beasts, bring, held_by, keeper, may_all
from tests.tools.census import (
    above,
    alive,
    below,
    cgroups_of,
    gone,
    living,
    rid,
    until,
    worked_ns,
)
from tests.tools.zoo import LIVING, NOBODY

pytestmark = pytest.mark.asyncio(loop_scope="module")
ROUNDS: Final = 50 if FULL else 2
HUMBLE: Final = [("namespace", "nobody"), ("sweep", "nobody"), ("sweep", "bare")]
KINDS: Final = ("sleeps", "has_a_daemon", "has_a_child_without_its_first_thread", "nohup", "setsid")


@pytest.mark.campaign
@pytest.mark.timeout(1200)
async def test_when_the_runtime_is_killed_nobody_is_left(fence: str, den: Path) -> None:
    """In one round all are at their worst, in the next some have only just begun."""
    seed = random.Random(fresh_seed())
    for number in range(ROUNDS):
        home = den / str(number)
        async with keeper(fence, home) as runtime:
            await runtime.has(seed.randrange(1, len(beasts())) if number % 2 else 1000)
            household = below(runtime.pid)
            assert living(str(home))
            await runtime.is_killed()
        assert not await gone(str(home))
        assert await until(lambda household=household: not alive(household))
        assert await until(lambda household=household: not cgroups_of(household))


@pytest.fixture(params=HUMBLE, ids="-".join)
def humble(request: pytest.FixtureRequest) -> Iterator[tuple[str, Path, str, str]]:
    """A fence, a place and an interpreter for somebody without any rights."""
    fence, who = request.param
    with tempfile.TemporaryDirectory(prefix="den-") as place:
        os.chmod(place, 0o777)
        yield fence, Path(place), who, sys.executable if who == "bare" else for_nobody()


async def test_nobody_special_can_freeze_and_stop_the_whole_zoo(
    humble: tuple[str, Path, str, str],
) -> None:
    fence, place, who, interpreter = humble
    home = place / "home"
    async with keeper(fence, home, who=who, interpreter=interpreter) as runtime:
        await runtime.has(1000)
        await runtime.obeys("freeze")
        pids = living(str(home))
        before = worked_ns(pids)
        await asyncio.sleep(0.05)
        assert worked_ns(pids) == before
        ends = await runtime.obeys("stop")
        assert not living(str(home))
        assert ends == {name: LIVING[name].rung for name in ends}
        assert len(ends) >= len(LIVING) - 1
        await runtime.ends()


@pytest.mark.parametrize("humble", HUMBLE[:2], indirect=True, ids="-".join)
async def test_when_the_runtime_of_nobody_special_is_killed_nobody_is_left(
    humble: tuple[str, Path, str, str],
) -> None:
    fence, place, who, interpreter = humble
    home = place / "home"
    async with keeper(fence, home, who=who, interpreter=interpreter) as runtime:
        await runtime.has(20)
        assert living(str(home))
        await runtime.is_killed()
    assert not await gone(str(home))


async def test_whoever_stands_above_a_tool_and_is_killed_nobody_is_left(
    fence: str, den: Path
) -> None:
    """The warden, and whoever else there is between the runtime and a tool."""
    places = 1
    rank = 0
    while rank < places:
        async with held_by(fence) as processes:
            animals = await bring_some(processes, den / str(rank))
            line = above(one_of(animals["sleeps"]), os.getpid())[::-1]
            places = len(line)
            os.kill(line[rank], signal.SIGKILL)
            ended = await animals["sleeps"].end()
            assert not living(animals["sleeps"].den)
            assert ended.why
            if rank == 0:
                for animal in animals.values():
                    await animal.end()
                assert not living(str(den / str(rank)))
            assert await works_again(processes, den / f"after-{rank}")
        assert not await gone(str(den / str(rank)))
        rank += 1


async def test_a_stop_after_the_warden_was_killed_is_nothing(fence: str, den: Path) -> None:
    async with held_by(fence) as processes:
        animal = await bring(processes, LIVING["sleeps"], den)
        await animal.here()
        os.kill(above(one_of(animal), os.getpid())[-1], signal.SIGKILL)
        for order in (animal.process.freeze, animal.process.thaw, animal.process.hurry):
            order()
        animal.process.stop(0)
        assert (await animal.end()).began
        assert not living(animal.den)
    animal.process.stop(0)


async def test_a_runtime_that_is_let_go_of_ends_what_is_running(fence: str, den: Path) -> None:
    others = below(os.getpid())
    async with held_by(fence) as processes:
        animals = await bring_some(processes, den)
        household = below(os.getpid()) - others
    assert not living(str(den))
    assert not alive(household)
    assert not cgroups_of(household)
    assert all(animal.process.ended.done() for animal in animals.values())


async def test_what_is_left_of_a_runtime_and_its_warden_is_cleared_by_the_next(
    fence: str, den: Path
) -> None:
    """Two are killed at once. A fence alone ends its tools, or the next warden does."""
    async with keeper(fence, den / "home") as runtime:
        await runtime.has(20)
        household = below(runtime.pid)
        tools = living(str(den))
        for pid in (runtime.pid, *(household - tools)):
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        await runtime.is_killed()
    async with held_by(fence) as processes:
        another = await bring(processes, zoo.answers, den / "after")
        assert (await another.end()).status == 0
        if fence != "sweep":  # which has nobody left to do it
            assert not await gone(str(den))
            assert await until(lambda: not cgroups_of(household))
    rid(str(den))
    assert not await gone(str(den))


# --- the switch ---


@pytest.mark.parametrize("is_relative", [False, True])
async def test_nothing_starts_while_the_flag_is_raised(
    fence: str, is_relative: bool, den: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    flag = tmp_path / "runs.db.kill-switch"
    async with held_by(
        fence, store="runs.db" if is_relative else str(tmp_path / "runs.db")
    ) as processes:
        flag.touch()
        for number, what in enumerate((LIVING["sleeps"], LIVING["nohup"])):
            animal = await bring(processes, what, den / str(number))
            ended = await animal.end()
            assert (ended.began, ended.status, ended.answer) == (False, None, b"")
            assert "kill switch" in ended.why
            assert not animal.said
        flag.unlink()
        animal = await bring(processes, zoo.answers, den / "after")
        assert (await animal.end()).answer == b'{"result":"fine"}'


async def test_the_flag_kills_whatever_is_running(fence: str, den: Path, tmp_path: Path) -> None:
    flag = tmp_path / "runs.db.kill-switch"
    async with held_by(fence, store=str(tmp_path / "runs.db")) as processes:
        animals = await bring_some(processes, den)
        animals["sleeps"].process.freeze()
        await animals["sleeps"].frozen()
        flag.touch()
        ends = [await animal.end() for animal in animals.values()]
        assert not living(str(den))
        assert {end.rung for end in ends} == {"killed"}


async def test_the_flag_is_seen_while_the_runtime_stands_still(
    fence: str, den: Path, tmp_path: Path
) -> None:
    flag = tmp_path / "runs.db.kill-switch"
    async with keeper(fence, den, store=str(tmp_path / "runs.db")) as runtime:
        await runtime.has(10)
        os.kill(runtime.pid, signal.SIGSTOP)
        flag.touch()
        assert not await gone(str(den))


async def test_a_runtime_that_stands_still_can_be_killed_with_all_its_tools(
    fence: str, den: Path
) -> None:
    async with keeper(fence, den) as runtime:
        await runtime.has(10)
        os.kill(runtime.pid, signal.SIGSTOP)
        await runtime.is_killed()
    assert not await gone(str(den))


# --- helpers ---


async def bring_some(processes: Processes, den: Path) -> dict[str, Animal]:
    animals = {name: await bring(processes, LIVING[name], den / name) for name in KINDS}
    for animal in animals.values():
        await animal.here()
    return animals


async def works_again(processes: Processes, den: Path) -> bool:
    """Whether a tool can be had. What is asked for in the last moments of a warden is refused."""
    until = time.monotonic() + 10
    number = 0
    while time.monotonic() < until:
        number += 1
        animal = await bring(processes, zoo.answers, den / str(number))
        if (await animal.end()).answer == b'{"result":"fine"}':
            return True
        await asyncio.sleep(0.01)
    return False


def one_of(animal: Animal) -> int:
    (pid,) = living(animal.den)
    return pid


def for_nobody() -> str:
    """An interpreter that nobody special may run, with what we stand on."""
    if not may_all():
        return sys.executable
    for candidate in (sys.executable, "/usr/bin/python3"):
        with suppress(OSError, subprocess.CalledProcessError):
            subprocess.run(
                [candidate, "-c", "import msgspec, tests.tools.keeper"],
                env={**os.environ, "PYTHONPATH": ":".join(sys.path)},
                user=NOBODY, group=NOBODY, extra_groups=[], timeout=BOUND_S, check=True,
                stderr=subprocess.DEVNULL,
            )  # fmt: skip
            return candidate
    pytest.skip("there is no interpreter here that somebody without rights may run")
