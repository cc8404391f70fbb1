"""Promise: a tool that is stopped is gone, with everything it has started, whatever it does
against it; and a frozen one does not move.

Nothing here takes the warden's word for it. What a tool has started is told by marks of its own
and counted in /proc (census.py), at the moment at which `ended` says that nothing is left.
"""

import asyncio
import os
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from pullcord.runtime.processes.warden_client import Processes, ToolEnd
from tests.conftest import FULL
from tests.tools import zoo
from tests.tools.cages import Animal, beasts, bring, grace_for
from tests.tools.census import LOOK_S, living, standing, until, worked_ns
from tests.tools.zoo import ENDING, LIVING, Beast

pytestmark = pytest.mark.asyncio(loop_scope="module")
every_beast = pytest.mark.parametrize("name", beasts())
some_beasts = pytest.mark.parametrize("name", list(beasts())[:: 1 if FULL else 5])
other_beasts = pytest.mark.parametrize("name", list(beasts())[1 :: 1 if FULL else 5])
ROUNDS: Final = 50 if FULL else 2


@every_beast
async def test_a_stopped_tool_is_gone_with_all_it_has_started(
    held: Processes, name: str, den: Path
) -> None:
    beast, animal = await at_its_worst(held, name, den)
    animal.process.stop(grace_for(beast))
    ended = await nothing_left(animal)
    assert ended.rung == beast.rung
    # Whoever hears of the end of a child before its own may still have the time to say so.
    assert ended.answer in (beast.answer, zoo.GARBAGE) or b'"error":"OSError' in ended.answer


@pytest.mark.campaign
@other_beasts
async def test_a_tool_that_is_killed_is_gone_with_all_it_has_started(
    held: Processes, name: str, den: Path
) -> None:
    _, animal = await at_its_worst(held, name, den)
    animal.process.hurry()
    assert (await nothing_left(animal)).rung == "killed"


@pytest.mark.campaign
@some_beasts
async def test_a_frozen_tool_does_not_move_and_can_be_stopped(
    held: Processes, name: str, den: Path
) -> None:
    beast, animal = await at_its_worst(held, name, den)
    animal.process.freeze()
    await animal.frozen()
    await does_not_move(animal)
    animal.process.thaw()
    animal.process.freeze()
    await animal.frozen()
    animal.process.stop(grace_for(beast))
    assert (await nothing_left(animal)).rung == beast.rung


@pytest.mark.parametrize("name", ["sleeps", "ignores_sigterm", "forks_on_and_on", "yes"])
async def test_a_frozen_tool_can_be_killed(held: Processes, name: str, den: Path) -> None:
    _, animal = await at_its_worst(held, name, den)
    animal.process.freeze()
    await animal.frozen()
    animal.process.hurry()
    assert (await nothing_left(animal)).rung == "killed"


@pytest.mark.parametrize("name", ENDING)
async def test_a_tool_that_ends_by_itself_leaves_nobody(
    held: Processes, name: str, den: Path
) -> None:
    beast, end = ENDING[name]
    ended = await nothing_left(await bring(held, beast, den))
    assert (ended.status, ended.left, said(ended.answer)) == (end.status, end.left, end.answer)
    assert ended.rung == ""


def said(answer: bytes) -> bytes:
    """An answer without where it was raised."""
    return re.sub(rb',"at":".*}$', b"}", answer)


async def test_a_tool_whose_child_cleans_up_is_given_its_grace(held: Processes, den: Path) -> None:
    _, animal = await at_its_worst(held, "has_a_child_that_cleans_up", den)
    animal.process.stop(60)
    await nothing_left(animal)
    assert (den / "cleaned").exists()


async def test_a_tool_that_kills_its_parent_takes_all_its_own_with_it(
    held: Processes, fence: str, den: Path
) -> None:
    for number in range(ROUNDS):
        other = bring(held, LIVING["sleeps"], den / f"other-{number}")
        animal, other = await asyncio.gather(
            bring(held, zoo.kills_its_parent, den / str(number)), other
        )
        if "namespace" in fence:  # it cannot
            await animal.until(lambda animal=animal: zoo.HERE in animal.said)
            animal.process.stop(60)
        ended = await nothing_left(animal)
        assert ended.status is None or "namespace" in fence
        assert not other.process.ended.done()
        other.process.hurry()
        await nothing_left(other)


# --- the instant in which it begins or ends ---


async def test_a_tool_that_is_frozen_as_it_begins_does_not_move(held: Processes, den: Path) -> None:
    for number in range(ROUNDS):
        animal = await bring(held, zoo.counts, den / str(number), to=20)
        animal.process.freeze()
        await animal.frozen()
        await does_not_move(animal)
        animal.process.thaw()
        assert (await nothing_left(animal)).answer == b'{"result":20}'
        assert numbers(animal) == list(range(20))


@pytest.mark.parametrize("what", [LIVING["sleeps"], LIVING["nohup"]], ids=["function", "command"])
async def test_a_stop_is_heard_as_the_tool_begins(held: Processes, what: Beast, den: Path) -> None:
    for number in range(ROUNDS):
        animal = await bring(held, what, den / str(number))
        await animal.begun()
        animal.process.stop(60)
        assert (await nothing_left(animal)).rung == "terminated"


@pytest.mark.parametrize(
    "what", [LIVING["has_a_daemon"], LIVING["setsid"]], ids=["function", "command"]
)
@pytest.mark.parametrize("has_begun", [True, False])
async def test_a_kill_is_heard_as_the_tool_begins(
    held: Processes, what: Beast, has_begun: bool, den: Path
) -> None:
    for number in range(ROUNDS):
        animal = await bring(held, what, den / str(number))
        if has_begun:
            await animal.begun()
        animal.process.hurry()
        ended = await nothing_left(animal)
        assert ended.rung == "killed" or not ended.began


async def test_of_an_end_and_a_stop_one_is_first(held: Processes, den: Path) -> None:
    for number in range(2 * ROUNDS):
        beast = Beast(zoo.ends_soon)
        animal = await bring(held, beast, den / str(number), after_s=number / 10_000)
        await animal.here()
        animal.process.stop(60)
        ended = await nothing_left(animal)
        if ended.rung == "":
            assert (ended.status, ended.answer) == (0, b'{"result":"fine"}')
        else:
            assert ended.rung == "terminated"
            assert ended.answer in (b"", b'{"result":"fine"}')


async def test_a_thaw_in_the_instant_of_its_end_does_not_keep_it(
    held: Processes, den: Path
) -> None:
    for number in range(ROUNDS):
        animal = await bring(held, zoo.leaves_ten, den / str(number))
        while not animal.process.ended.done():
            animal.process.thaw()
            await asyncio.sleep(LOOK_S / 10)
        await nothing_left(animal)


# --- what a freeze leaves as it was ---


async def test_a_tool_that_was_frozen_many_times_says_the_same(held: Processes, den: Path) -> None:
    animal = await bring(held, zoo.counts, den, to=100)
    for seen in range(10, 100, 10):
        await animal.until(lambda seen=seen: animal.lines >= seen)
        animal.process.freeze()
        await animal.frozen()
        animal.process.thaw()
    assert (await nothing_left(animal)).answer == b'{"result":100}'
    assert numbers(animal) == list(range(100))


async def test_a_shell_that_was_frozen_many_times_says_the_same(held: Processes, den: Path) -> None:
    line = "seq 0 299 | while read n; do expr $n + 0; done | cat; true"
    animal = await bring(held, ["sh", "-c", line], den)
    frozen = 0
    while not animal.process.ended.done():
        animal.process.freeze()
        await until(lambda: animal.process.is_frozen or animal.process.ended.done())
        frozen += animal.process.is_frozen
        animal.process.thaw()
        await asyncio.sleep(LOOK_S)
    assert (await nothing_left(animal)).status == 0
    assert numbers(animal) == list(range(300))
    assert frozen > ROUNDS


async def test_what_stood_still_before_a_freeze_stands_still_after_it(
    held: Processes, den: Path
) -> None:
    _, animal = await at_its_worst(held, "has_a_stopped_child", den)
    assert await until(lambda: len(standing(animal.den)) == 1)
    stopped = standing(animal.den)
    animal.process.freeze()
    await animal.frozen()
    worked = worked_ns(living(animal.den))
    animal.process.thaw()
    assert await until(lambda: worked_ns(living(animal.den)) > worked)
    assert standing(animal.den) == stopped
    animal.process.hurry()
    await nothing_left(animal)


# --- much at once ---


async def test_no_output_is_too_much(held: Processes, den: Path) -> None:
    animal = await bring(held, zoo.writes_much, den)
    assert (await nothing_left(animal)).status == 0
    assert (animal.bytes, animal.lines) == (zoo.MUCH_BYTES, zoo.MUCH_BYTES // 5 // 64 * 64)


async def test_a_line_without_an_end_is_heard(held: Processes, den: Path) -> None:
    animal = await bring(held, zoo.writes_one_long_line, den)
    assert (await nothing_left(animal)).status == 0
    assert (animal.bytes, animal.lines) == (zoo.LINE_BYTES, 0)


async def test_a_tool_is_stopped_in_the_middle_of_its_output(held: Processes, den: Path) -> None:
    animal = await bring(held, zoo.writes_much, den)
    await animal.until(lambda: animal.bytes > 1_000_000)
    animal.process.stop(60)
    assert (await nothing_left(animal)).rung == "terminated"
    assert animal.bytes < zoo.MUCH_BYTES


async def test_fifty_tools_are_stopped_at_once(held: Processes, den: Path) -> None:
    animals = [await bring(held, LIVING["sleeps"], den / str(number)) for number in range(50)]
    await asyncio.gather(*(animal.here() for animal in animals))
    for animal in animals:
        animal.process.stop(60)
    ends = await asyncio.gather(*(animal.end() for animal in animals))
    assert not living(str(den))
    assert [end.rung for end in ends] == ["terminated"] * 50


async def test_a_stop_from_another_thread_needs_no_event_loop(held: Processes, den: Path) -> None:
    _, animal = await at_its_worst(held, "has_a_daemon", den)
    threading.Thread(target=animal.process.stop, args=(0.05,)).start()
    end = time.monotonic() + 10
    while living(animal.den) and time.monotonic() < end:
        time.sleep(LOOK_S)  # noqa: ASYNC251 (the loop is blocked, and must not matter)
    assert not living(animal.den)
    assert (await nothing_left(animal)).rung == "killed"


# --- in the cgroup of a tool ---


@pytest.fixture
def another_cgroup(fence: str) -> Iterator[str]:
    if fence != "cgroup":
        pytest.skip("of cgroups only")
    place = f"{zoo.cgroup_of_this_process()}/zoo-{os.getpid()}"
    os.mkdir(place)
    yield place
    os.rmdir(place)


@pytest.mark.usefixtures("another_cgroup")
async def test_a_tool_that_hides_in_a_cgroup_of_its_own_is_found(
    held: Processes, den: Path
) -> None:
    animal = await bring(held, Beast(zoo.hides_in_a_cgroup_below), den)
    await animal.here()
    animal.process.freeze()
    await animal.frozen()
    await does_not_move(animal)
    animal.process.stop(60)
    assert (await nothing_left(animal)).rung == "terminated"
    assert await until(lambda: not os.path.exists(bytes(animal.said.split()[0])))


async def test_a_tool_that_moves_to_another_cgroup_is_found(
    held: Processes, another_cgroup: str, den: Path
) -> None:
    for number, stop in enumerate((True, False)):
        beast = Beast(zoo.moves_to_another_cgroup)
        animal = await bring(held, beast, den / str(number), place=another_cgroup)
        await animal.here()
        animal.process.freeze()
        await animal.frozen()
        await does_not_move(animal)
        animal.process.stop(60) if stop else animal.process.hurry()
        assert (await nothing_left(animal)).rung == ("terminated" if stop else "killed")


# --- what all of them are asked ---


async def at_its_worst(held: Processes, name: str, den: Path) -> tuple[Beast, Animal]:
    """Bring one and wait until it has done all that it does. It must be seen to be there."""
    beast = LIVING[name]
    animal = await bring(held, beast, den)
    await animal.here()
    assert len(living(animal.den)) >= beast.size
    return beast, animal


async def nothing_left(animal: Animal) -> ToolEnd:
    """Wait for its end. At that moment nobody is there any more."""
    ended = await animal.end()
    assert not living(animal.den)
    assert not ended.survivors
    return ended


async def does_not_move(animal: Animal) -> None:
    """Whatever was on its way has arrived; after that there is no output, and no work done."""
    heard = -1

    def is_silent() -> bool:
        nonlocal heard
        before, heard = heard, animal.bytes
        return before == heard

    assert await until(is_silent)
    pids = living(animal.den)
    before = (worked_ns(pids), animal.bytes)
    for _ in range(5):
        await asyncio.sleep(LOOK_S)
        assert (worked_ns(pids), animal.bytes) == before
    assert living(animal.den) == pids


def numbers(animal: Animal) -> list[int]:
    return [int(line) for line in animal.said.split()]
